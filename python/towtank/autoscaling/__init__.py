"""Autoscalers' algorithms as pure functions: Knative's KPA, Kubernetes' HPA, OpenWhisk's pool. No clock, no I/O."""
