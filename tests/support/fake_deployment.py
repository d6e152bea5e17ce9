"""Fixtures: a cluster in memory, and deployments in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.fake_cluster import FakeCluster, FakeServer, listening_port
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.config import KubernetesConfig

MANIFESTS = Path(__file__).parent / "manifests"
_numbers = itertools.count(1)


@pytest.fixture
def listening() -> Iterator[int]:
    with listening_port() as port:
        yield port


@pytest.fixture
def cluster(listening: int) -> FakeCluster:
    return FakeCluster(node_port=listening)


@pytest.fixture
def server(cluster: FakeCluster) -> Iterator[FakeServer]:
    with FakeServer(cluster) as running:
        yield running


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of an experiment, with the manifests of the small application."""
    (tmp_path / "app.yaml").write_text((MANIFESTS / "app.yaml").read_text())
    return tmp_path


@pytest.fixture
def make(server: FakeServer, root: Path) -> Callable[..., KubernetesConfig]:
    """A config for the cluster, with these keys changed."""
    kubeconfig = server.write_kubeconfig(root / "kubeconfig")

    def made(**keys: Any) -> KubernetesConfig:
        base = {
            "platform": "kubernetes",
            "context": "fake",
            "kubeconfig": str(kubeconfig),
            "manifests": ["app.yaml"],
        }
        return KubernetesConfig.model_validate({**base, **keys})

    return made


@pytest.fixture
def context(root: Path) -> DeployContext:
    number = next(_numbers)
    return DeployContext(
        "shop", f"tt-test-{number}", root / f"data-{number}", root / "logs", root, experiment="a study"
    )
