"""What Knative is given for a function: a Service, or a Route and a Configuration for each of its revisions.

Everything is created once and changed never, so revisions that share the traffic are Configurations of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from towtank.platforms.knative.functions import Amounts, Function, Revision, RevisionScaling
from towtank.platforms.kubernetes.kinds import KNATIVE

Json = dict[str, Any]
AUTOSCALING = "autoscaling.knative.dev"
CONTOUR = "projectcontour.io"
_CLASS = {"kpa": f"kpa.{AUTOSCALING}", "hpa": f"hpa.{AUTOSCALING}"}
_AS_WRITTEN = {
    "metric": "metric", "min_scale": "min-scale", "max_scale": "max-scale", "initial_scale": "initial-scale",
    "activation_scale": "activation-scale", "target": "target", "burst_capacity": "target-burst-capacity",
}  # fmt: skip
_SECONDS = {
    "window": "window", "scale_down_delay": "scale-down-delay", "retention": "scale-to-zero-pod-retention-period",
}  # fmt: skip
_PERCENT = {
    "target_utilization": "target-utilization-percentage", "panic_window": "panic-window-percentage",
    "panic_threshold": "panic-threshold-percentage",
}  # fmt: skip


def manifests(name: str, function: Function) -> Iterator[Json]:
    """Objects of a function, in the order of creation."""
    revisions = function.revisions()
    if not function.split:
        yield _thing("Service", name, {"template": template(revisions[""])})
        return
    for own, revision in revisions.items():
        yield _thing("Configuration", f"{name}-{own}", {"template": template(revision)})
    traffic = [
        {
            "configurationName": f"{name}-{own}", "latestRevision": True, "percent": share.percent,
            **({"tag": share.tag} if share.tag else {}),
        }
        for own, share in function.split.items()
    ]  # fmt: skip
    yield _thing("Route", name, {"traffic": traffic})


def template(revision: Revision) -> Json:
    """What a revision is made from."""
    container: Json = {"image": revision.image}
    for key in ("command", "args"):
        if words := getattr(revision, key):
            container[key] = list(words)
    if revision.env:
        container["env"] = [{"name": key, "value": value} for key, value in revision.env.items()]
    if revision.port is not None or revision.http2:
        port: Json = {"name": "h2c"} if revision.http2 else {}
        container["ports"] = [port | ({} if revision.port is None else {"containerPort": revision.port})]
    if revision.probe is not None:
        container["readinessProbe"] = {"httpGet": {"path": revision.probe}}
    resources = {"requests": _amounts(revision.requests), "limits": _amounts(revision.limits)}
    if any(resources.values()):
        container["resources"] = {key: value for key, value in resources.items() if value}
    spec: Json = {"containers": [container]}
    if revision.container_concurrency is not None:
        spec["containerConcurrency"] = revision.container_concurrency
    if revision.timeout is not None:
        spec["timeoutSeconds"] = int(revision.timeout)
    found: Json = {"spec": spec}
    if own := marks(revision):
        found["metadata"] = {"annotations": own}
    return found


def marks(revision: Revision) -> dict[str, str]:
    """How a revision is scaled, and what the ingress lets through to it: Knative passes both on to its Service."""
    limits = {
        "max-connections": revision.ingress.connections, "max-pending-requests": revision.ingress.pending,
        "max-requests": revision.ingress.requests,
    }  # fmt: skip
    return {
        **_scaling(revision.scaling),
        **{f"{CONTOUR}/{key}": str(value) for key, value in limits.items() if value is not None},
        **revision.annotations,
    }


def _scaling(scaling: RevisionScaling) -> dict[str, str]:
    found = {}
    if scaling.by is not None:
        found["class"] = _CLASS[scaling.by]
    for names, shown in ((_AS_WRITTEN, _plain), (_SECONDS, _seconds), (_PERCENT, _percent)):
        for key, name in names.items():
            value = getattr(scaling, key)
            if value is not None:
                found[name] = shown(value)
    return {f"{AUTOSCALING}/{name}": value for name, value in found.items()}


def _plain(value: float | str) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _seconds(value: float) -> str:
    return f"{value:.10g}s"


def _percent(value: float) -> str:
    return f"{value * 100:.10g}"


def _amounts(amounts: Amounts) -> dict[str, str]:
    return {key: value for key, value in amounts.model_dump().items() if value is not None}


def _thing(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": f"{KNATIVE}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
