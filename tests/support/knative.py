"""Knative Services of a test, asked for through the ingress as anybody outside would; and what its parts count."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import httpx
from testbed.settings import FUNCTION_DOMAIN, INGRESS_SERVICE

from support.cluster import Cluster, eventually

INGRESS = f"http://{INGRESS_SERVICE}"
COUNTERS = f"{INGRESS}:8002/stats/prometheus"
READY_WITHIN_S = 120
SHORT = {"timeoutSeconds": 30}
"""Pods may take as long to end as a request to be answered, and a namespace half of that to see that they have."""
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Sample:
    """One line of what Prometheus would read."""

    name: str
    labels: dict[str, str]
    value: float


def samples(url: str) -> list[Sample]:
    """What an endpoint tells now."""
    text = httpx.get(url, timeout=10, trust_env=False).text
    found = [_SAMPLE.match(line) for line in text.splitlines() if not line.startswith("#")]
    return [Sample(one[1], dict(_LABEL.findall(one[2] or "")), float(one[3])) for one in found if one]


def counted(name: str, cluster: str) -> float:
    """What Envoy counted of one revision (`namespace_revision_80`) under a name, without `envoy_cluster_`."""
    return sum(
        one.value
        for one in samples(COUNTERS)
        if one.name == f"envoy_cluster_{name}" and one.labels.get("envoy_cluster_name") == cluster
    )


@dataclass(frozen=True)
class Functions:
    """A namespace with Knative Services in it."""

    cluster: Cluster
    namespace: str

    def host(self, name: str) -> str:
        """What is asked for at the ingress."""
        return f"{name}.{self.namespace}.{FUNCTION_DOMAIN}"

    def apply(self, name: str, template: dict[str, Any], **spec: Any) -> None:
        """Create a Service, or change it; `template` is metadata and the rest of what its pods are made of."""
        metadata, rest = template.pop("metadata", {}), dict(template)
        container = {
            "image": self.cluster.image,
            "ports": [{"containerPort": 8080}],
            **rest.pop("container", {}),
        }
        body = {
            "apiVersion": "serving.knative.dev/v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "template": {"metadata": metadata, "spec": {**SHORT, "containers": [container], **rest}},
                **spec,
            },
        }
        self.cluster.kubectl("apply", "-f", "-", text=json.dumps(body))

    def wait_ready(self, name: str) -> dict[str, Any]:
        """Until all of the newest is ready."""

        def ready() -> dict[str, Any] | None:
            found = self.cluster.get("ksvc", name, "-n", self.namespace)
            status = found.get("status") or {}
            said = {one["type"]: one for one in status.get("conditions", [])}.get("Ready", {})
            assert said.get("status") == "True", said
            return found if status["observedGeneration"] == found["metadata"]["generation"] else None

        return eventually(ready, READY_WITHIN_S, f"{name} ready")

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Pods of a Service that nobody has deleted."""
        chosen = f"serving.knative.dev/service={name}"
        found = self.cluster.get("pods", "-n", self.namespace, "--selector", chosen)["items"]
        return [one for one in found if not one["metadata"].get("deletionTimestamp")]

    def ask(self, name: str, path: str = "/", **headers: str) -> httpx.Response:
        """One request at the ingress, on a connection of its own."""
        return httpx.get(
            f"{INGRESS}{path}",
            headers={"host": self.host(name), **headers},
            timeout=60,
            trust_env=False,
        )
