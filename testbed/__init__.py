"""A real Kubernetes on one machine, in namespaces of its own: `python -m testbed up`; see docs/testbed.md."""
