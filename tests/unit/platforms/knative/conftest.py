"""A cluster in memory with Knative in it, and deployments there."""

from support.fake_deployment import cluster, context, listening, make, root, server  # noqa: F401 - fixtures
