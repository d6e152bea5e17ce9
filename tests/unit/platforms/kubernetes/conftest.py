"""A cluster in memory, and deployments in it."""

from support.fake_deployment import cluster, context, listening, make, root, server  # noqa: F401 - fixtures
