"""Deployments of the small application in the cluster that tests were given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.waiting import eventually
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.kubernetes.platform import KubernetesPlatform

SUPPORT = Path(__file__).parent
IMAGE = "Deployment/app:spec.template.spec.containers[app].image"
Make = Callable[..., KubernetesConfig]
Deploy = Callable[..., KubernetesDeployment]


def config_for(cluster: Any, **keys: Any) -> KubernetesConfig:
    """The small application on that cluster, with these keys changed; `set` is added to."""
    base = {
        "platform": "kubernetes", "context": cluster.context, "kubeconfig": str(Path(cluster.kubeconfig).resolve()),
        "manifests": ["manifests/app.yaml"], "ready": {"http": "/healthz", "timeout": "120s"},
    }  # fmt: skip
    fields = {IMAGE: cluster.image, **keys.pop("set", {})}
    return KubernetesConfig.model_validate({**base, "set": fields, **keys})


@contextmanager
def deployed(
    config: KubernetesConfig, context: DeployContext, *, ready: bool = True
) -> Iterator[KubernetesDeployment]:
    """A deployment for the time of a test."""
    deployment = KubernetesPlatform().deploy(config, context)
    try:
        if ready:
            deployment.wait_ready(cancelled=lambda: None)
        yield deployment
    finally:
        deployment.remove()


def wait_for(holds: Callable[[], Any], within_s: float = 60.0) -> Any:
    """As `eventually`, at the pace of a cluster."""
    return eventually(holds, within_s, every_s=0.1)


def patched(**container: Any) -> dict[str, Any]:
    """A patch of the application's container."""
    spec = {"containers": [{"name": "app", **container}]}
    return {"target": "Deployment/app", "merge": {"spec": {"template": {"spec": spec}}}}
