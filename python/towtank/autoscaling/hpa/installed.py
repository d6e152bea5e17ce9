"""Settings of an HPA object as an API server has it (`autoscaling/v2`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from towtank.autoscaling.hpa.settings import DEFAULT_CPU_PERCENT, HpaSettings
from towtank.errors import PlatformError
from towtank.units import parse_cores


def installed_settings(hpa: Mapping[str, Any], **controller: object) -> HpaSettings:
    """What an HPA goes by.

    Parameters
    ----------
    hpa : mapping
        The object; its `spec` counts.
    **controller
        What the controller was started with, by the names of `HpaSettings`: `sync_period`, `tolerance` and so on.

    Raises
    ------
    PlatformError
        It scales by a metric that is not known here, or has values that the API would not take.
    """
    spec = hpa.get("spec", {})
    name = hpa.get("metadata", {}).get("name", "")
    fields: dict[str, Any] = {
        **controller,
        "max_replicas": spec.get("maxReplicas"),
        "min_replicas": spec.get("minReplicas", 1),
    }
    for metric in spec.get("metrics") or [_default_metric()]:
        fields |= _metric(metric, name)
    if spec.get("behavior"):
        fields["behavior"] = {
            ours: _rules(spec["behavior"][theirs])
            for theirs, ours in (("scaleUp", "scale_up"), ("scaleDown", "scale_down"))
            if spec["behavior"].get(theirs)
        }
    try:
        return HpaSettings(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "spec"
        raise PlatformError(f"HPA {name!r}: {where}: {first['msg']}") from error


def _default_metric() -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": DEFAULT_CPU_PERCENT}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _metric(metric: Mapping[str, Any], name: str) -> dict[str, Any]:
    resource = metric.get("resource", {})
    target = resource.get("target", {})
    if resource.get("name") == "cpu" and target.get("type") == "Utilization":
        return {"cpu": target["averageUtilization"]}
    raise PlatformError(
        f"HPA {name!r} scales by {metric.get('type')} {resource.get('name', '')!r} "
        f"({target.get('type', 'no target')}); known is utilisation of CPU",
        hint="its decisions are shown as they were, without what the algorithm would have done",
    )


def _rules(rules: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"select_policy": rules.get("selectPolicy", "Max")}
    if "stabilizationWindowSeconds" in rules:
        found["stabilization_window"] = f"{rules['stabilizationWindowSeconds']}s"
    if rules.get("tolerance") is not None:
        found["tolerance"] = parse_cores(rules["tolerance"]) if rules["tolerance"] not in ("0", 0) else 0.0
    if rules.get("policies"):
        found["policies"] = tuple(
            {"type": one["type"], "value": one["value"], "period": f"{one['periodSeconds']}s"}
            for one in rules["policies"]
        )
    return found
