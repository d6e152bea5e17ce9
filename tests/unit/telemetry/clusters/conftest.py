"""A deployment of two pods in a cluster in memory, and what it is looked at with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from support.fake_cluster import FakeCluster
from support.fake_deployment import cluster, context, listening, make, root, server  # noqa: F401 - fixtures
from support.fake_telemetry import FakeKubelets
from towtank.clock import RunClock
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.kubernetes.platform import KubernetesPlatform
from towtank.telemetry.base import ObserveContext


@pytest.fixture
def kubelets(cluster: FakeCluster) -> FakeKubelets:  # noqa: F811 - the fixture
    return FakeKubelets(cluster)


@pytest.fixture
def deployment(
    make: Callable[..., KubernetesConfig],  # noqa: F811 - the fixture
    context: DeployContext,  # noqa: F811 - the fixture
    kubelets: FakeKubelets,
) -> Iterator[KubernetesDeployment]:
    made = KubernetesPlatform().deploy(make(set={"Deployment/app:spec.replicas": 2}), context)
    try:
        made.wait_ready(cancelled=lambda: None)
        yield made
    finally:
        made.remove()


@pytest.fixture
def observe(deployment: KubernetesDeployment) -> ObserveContext:
    return ObserveContext(RunClock(time.monotonic_ns()), 1.0, [], deployment=deployment)
