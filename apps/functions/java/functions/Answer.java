package functions;

import com.fasterxml.jackson.annotation.JsonProperty;

/** What every request is told. */
public record Answer(
    String runtime,
    String instance,
    boolean cold,
    @JsonProperty("uptime_s") double uptimeS,
    @JsonProperty("slept_s") double sleptS,
    @JsonProperty("burned_s") double burnedS) {}
