"""OpenWhisk's balancer, container pool and limits, written after the published code (docs/autoscaling.md, 3)."""
