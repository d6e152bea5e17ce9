package functions;

import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.http.HttpServletRequest;
import java.io.IOException;
import java.net.URI;
import java.time.Duration;
import java.util.UUID;
import java.util.function.Function;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.function.cloudevent.CloudEventMessageBuilder;
import org.springframework.context.annotation.Bean;
import org.springframework.messaging.Message;
import org.springframework.messaging.MessageHeaders;
import org.springframework.messaging.support.MessageBuilder;
import org.springframework.web.context.request.RequestContextHolder;
import org.springframework.web.context.request.ServletRequestAttributes;

/** The function, and what serves one instance of it. */
@SpringBootApplication
public class Application {
  private static final String JSON = "application/json";

  public static void main(String[] arguments) {
    SpringApplication.run(Application.class, arguments);
  }

  @Bean
  Instance instance() {
    return new Instance("springboot", System.getenv());
  }

  /** Answers one request. A message has no place for a query, and none for what an event was that could not be read. */
  @Bean
  Function<Message<byte[]>, Message<Answer>> function(Instance instance, ObjectMapper json) {
    return message -> {
      HttpServletRequest request = ((ServletRequestAttributes) RequestContextHolder.currentRequestAttributes()).getRequest();
      boolean isEvent = Front.meansEvent(request);
      if (isEvent) {
        refuseIncomplete(message.getHeaders());
      }
      Work asked = isEvent ? Work.ofData(read(json, message.getPayload())) : Work.ofQuery(request.getQueryString());
      double sleptS = slept(asked.sleep());
      Answer answer = instance.answer(Front.isCold(request), sleptS, asked.carryOutBurn());
      return isEvent ? event(answer) : MessageBuilder.withPayload(answer).setHeader(MessageHeaders.CONTENT_TYPE, JSON).build();
    };
  }

  private static double slept(Duration sleep) {
    if (sleep.isZero()) {
      return 0;
    }
    long began = System.nanoTime();
    try {
      Thread.sleep(sleep.toMillis(), sleep.toNanosPart() % 1_000_000);
    } catch (InterruptedException ending) {
      Thread.currentThread().interrupt();
    }
    return (System.nanoTime() - began) / 1e9;
  }

  private static Object read(ObjectMapper json, byte[] data) {
    try {
      return data.length == 0 ? null : json.readValue(data, Object.class);
    } catch (IOException wrong) {
      return data; // no JSON: refused with what is allowed
    }
  }

  private static void refuseIncomplete(MessageHeaders headers) {
    for (String name : new String[] {"id", "source", "type", "specversion"}) {
      if (headers.get("ce-" + name) == null) {
        throw new Refused("not a CloudEvent: id, source, type and specversion are required");
      }
    }
    if (!"1.0".equals(headers.get("ce-specversion"))) {
      throw new Refused("CloudEvents of version 1.0 are answered, not " + headers.get("ce-specversion"));
    }
  }

  private static Message<Answer> event(Answer answer) {
    return CloudEventMessageBuilder.withData(answer)
        .setId(UUID.randomUUID().toString())
        .setType("towtank.function.answer")
        .setSource(URI.create("/functions/springboot"))
        .setHeader(MessageHeaders.CONTENT_TYPE, JSON)
        .build("ce-");
  }
}
