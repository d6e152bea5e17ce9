"""Parts of an experiment file that must fit together: workloads side by side, steps and settling with a deployment."""

from __future__ import annotations

from collections.abc import Mapping as MappingType

from towtank.design.context import FileContext
from towtank.design.foreign import ForeignWorkload
from towtank.design.journey import requests_of
from towtank.design.load_shape import measured_s
from towtank.design.model import Feed, Workload
from towtank.design.platform_section import Deployed
from towtank.design.problems import listing, nearest
from towtank.design.tree import Mapping, Node, Scalar, Sequence
from towtank.design.validation import Path, joined
from towtank.design.workload_section import Driven
from towtank.platforms.base import KnowsItIsNeverEmpty
from towtank.units import format_duration


def _check_windows(context: FileContext, workloads: MappingType[str, Workload]) -> None:
    """What is measured is the time in which all of them are."""
    if len(workloads) < 2:
        return
    windows = {name: measured_s(workload.load) for name, workload in workloads.items()}
    late = max(windows, key=lambda name: windows[name][0])
    short = min(windows, key=lambda name: windows[name][1])
    if late != short and windows[late][0] >= windows[short][1]:
        path: Path = ("workloads", late, "load")
        context.problems.add(
            context.holder(path),
            joined(path),
            f"it is measured {_window(windows[late])}, and {short!r}, which is driven at the same time, "
            f"{_window(windows[short])}: there is no time in which both are measured",
            "shorten the warm-up, or let the other load last longer",
        )


def check_side_by_side(context: FileContext, workloads: MappingType[str, Driven]) -> bool:
    """Whether workloads can run at the same time; said where not.

    The engine drives all of them, there is a time in which all are measured, and they share the names of feeds.
    """
    before = len(context.problems)
    _check_windows(context, {n: w.model for n, w in workloads.items() if isinstance(w.model, Workload)})
    holders: dict[str, tuple[str, Feed]] = {}
    for name, one in workloads.items():
        if isinstance(one.model, ForeignWorkload):
            if len(workloads) > 1:
                context.problems.add(
                    context.holder(("workloads", name)),
                    joined(("workloads", name, "driver")),
                    f"{one.model.driver} drives this workload, so nothing can be driven beside it",
                    "put both into one script, or let the engine drive both",
                )
            continue
        feeds = one.model.feeds if one.model is not None else {}
        for feed, rows in feeds.items():
            first, known = holders.setdefault(feed, (name, rows))
            if known != rows:
                path: Path = ("workloads", name, "feeds", feed)
                context.problems.add(
                    context.holder(path),
                    joined(path),
                    f"workload {first!r}, which is driven at the same time, has another feed {feed!r}",
                    "give one of them another name",
                )
    return len(context.problems) == before


def check_together(
    context: FileContext, name: str, driven: str, deployment: Deployed, workload: Driven
) -> None:
    """Steps go to targets that the deployment has."""
    journey = workload.node.get("journey")
    if not isinstance(journey, Mapping):
        return
    known = deployment.target_names()
    rotate = workload.node.get("rotate")
    for index, target in enumerate(rotate.items if isinstance(rotate, Sequence) else ()):
        _check_known(context, target, ("workloads", driven, "rotate", index), name, known)
    rotates = rotate is not None or not workload.says("rotate")
    for request, here in requests_of(journey, ("workloads", driven, "journey")):
        if workload.is_sound(here) and (not rotates or request.get("target") is not None):
            _check_target(context, request, here, name, known)


def check_settles(context: FileContext, name: str, deployment: KnowsItIsNeverEmpty) -> bool:
    """Whether a deployment, for which runs wait until it has no instance, can ever have none; said where not."""
    words = deployment.never_empty(context.folder)
    if words:
        path: Path = ("settle", "until", "replicas")
        context.problems.add(
            context.place_of(path, "zero"),
            joined(path),
            f"deployment {name!r} always has an instance: {words}",
            "write `replicas: baseline`, or let it go to zero",
        )
    return not words


def _check_target(
    context: FileContext, request: Mapping, path: Path, deployment: str, known: tuple[str, ...]
) -> None:
    target = request.get("target")
    if not isinstance(target, Scalar) or target.value is None:
        if len(known) != 1:
            context.problems.add(
                request.place,
                joined((*path, "target")),
                f"deployment {deployment!r} has several targets; the step must name one of {listing(known)}",
            )
    else:
        _check_known(context, target, (*path, "target"), deployment, known)


def _check_known(
    context: FileContext, target: Node, path: Path, deployment: str, known: tuple[str, ...]
) -> None:
    if isinstance(target, Scalar) and target.text not in known:
        context.problems.add(
            target.place,
            joined(path),
            f"deployment {deployment!r} has no target {target.text!r}; it has {listing(known)}",
            nearest(target.text, known),
        )


def _window(measured: tuple[float, float]) -> str:
    start, end = measured
    return f"from {format_duration(start)} to {format_duration(end)}"
