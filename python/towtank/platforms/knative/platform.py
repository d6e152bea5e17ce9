"""The `knative` platform: objects of Knative Serving, created and removed as the `kubernetes` platform does it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from towtank.platforms.base import Cancelled
from towtank.platforms.kubernetes.client import ApiClient, ApiError
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.kubernetes.kinds import CONFIG_MAP, DEPLOYMENT, KNATIVE_REVISION
from towtank.platforms.kubernetes.platform import KubernetesPlatform

SYSTEM = "knative-serving"
"""Where Knative's own parts and settings are."""
SETTINGS = ("config-autoscaler", "config-defaults", "config-network")
"""ConfigMaps that decide how functions are scaled and reached; kept with each run."""


class KnativeDeployment(KubernetesDeployment):
    """Functions and Services on Knative, and whatever else belongs to them."""

    _facts: Mapping[str, Any] = MappingProxyType({})

    def wait_ready(self, *, cancelled: Cancelled) -> None:
        """As of any deployment in a cluster; then Knative's settings are written down, as they are for this run."""
        super().wait_ready(cancelled=cancelled)
        self._facts = facts(self._api, self._namespace)

    def describe(self) -> dict[str, Any]:
        """As of any deployment in a cluster, with the revisions and the settings that Knative had for them."""
        return {**super().describe(), "knative": dict(self._facts)}


class KnativePlatform(KubernetesPlatform):
    """Creates what Knative makes functions of, and removes it again."""

    name = "knative"
    deployment: ClassVar[type[KubernetesDeployment]] = KnativeDeployment


def facts(api: ApiClient, namespace: str) -> dict[str, Any]:
    """Revisions of a namespace, and Knative's settings as they are now; without what may not be read."""
    found: dict[str, Any] = {"settings": {name: data for name in SETTINGS if (data := _settings(api, name))}}
    try:
        controller = api.find(DEPLOYMENT.path(SYSTEM, "controller"))
        if controller is not None:
            marks = controller["metadata"].get("labels") or {}
            found["version"] = marks.get("app.kubernetes.io/version")
            found["images"] = [one["image"] for one in controller["spec"]["template"]["spec"]["containers"]]
    except ApiError as error:
        if error.code != 403:
            raise
    revisions, _ = api.list(KNATIVE_REVISION.path(namespace))
    found["revisions"] = [
        {
            "name": one["metadata"]["name"],
            "annotations": one["metadata"].get("annotations") or {},
            "container_concurrency": one["spec"].get("containerConcurrency"),
            "images": [container["image"] for container in one["spec"].get("containers") or []],
        }
        for one in revisions
    ]
    return found


def _settings(api: ApiClient, name: str) -> dict[str, str]:
    """Data of one ConfigMap without its example."""
    try:
        found = api.find(CONFIG_MAP.path(SYSTEM, name)) or {}
    except ApiError as error:
        if error.code != 403:
            raise
        return {}
    return {key: value for key, value in (found.get("data") or {}).items() if key != "_example"}
