"""Settings as an installed Knative has them: its ConfigMap `config-autoscaler`, then a revision's annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from towtank.autoscaling.kpa.settings import DEFAULT_CONCURRENCY, DEFAULT_RPS, KpaSettings
from towtank.errors import PlatformError
from towtank.units import parse_number, parse_whole

GROUP = "autoscaling.knative.dev/"
KPA_CLASS, HPA_CLASS = "kpa.autoscaling.knative.dev", "hpa.autoscaling.knative.dev"
CONFIG_MAP = "config-autoscaler"


def _truth(text: str) -> bool:
    """As Go's `strconv.ParseBool`."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _percent(text: str) -> float:
    """A percentage; up to 1 it is a share, for legacy reasons."""
    value = parse_number(text)
    return value if value > 1 else value * 100


def _algorithm(text: str) -> str:
    return {"": "linear", "weightedExponential": "weighted-exponential"}.get(text, text)


_CONFIG: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "enable-scale-to-zero": ("enable_scale_to_zero", _truth),
    "max-scale-up-rate": ("max_scale_up_rate", parse_number),
    "max-scale-down-rate": ("max_scale_down_rate", parse_number),
    "target-burst-capacity": ("target_burst_capacity", parse_number),
    "panic-window-percentage": ("panic_window_percentage", parse_number),
    "panic-threshold-percentage": ("panic_threshold_percentage", parse_number),
    "activator-capacity": ("activator_capacity", parse_number),
    "initial-scale": ("initial_scale", parse_whole),
    "min-scale": ("min_scale", parse_whole),
    "max-scale": ("max_scale", parse_whole),
    "stable-window": ("window", str),
    "scale-down-delay": ("scale_down_delay", str),
    "scale-to-zero-grace-period": ("scale_to_zero_grace_period", str),
    "scale-to-zero-pod-retention-period": ("scale_to_zero_pod_retention_period", str),
}
"""Key of the ConfigMap → field."""

_ANNOTATIONS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "metric": ("metric", str),
    "target": ("target", parse_number),
    "target-utilization-percentage": ("target_utilization_percentage", parse_number),
    "target-burst-capacity": ("target_burst_capacity", parse_number),
    "min-scale": ("min_scale", parse_whole),
    "max-scale": ("max_scale", parse_whole),
    "initial-scale": ("initial_scale", parse_whole),
    "activation-scale": ("activation_scale", parse_whole),
    "window": ("window", str),
    "panic-window-percentage": ("panic_window_percentage", parse_number),
    "panic-threshold-percentage": ("panic_threshold_percentage", parse_number),
    "scale-down-delay": ("scale_down_delay", str),
    "scale-to-zero-pod-retention-period": ("scale_to_zero_pod_retention_period", str),
    "metric-aggregation-algorithm": ("metric_aggregation_algorithm", _algorithm),
}
"""Annotation, without its group → field. Older releases wrote them in camel case."""


def class_of(config: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Which autoscaler scales a revision with these annotations, by Knative's name of it."""
    return annotations.get(f"{GROUP}class", config.get("pod-autoscaler-class", KPA_CLASS))


def installed_settings(
    config: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    *,
    container_concurrency: int = 0,
    progress_deadline: str = "600s",
) -> KpaSettings:
    """What a revision's autoscaler goes by.

    Parameters
    ----------
    config : mapping
        `data` of the ConfigMap `config-autoscaler`; keys that are not there have their defaults.
    annotations : mapping, optional
        Of the revision; they win.
    container_concurrency : int
        Of the revision's spec.
    progress_deadline : str
        ``progress-deadline`` of `config-deployment`, or of the revision.

    Returns
    -------
    KpaSettings

    Raises
    ------
    PlatformError
        A value that cannot be read or is out of bounds, or a revision that this autoscaler does not scale.
    """
    notes = annotations or {}
    by = class_of(config, notes)
    if by != KPA_CLASS:
        raise PlatformError(
            f"the revision is scaled by {by!r}, not by {KPA_CLASS!r}",
            hint="an HPA's settings are read from its own object",
        )
    fields: dict[str, Any] = {
        "container_concurrency": container_concurrency,
        "progress_deadline": progress_deadline,
    }
    fields |= _read(config, _CONFIG, CONFIG_MAP)
    fields |= _read(_plain(notes), _ANNOTATIONS, "annotations")
    fields = _defaults_of_config(fields, config)
    initial, allowed = fields.get("initial_scale", 1), _flag(config, "allow-zero-initial-scale")
    if initial == 0 and not allowed:
        # An annotation that is not allowed is passed over (GetInitialScale).
        fields["initial_scale"] = max(1, int(config.get("initial-scale", "1")))
    try:
        return KpaSettings(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its settings"
        raise PlatformError(f"{CONFIG_MAP} or an annotation: {where}: {first['msg']}") from error


def _defaults_of_config(fields: dict[str, Any], config: Mapping[str, str]) -> dict[str, Any]:
    """Fill in what depends on the metric: the cluster's default target, and its share for concurrency."""
    by_rps = fields.get("metric") == "rps"
    if not by_rps and "container-concurrency-target-percentage" in config:
        share = _one("container-concurrency-target-percentage", config, _percent, CONFIG_MAP)
        fields.setdefault("target_utilization_percentage", share)
    if fields.get("target") is None:
        name = "requests-per-second-target-default" if by_rps else "container-concurrency-target-default"
        builtin = DEFAULT_RPS if by_rps else DEFAULT_CONCURRENCY
        default = _one(name, config, parse_number, CONFIG_MAP) if name in config else builtin
        if by_rps or not fields["container_concurrency"]:
            fields["target"] = default
    return fields


def _plain(annotations: Mapping[str, str]) -> dict[str, str]:
    """Annotations of the group without its name, in kebab case; the newer spelling wins."""
    found: dict[str, str] = {}
    for key in sorted(annotations, key=lambda key: key == key.lower()):
        if key.startswith(GROUP):
            name = "".join(f"-{c.lower()}" if c.isupper() else c for c in key.removeprefix(GROUP))
            found[name] = annotations[key]
    return found


def _read(
    texts: Mapping[str, str], known: Mapping[str, tuple[str, Callable[[str], object]]], where: str
) -> dict[str, Any]:
    return {field: _one(name, texts, parse, where) for name, (field, parse) in known.items() if name in texts}


def _one(name: str, texts: Mapping[str, str], parse: Callable[[str], object], where: str) -> Any:  # noqa: ANN401 - of any field
    text = texts[name]
    try:
        return parse(text)
    except ValueError as error:
        raise PlatformError(f"{where}: {name} is {text!r}: {error}") from error


def _flag(config: Mapping[str, str], name: str) -> bool:
    return name in config and bool(_one(name, config, _truth, CONFIG_MAP))
