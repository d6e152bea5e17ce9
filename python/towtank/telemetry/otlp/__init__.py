"""OpenTelemetry: receives the spans of an application over OTLP/HTTP while a run is observed."""
