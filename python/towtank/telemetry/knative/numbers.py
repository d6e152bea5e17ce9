"""Numbers of Knative's parts: under which names they publish them, and what they are called here.

Names are those of Knative's releases up to 1.18 (Prometheus through OpenCensus); of later ones (OpenTelemetry) those of
the autoscaler and of queues. What stands for the same as in the source `scaling` has its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from towtank.telemetry.exposition import Row

Part = Literal["autoscaler", "activator", "queue-proxy", "envoy"]
Values = dict[str, dict[str, float]]
"""Instance → metric → value."""

_GAUGES: Mapping[Part, Mapping[str, str]] = {
    "autoscaler": {
        "autoscaler_desired_pods": "autoscaler_desired",
        "autoscaler_requested_pods": "autoscaler_requested",
        "autoscaler_actual_pods": "autoscaler_actual",
        "autoscaler_not_ready_pods": "autoscaler_not_ready",
        "autoscaler_pending_pods": "autoscaler_pending",
        "autoscaler_terminating_pods": "autoscaler_terminating",
        "autoscaler_stable_request_concurrency": "autoscaler_stable",
        "autoscaler_stable_requests_per_second": "autoscaler_stable",
        "autoscaler_panic_request_concurrency": "autoscaler_panic",
        "autoscaler_panic_requests_per_second": "autoscaler_panic",
        "autoscaler_target_concurrency_per_pod": "autoscaler_target",
        "autoscaler_target_requests_per_second": "autoscaler_target",
        "autoscaler_excess_burst_capacity": "autoscaler_excess_burst_capacity",
        "autoscaler_panic_mode": "autoscaler_panic_mode",
        "kn_revision_pods_desired": "autoscaler_desired",
        "kn_revision_pods_requested": "autoscaler_requested",
        "kn_revision_pods_count": "autoscaler_actual",
        "kn_revision_pods_not_ready_count": "autoscaler_not_ready",
        "kn_revision_pods_pending_count": "autoscaler_pending",
        "kn_revision_pods_terminating_count": "autoscaler_terminating",
        "kn_revision_concurrency_stable": "autoscaler_stable",
        "kn_revision_rps_stable": "autoscaler_stable",
        "kn_revision_concurrency_panic": "autoscaler_panic",
        "kn_revision_rps_panic": "autoscaler_panic",
        "kn_revision_concurrency_target": "autoscaler_target",
        "kn_revision_rps_target": "autoscaler_target",
        "kn_revision_capacity_excess": "autoscaler_excess_burst_capacity",
        "kn_revision_panic_mode": "autoscaler_panic_mode",
    },
    "activator": {"activator_request_concurrency": "activator_concurrency"},
    "queue-proxy": {"revision_queue_depth": "queue_depth", "kn_serving_queue_depth": "queue_depth"},
    "envoy": {
        "envoy_cluster_upstream_rq_pending_active": "ingress_held",
        "envoy_cluster_upstream_rq_active": "ingress_in_flight",
        "envoy_cluster_upstream_cx_active": "ingress_connections",
    },
}
"""What holds at the moment; of several pods of a part it adds up."""
_BY_STATUS: Mapping[Part, Mapping[str, tuple[str, str]]] = {
    "autoscaler": {},
    "activator": {"activator_request_count": ("activator_answered_", "response_code")},
    "queue-proxy": {
        "revision_request_count": ("queue_proxy_answered_", "response_code"),
        "revision_app_request_count": ("instances_answered_", "response_code"),
    },
    "envoy": {"envoy_cluster_upstream_rq": ("ingress_answered_", "envoy_response_code")},
}
"""Counters of answers: what they are called before the status, and which label has it."""
MADE: Mapping[str, tuple[str, int, str, str]] = {
    "envoy_cluster_upstream_rq_pending_overflow": (
        "pending",
        503,
        "more were under way or waited than its limits to the revision allow",
        "raise `ingress` of the function, or lower the load",
    ),
    "envoy_cluster_upstream_cx_none_healthy": (
        "no_endpoint",
        503,
        "it knew of no pod to send them to",
        "was the revision ready, and the activator?",
    ),
    "envoy_cluster_upstream_rq_timeout": (
        "timeout",
        504,
        "no answer came within its timeout",
        "compare `timeout` of the function with how long it takes",
    ),
}
"""Counter of Envoy → reason of an answer that it made itself, its status, why, and what to do."""
MADE_PREFIX = "ingress_made_"
_REVISION = ("revision_name", "kn_revision_name")
_NAMESPACE = ("namespace_name", "k8s_namespace_name")
_POD = ("pod_name", "k8s_pod_name")
_OF_PODS = frozenset({"queue_depth"})
"""Said of each pod; all else of each revision."""


def wanted(part: Part) -> tuple[str, ...]:
    """Names that are read of a part."""
    made = tuple(MADE) if part == "envoy" else ()
    return (*_GAUGES[part], *_BY_STATUS[part], *made)


@dataclass
class Counted:
    """Counters of all pods, and what they have moved since they were read before."""

    _last: dict[tuple[str, ...], float] = field(default_factory=dict)
    _begun: bool = False

    def begin(self) -> None:
        """What counters say from now on for the first time, they have counted since the beginning."""
        self._begun = True

    def moved(self, key: tuple[str, ...], value: float) -> float:
        """How far a counter has moved; one that is seen for the first time, or began anew, from 0."""
        last = self._last.get(key, 0.0 if self._begun else value)
        self._last[key] = value
        return value if value < last else value - last


def take(part: Part, pod: str, rows: Iterable[Row], namespace: str, counted: Counted) -> Values:
    """What one pod of a part says of the revisions of a namespace.

    Parameters
    ----------
    part : Part
    pod : str
        Its name, which tells its counters from those of others.
    rows : iterable of Row
    namespace : str
        Of the deployment.
    counted : Counted
    """
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        revision = _revision(part, row.labels, namespace)
        if revision is None:
            continue
        instance = found[revision]
        metric = _GAUGES[part].get(row.name)
        if metric is not None:
            found[_first(row.labels, _POD) or pod if metric in _OF_PODS else revision][metric] += row.value
            continue
        name = _counter(part, row)
        if name:
            key = (pod, row.name, *sorted(f"{k}={v}" for k, v in row.labels.items()))
            instance[name] += counted.moved(key, row.value)
    return {name: dict(values) for name, values in found.items() if values}


def _counter(part: Part, row: Row) -> str:
    """What a counter is called here; empty for what is none of ours."""
    if part == "envoy" and row.name in MADE:
        return f"{MADE_PREFIX}{MADE[row.name][0]}"
    prefix, label = _BY_STATUS[part].get(row.name, ("", ""))
    status = row.labels.get(label, "")
    return f"{prefix}{status}" if prefix and status.isdigit() else ""


def _revision(part: Part, labels: Mapping[str, str], namespace: str) -> str | None:
    """Whose number it is; None for revisions of other namespaces, and for what is of none."""
    if part == "envoy":  # NAMESPACE_REVISION_PORT; neither of these names has an underscore
        parts = labels.get("envoy_cluster_name", "").split("_")
        return parts[1] if len(parts) == 3 and parts[0] == namespace else None
    if _first(labels, _NAMESPACE) != namespace:
        return None
    return _first(labels, _REVISION) or None


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((labels[name] for name in names if name in labels), "")
