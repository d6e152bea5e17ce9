"""The `prometheus` source: queries of the experiment file, asked of a Prometheus server over its HTTP API."""
