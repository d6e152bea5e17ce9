package functions;

import com.fasterxml.jackson.core.JsonProcessingException;
import io.quarkus.funqy.runtime.ApplicationException;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.json.JsonObject;
import io.vertx.ext.web.Router;
import io.vertx.ext.web.RoutingContext;
import jakarta.enterprise.context.ApplicationScoped;
import jakarta.enterprise.event.Observes;

/** What Funqy leaves to HTTP: the headers of every answer, and the status of what was refused. */
@ApplicationScoped
public class Front {
  private static final String COLD = "cold";
  private static final int FIRST = -1000;

  private final Instance instance = new Instance("quarkus", System.getenv());

  Instance instance() {
    return instance;
  }

  static boolean isCold(RoutingContext request) {
    return request.get(COLD);
  }

  void stand(@Observes Router router) {
    router.route("/").order(FIRST).handler(this::begin).failureHandler(this::refuse);
  }

  private void begin(RoutingContext context) {
    boolean cold = instance.isCold();
    context.put(COLD, cold);
    context.response().putHeader("X-Instance", instance.name()).putHeader("X-Cold-Start", String.valueOf(cold));
    HttpServerRequest request = context.request();
    if (request.getHeader("Ce-Specversion") != null && request.getHeader("Ce-Id") == null) {
      context.fail(new Refused("not a CloudEvent: id is required")); // Funqy would take it for a plain request
    } else {
      context.next();
    }
  }

  private void refuse(RoutingContext context) {
    Throwable why = context.failure();
    if (why instanceof ApplicationException && why.getCause() != null) {
      why = why.getCause(); // Funqy wraps what a function throws
    }
    if (why instanceof Refused || why instanceof JsonProcessingException) {
      String said = why instanceof Refused ? why.getMessage() : "not a CloudEvent: its body is no JSON";
      context.response().setStatusCode(400).putHeader("Content-Type", "application/json");
      context.response().end(JsonObject.of("error", said).encode());
    } else {
      context.next();
    }
  }
}
