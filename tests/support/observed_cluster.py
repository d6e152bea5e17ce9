"""The small application in a cluster in memory, for telemetry that only looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.fake_cluster import FakeCluster, FakeServer, listening_port
from support.fake_deployment import MANIFESTS
from support.fake_telemetry import FakeKubelets
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.kubernetes.platform import KubernetesPlatform


@contextmanager
def observed_cluster(root: Path) -> Iterator[tuple[FakeCluster, KubernetesDeployment, KubernetesConfig]]:
    """The cluster, whose kubelets and metrics API answer, and the deployment in it, which is ready."""
    (root / "app.yaml").write_text((MANIFESTS / "app.yaml").read_text())
    with listening_port() as port, FakeServer(FakeCluster(node_port=port)) as server:
        FakeKubelets(server.cluster)
        kubeconfig = server.write_kubeconfig(root / "kubeconfig")
        keys = {
            "platform": "kubernetes",
            "context": "fake",
            "kubeconfig": str(kubeconfig),
            "manifests": ["app.yaml"],
        }
        config = KubernetesConfig.model_validate(keys)
        made = KubernetesPlatform().deploy(
            config, DeployContext("shop", "tt-1", root / "data", root / "logs", root)
        )
        try:
            made.wait_ready(cancelled=lambda: None)
            yield server.cluster, made, config
        finally:
            made.remove()
