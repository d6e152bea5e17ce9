"""Autoscaling of local processes: an ingress in front, a policy that decides, a controller that starts and ends."""
