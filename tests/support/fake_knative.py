"""Knative in a cluster in memory: Services have a pod at once, a Route, and an ingress behind a Service of its own."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.fake_cluster import FakeCluster

Json = dict[str, Any]
GROUP = "serving.knative.dev"
KINDS: dict[str, list[tuple[str, str, bool]]] = {
    f"{GROUP}/v1": [
        ("Service", "services", True), ("Route", "routes", True), ("Configuration", "configurations", True),
        ("Revision", "revisions", True),
    ],
    "networking.internal.knative.dev/v1alpha1": [("Ingress", "ingresses", True)],
}  # fmt: skip
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
INGRESS = {"domainInternal": "envoy.front.svc.cluster.local"}


def install(cluster: FakeCluster) -> None:
    """The ingress, as its users see it: a Service with a node port."""
    cluster.put("namespaces", "", _thing("v1", "Namespace", "front"))
    service = _thing("v1", "Service", "envoy", "front")
    service["spec"] = {"type": "NodePort", "ports": [{"port": 80, "nodePort": cluster.node_port}]}
    cluster.put("services", "front", service)
    settings = _thing("v1", "ConfigMap", "config-autoscaler", "knative-serving")
    cluster.put(
        "configmaps", "knative-serving", {**settings, "data": {"_example": "long", "stable-window": "60s"}}
    )


def uninstall(cluster: FakeCluster) -> None:
    """All of it is gone."""
    cluster.drop("configmaps", "knative-serving", "config-autoscaler")
    cluster.drop("services", "front", "envoy")
    cluster.drop("namespaces", "", "front")


def control(cluster: FakeCluster, namespace: str, thing: Json) -> None:
    """What Knative does about a new object, at once."""
    name = thing["metadata"]["name"]
    thing["status"] = copy.deepcopy(READY)
    if thing["kind"] in ("Service", "Route"):
        route = thing if thing["kind"] == "Route" else _thing(f"{GROUP}/v1", "Route", name, namespace)
        tags = [one["tag"] for one in (thing["spec"].get("traffic") or []) if one.get("tag")]
        route["status"] = {
            **READY,
            "url": f"http://{name}.{namespace}.fake",
            "traffic": [{"tag": tag, "url": f"http://{tag}-{name}.{namespace}.fake"} for tag in tags],
        }
        cluster.put("routes", namespace, route)
        ingress = _thing("networking.internal.knative.dev/v1alpha1", "Ingress", name, namespace)
        ingress["status"] = {"publicLoadBalancer": {"ingress": [INGRESS]}}
        cluster.put("ingresses", namespace, ingress)
    if thing["kind"] in ("Service", "Configuration"):
        template = thing["spec"]["template"]
        revision = _thing(f"{GROUP}/v1", "Revision", f"{name}-00001", namespace)
        revision["metadata"]["annotations"] = (template.get("metadata") or {}).get("annotations") or {}
        cluster.put("revisions", namespace, {**revision, "spec": copy.deepcopy(template["spec"])})
        add_pod(cluster, namespace, thing)


def add_pod(cluster: FakeCluster, namespace: str, thing: Json) -> Json:
    """One more pod of a Service or Configuration."""
    template, name = thing["spec"]["template"], thing["metadata"]["name"]
    number = sum(1 for _ in cluster.all("pods")) + 1
    pod = _thing("v1", "Pod", f"{name}-00001-deployment-{number}", namespace)
    labels = (template.get("metadata") or {}).get("labels") or {}
    pod["metadata"]["labels"] = {**labels, f"{GROUP}/configuration": name}
    pod["metadata"]["ownerReferences"] = [
        {"uid": thing["metadata"]["uid"], "kind": "ReplicaSet", "name": name}
    ]
    containers = [{"name": "user-container", **one} for one in template["spec"]["containers"]]
    pod["spec"] = {"containers": copy.deepcopy(containers), "nodeName": "n1"}
    pod["status"] = cluster.pod_status(pod)
    return cluster.put("pods", namespace, pod)


def _thing(version: str, kind: str, name: str, namespace: str = "") -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}
