"""Workloads with a `driver`: parts of the file that a driver's own model validates."""

from __future__ import annotations

from towtank.design.context import FileContext
from towtank.design.foreign import ForeignLoad, ForeignWorkload
from towtank.design.plugin_section import named_model
from towtank.design.tree import Mapping, Scalar
from towtank.design.validation import Path, joined, validated
from towtank.drivers import registry
from towtank.units import format_duration


def read_driver(node: Mapping, path: Path, context: FileContext) -> ForeignWorkload | None:
    """Validate one expanded workload that another tool drives; None when it has problems."""
    name = node.get("driver")
    here = joined((*path, "driver"))
    place = node.key_place("driver")
    model = named_model(registry, "driver", name, place=place, where=here, context=context)
    if model is None or not isinstance(name, Scalar):
        return None
    config = validated(model, node, path, context.holder(path), context.problems)
    if config is None:
        return None
    if config.warmup >= config.duration:
        context.problems.add(
            node.key_place("warmup"),
            joined((*path, "warmup")),
            f"a warm-up of {format_duration(config.warmup)} leaves nothing of a load of "
            f"{format_duration(config.duration)}",
        )
        return None
    load = {"tool": name.text, "duration": f"{config.duration!r}s", "warmup": f"{config.warmup!r}s"}
    return ForeignWorkload(
        driver=name.text, config=config, load=ForeignLoad.model_validate(load), timeout=f"{config.timeout!r}s"
    )
