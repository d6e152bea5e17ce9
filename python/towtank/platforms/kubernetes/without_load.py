"""Pods that written objects have when nobody asks for anything: known from what is written, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from towtank.platforms.kubernetes.kinds import KNATIVE

Json = dict[str, Any]
AUTOSCALING = "autoscaling.knative.dev"
_HPA = "HorizontalPodAutoscaler"
_COUNTED = ("Deployment", "StatefulSet", "ReplicaSet")


def scaled_by(autoscaler: Json) -> str:
    """What an autoscaler of any kind scales, as ``Kind/name``; empty for what is none."""
    target = (autoscaler.get("spec") or {}).get("scaleTargetRef")
    return f"{target.get('kind', 'Deployment')}/{target.get('name')}" if isinstance(target, dict) else ""


def pods_without_load(thing: Json) -> int:
    """How many pods Knative keeps of a Service or Configuration when nobody asks for it."""
    marks = _marks(thing)
    least = str(marks.get(f"{AUTOSCALING}/min-scale") or marks.get(f"{AUTOSCALING}/minScale") or 0)
    return max(int(least) if least.isdecimal() else 0, int(_is_by_hpa(marks)))


def kept_pods(things: Sequence[Json]) -> Iterator[str]:
    """Objects that always have a pod, and why; what something scales that is not known here is left out.

    Parameters
    ----------
    things : sequence of dict
        As they will be created.
    """
    scaled = {scaled_by(one) for one in things if one.get("kind") != _HPA}
    for one in things:
        kind, spec = str(one.get("kind")), one.get("spec") or {}
        name = f"{kind}/{(one.get('metadata') or {}).get('name')}"
        if kind == _HPA:
            least = spec.get("minReplicas", 1)
            if least != 0:
                yield f"{name} keeps {least} (`minReplicas`) of {scaled_by(one)}"
        elif str(one.get("apiVersion", "")).startswith(f"{KNATIVE}/"):
            yield from _kept_by_knative(name, one)
        elif kind in ("Pod", "DaemonSet"):
            yield f"{name} is always there"
        elif kind in _COUNTED and name not in scaled and spec.get("replicas") != 0:
            yield f"{name} keeps {spec.get('replicas', 1)} (`replicas`)"


def _kept_by_knative(name: str, thing: Json) -> Iterator[str]:
    marks = _marks(thing)
    if _is_by_hpa(marks):
        yield f"{name} is scaled by Kubernetes' autoscaler, which keeps {pods_without_load(thing)} or more"
    elif least := pods_without_load(thing):
        yield f"{name} keeps {least} (`min-scale`)"


def _marks(thing: Json) -> Json:
    """Annotations of the revisions that are made of it."""
    found: Json = (((thing.get("spec") or {}).get("template") or {}).get("metadata") or {}).get(
        "annotations"
    ) or {}
    return found


def _is_by_hpa(marks: Json) -> bool:
    return str(marks.get(f"{AUTOSCALING}/class", "")).startswith("hpa.")
