package functions;

import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;

/** One instance of the function: made once, asked by every request. */
public final class Instance {
  private final String runtime;
  private final String name;
  private final AtomicBoolean wasAsked = new AtomicBoolean();

  public Instance(String runtime, Map<String, String> variables) {
    this.runtime = runtime;
    this.name = nameOf(runtime, variables);
  }

  public String name() {
    return name;
  }

  /** Whether this is the first request; to be asked once by each. */
  public boolean isCold() {
    return !wasAsked.getAndSet(true);
  }

  public Answer answer(boolean cold, double sleptS, double burnedS) {
    double uptimeS = ManagementFactory.getRuntimeMXBean().getUptime() / 1e3;
    return new Answer(runtime, name, cold, uptimeS, sleptS, burnedS);
  }

  private static String nameOf(String runtime, Map<String, String> variables) {
    String given = variables.getOrDefault("INSTANCE", "");
    String pod = variables.containsKey("KUBERNETES_SERVICE_HOST") ? variables.getOrDefault("HOSTNAME", "") : "";
    String random = runtime + "-" + UUID.randomUUID().toString().replace("-", "").substring(0, 16);
    return !given.isEmpty() ? given : !pod.isEmpty() ? pod : random;
  }
}
