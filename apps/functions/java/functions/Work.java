package functions;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What a request asks for: read from a query or an event's data. */
public record Work(Duration sleep, Duration burn) {
  private static final Pattern DURATION = Pattern.compile("([0-9]{1,6}(?:\\.[0-9]{1,6})?)(ms|s)");
  private static final Map<String, Integer> MOST_S = Map.of("sleep", 20, "burn", 5);
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static volatile long burned;

  /** Reads {@code sleep=1s&burn=20ms}. */
  public static Work ofQuery(String query) {
    Map<String, Object> texts = new HashMap<>();
    if (query != null && !query.isEmpty()) {
      for (String pair : query.split("&")) {
        int equals = pair.indexOf('=');
        String name = decoded(equals < 0 ? pair : pair.substring(0, equals));
        if (texts.put(name, equals < 0 ? "" : decoded(pair.substring(equals + 1))) != null) {
          throw new Refused(name + " is given twice; once is allowed");
        }
      }
    }
    return of(texts);
  }

  /** Takes the data of an event: a JSON object as a map, or nothing. */
  public static Work ofData(Object data) {
    if (data == null) {
      return of(Map.of());
    }
    if (data instanceof Map<?, ?> texts) {
      return of(texts);
    }
    throw new Refused("the event's data must be a JSON object, such as {\"sleep\": \"1s\"}");
  }

  private static String decoded(String text) {
    try {
      return URLDecoder.decode(text, StandardCharsets.UTF_8);
    } catch (IllegalArgumentException wrong) {
      throw new Refused("the query cannot be read at " + text + ": " + wrong.getMessage());
    }
  }

  private static Work of(Map<?, ?> texts) {
    Map<String, Duration> asked = new HashMap<>(Map.of("sleep", Duration.ZERO, "burn", Duration.ZERO));
    texts.forEach(
        (name, text) -> {
          Integer mostS = MOST_S.get(name);
          if (mostS == null) {
            throw new Refused("there is no parameter \"" + name + "\"; known are sleep and burn");
          }
          Matcher form = DURATION.matcher(text instanceof String given ? given : "");
          double seconds = form.matches() ? Double.parseDouble(form.group(1)) / (form.group(2).equals("ms") ? 1e3 : 1) : -1;
          if (seconds < 0 || seconds > mostS) {
            throw new Refused(name + " must be from 0s to " + mostS + "s, such as 20ms or 1.5s, not \"" + text + "\"");
          }
          asked.put((String) name, Duration.ofNanos(Math.round(seconds * 1e9)));
        });
    return new Work(asked.get("sleep"), asked.get("burn"));
  }

  /** Computes until this thread has used so much processor time as was asked for; returns how much it was, in seconds. */
  public double carryOutBurn() {
    if (burn.isZero()) {
      return 0;
    }
    long began = THREADS.getCurrentThreadCpuTime();
    long state = 1;
    while (true) {
      for (int i = 0; i < 4096; i++) {
        state ^= state << 13;
        state ^= state >>> 7;
        state ^= state << 17;
      }
      burned = state; // so that it has to be computed
      long used = THREADS.getCurrentThreadCpuTime() - began;
      if (used >= burn.toNanos()) {
        return used / 1e9;
      }
    }
  }
}
