"""Knative's pod autoscaler (KPA), written after its published algorithm (docs/autoscaling.md, 1)."""
