package functions;

import io.quarkus.funqy.Context;
import io.quarkus.funqy.Funq;
import io.quarkus.funqy.knative.events.CloudEvent;
import io.quarkus.funqy.knative.events.CloudEventMapping;
import io.quarkus.vertx.http.runtime.CurrentVertxRequest;
import io.smallrye.mutiny.Uni;
import io.vertx.ext.web.RoutingContext;
import jakarta.inject.Inject;

/** The function, as Funqy calls it. */
public class Function {
  @Inject Front front;
  @Inject CurrentVertxRequest current;

  /**
   * Answers one request.
   *
   * @param data the data of an event, or the body of a plain request, which is not looked at
   * @param event the event, or nothing
   */
  @Funq
  @CloudEventMapping(responseSource = "/functions/quarkus", responseType = "towtank.function.answer")
  public Uni<Answer> function(Object data, @Context CloudEvent<?> event) {
    RoutingContext request = current.getCurrent();
    if (event != null) {
      refuseIncomplete(event);
    }
    Work asked = event != null ? Work.ofData(data) : Work.ofQuery(request.request().query());
    boolean cold = Front.isCold(request);
    if (asked.sleep().isZero()) {
      return Uni.createFrom().item(front.instance().answer(cold, 0, asked.carryOutBurn()));
    }
    long began = System.nanoTime();
    return Uni.createFrom()
        .voidItem()
        .onItem()
        .delayIt()
        .by(asked.sleep())
        .map(
            nothing -> {
              double sleptS = (System.nanoTime() - began) / 1e9;
              return front.instance().answer(cold, sleptS, asked.carryOutBurn());
            });
  }

  private static void refuseIncomplete(CloudEvent<?> event) {
    if (!"1.0".equals(event.specVersion())) {
      throw new Refused("CloudEvents of version 1.0 are answered, not " + event.specVersion());
    }
    if (event.id() == null || event.source() == null || event.type() == null) {
      throw new Refused("not a CloudEvent: id, source and type are required");
    }
  }
}
