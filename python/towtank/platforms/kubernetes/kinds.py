"""Kinds of objects that Towtank knows by itself. A leaf: experiment files are read with it, without any client."""

from __future__ import annotations

from dataclasses import dataclass

METRICS_API = "/apis/metrics.k8s.io/v1beta1"
"""Where metrics-server, or whatever stands for it, is in the API."""


@dataclass(frozen=True)
class Kind:
    """A kind of objects: how the API names it, and whether its objects live in a namespace."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        """Where objects are: all, those of a namespace, or one."""
        base = f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"
        place = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{base}{place}/{self.plural}" + (f"/{name}" if name else "")

    @property
    def group(self) -> str:
        """API group; empty for the core."""
        return self.api_version.rpartition("/")[0]


NAMESPACE = Kind("v1", "Namespace", "namespaces", namespaced=False)
NODE = Kind("v1", "Node", "nodes", namespaced=False)
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps", namespaced=True)
POD = Kind("v1", "Pod", "pods", namespaced=True)
EVENT = Kind("v1", "Event", "events", namespaced=True)
SERVICE = Kind("v1", "Service", "services", namespaced=True)
CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True)
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases", namespaced=True)
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments", namespaced=True)
REPLICA_SET = Kind("apps/v1", "ReplicaSet", "replicasets", namespaced=True)
AUTOSCALER = Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True)
INGRESS = Kind("networking.k8s.io/v1", "Ingress", "ingresses", namespaced=True)
GATEWAY = Kind("gateway.networking.k8s.io/v1", "Gateway", "gateways", namespaced=True)
HTTP_ROUTE = Kind("gateway.networking.k8s.io/v1", "HTTPRoute", "httproutes", namespaced=True)
KNATIVE = "serving.knative.dev"
KNATIVE_ROUTE = Kind(f"{KNATIVE}/v1", "Route", "routes", namespaced=True)
KNATIVE_REVISION = Kind(f"{KNATIVE}/v1", "Revision", "revisions", namespaced=True)
KNATIVE_INGRESS = Kind("networking.internal.knative.dev/v1alpha1", "Ingress", "ingresses", namespaced=True)
