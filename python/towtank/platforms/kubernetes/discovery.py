"""Which kinds a cluster knows, where they live, and what the cluster itself is."""

from __future__ import annotations

import re
import threading
from typing import Any

from towtank.clock import boot_id
from towtank.errors import PlatformError
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json
from towtank.platforms.kubernetes.kinds import KNATIVE, NAMESPACE, NODE, Kind
from towtank.spelling import nearest_name

_DISTRIBUTIONS = (
    (re.compile(r"\+k3s"), "k3s"), (re.compile(r"\+rke2"), "RKE2"), (re.compile(r"-gke\."), "GKE"),
    (re.compile(r"-eks-"), "EKS"), (re.compile(r"\+IKS"), "IKS"), (re.compile(r"\+vmware"), "Tanzu"),
)  # fmt: skip
_LABELS = (
    ("microk8s.io/cluster", "MicroK8s"), ("minikube.k8s.io/name", "minikube"),
    ("kubernetes.azure.com/cluster", "AKS"), ("node.openshift.io/os_id", "OpenShift"),
)  # fmt: skip
_WHOLE_CLUSTER = "kube-system"
_BROUGHT_BY = {
    "gateway.networking.k8s.io": "the Gateway API's CustomResourceDefinitions, and a controller that serves them",
    "autoscaling.k8s.io": "the VerticalPodAutoscaler: its CustomResourceDefinitions and its controllers",
    KNATIVE: "Knative Serving",
    "monitoring.coreos.com": "the Prometheus operator",
    "keda.sh": "KEDA",
}
"""API groups that no cluster has by itself → what has to be installed for them."""


class Kinds:
    """Looks kinds up in the cluster, each group once.

    Parameters
    ----------
    api : ApiClient
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._groups: dict[str, dict[str, Kind]] = {}
        self._lock = threading.Lock()

    def of(self, thing: Json, where: str = "") -> Kind:
        """Find the kind of an object.

        Raises
        ------
        PlatformError
            The cluster does not know it; says what is nearest.
        """
        version, name = str(thing.get("apiVersion", "")), str(thing.get("kind", ""))
        known = self._group(version)
        if name in known:
            return known[name]
        begin = f"{where}: " if where else ""
        if not known:
            raise PlatformError(
                f"{begin}the cluster of context {self._api.context!r} does not know {version!r} (of {name})",
                hint=_not_installed(version),
            )
        near = nearest_name(name, known)
        raise PlatformError(
            f"{begin}{version!r} has no kind {name!r}",
            hint=f"did you mean {near}?" if near else f"known are {', '.join(sorted(known)[:20])}",
        )

    def _group(self, version: str) -> dict[str, Kind]:
        with self._lock:
            if version not in self._groups:
                path = f"/api/{version}" if "/" not in version else f"/apis/{version}"
                found = self._api.find(path) or {}
                self._groups[version] = {
                    str(one["kind"]): Kind(
                        version, str(one["kind"]), str(one["name"]), bool(one["namespaced"])
                    )
                    for one in found.get("resources") or []
                    if "/" not in str(one["name"])
                }
            return self._groups[version]


def _not_installed(version: str) -> str:
    brings = _BROUGHT_BY.get(version.rpartition("/")[0])
    if brings is not None:
        return f"it comes with {brings}: install that, or leave the object out"
    return "is the version right, and is what brings it (a CustomResourceDefinition, an operator) installed?"


def describe_cluster(api: ApiClient) -> dict[str, Any]:
    """What tells this cluster from others: its id, version, distribution, provider, nodes.

    What may not be asked is left out; the id is that of the namespace kube-system, as is the custom.

    Raises
    ------
    ApiError, Unreachable
    """
    version = api.get("/version")
    git = str(version.get("gitVersion", ""))
    found: dict[str, Any] = {"context": api.context, "server": api.server, "version": git}
    try:
        system = api.get(NAMESPACE.path(name=_WHOLE_CLUSTER))
        found["id"] = system["metadata"]["uid"]
    except ApiError as error:
        if error.code not in (403, 404):
            raise
    try:
        nodes, _ = api.list(NODE.path())
    except ApiError as error:
        if error.code != 403:
            raise
        nodes = []
    boots = {((node.get("status") or {}).get("nodeInfo") or {}).get("bootID") for node in nodes}
    found["on_this_machine"] = boot_id() in boots
    found["distribution"] = _distribution(git, nodes)
    found["provider"] = _provider(nodes)
    found["nodes"] = [_node(node) for node in nodes]
    return found


def _distribution(version: str, nodes: list[Json]) -> str:
    for pattern, name in _DISTRIBUTIONS:
        if pattern.search(version):
            return name
    labels = {key for node in nodes for key in (node["metadata"].get("labels") or {})}
    for key, name in _LABELS:
        if key in labels:
            return name
    if any(str(node.get("spec", {}).get("providerID", "")).startswith("kind:") for node in nodes):
        return "kind"
    return "upstream"


def _provider(nodes: list[Json]) -> str:
    kinds = {str(node.get("spec", {}).get("providerID", "")).partition(":")[0] for node in nodes} - {""}
    return ", ".join(sorted(kinds)) if kinds else "none"


def _node(node: Json) -> dict[str, Any]:
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    labels = node["metadata"].get("labels") or {}
    return {
        "name": node["metadata"]["name"],
        "cpu": (status.get("allocatable") or {}).get("cpu"),
        "memory": (status.get("allocatable") or {}).get("memory"),
        "kubelet": info.get("kubeletVersion"),
        "runtime": info.get("containerRuntimeVersion"),
        "kernel": info.get("kernelVersion"),
        "instance_type": labels.get("node.kubernetes.io/instance-type"),
        "zone": labels.get("topology.kubernetes.io/zone"),
    }
