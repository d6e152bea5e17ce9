"""Kubernetes' horizontal pod autoscaler (HPA), written after its published algorithm (docs/autoscaling.md, 2)."""
