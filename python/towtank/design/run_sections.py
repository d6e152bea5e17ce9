"""Parts of the file that hold for every run: prepare, reset, settle, observe, faults, generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from towtank.design.context import FileContext
from towtank.design.copies import check_copies
from towtank.design.experiment_file import ObserveFile
from towtank.design.fault_section import read_faults
from towtank.design.model import Generator, Hook, Observe, Reset, Settle
from towtank.design.own_variables import own_described
from towtank.design.problems import listing, nearest, shown
from towtank.design.slo import read_slo
from towtank.design.tree import Mapping, Node, Scalar, Sequence
from towtank.design.validation import Path, joined, validated
from towtank.errors import TowtankError
from towtank.telemetry import registry
from towtank.units import format_duration


def read_prepare(node: Node, path: Path, context: FileContext) -> Hook | None:
    """Validate `prepare`."""
    context.check_placeholders(node, path)
    return validated(Hook, node, path, context.holder(path), context.problems)


def read_reset(node: Node, path: Path, context: FileContext) -> Reset | Literal["none"] | None:
    """Validate `reset`: what to do, or the word ``none``."""
    if isinstance(node, Scalar):
        if node.value == "none":
            return "none"
        context.problems.add(
            node.place,
            joined(path),
            f"found {shown(node.value)}; allowed is `none`, or a mapping with copy, run, verify",
        )
        return None
    context.check_placeholders(node, path)
    reset = validated(Reset, node, path, context.holder(path), context.problems)
    check_copies(node, path, context)
    if reset is None or reset.run is not None or (reset.copy_files and not reset.verify):
        return reset
    message = (
        "`verify` compares what `run` prints: it needs `run`"
        if reset.verify
        else "does nothing: it needs `copy` or `run`"
    )
    context.problems.add(
        context.holder(path),
        joined(path),
        message,
        "write `reset: none` when the data stays as it is",
    )
    return None


def read_settle(node: Node, path: Path, context: FileContext) -> Settle | None:
    """Validate `settle`."""
    settle = validated(Settle, node, path, context.holder(path), context.problems)
    if settle and settle.hold >= settle.timeout and isinstance(node, Mapping):
        key = "hold" if "hold" in node.entries else "timeout"
        context.problems.add(
            node.key_place(key),
            joined((*path, key)),
            f"a hold of {format_duration(settle.hold)} never fits into a timeout of "
            f"{format_duration(settle.timeout)}",
        )
    return settle


def read_generator(node: Node, path: Path, context: FileContext) -> Generator | None:
    """Validate `generator`."""
    return validated(Generator, node, path, context.holder(path), context.problems)


def read_bounds(node: Node, path: Path, context: FileContext) -> dict[str, float] | None:
    """Validate `slo`."""
    own = own_described(context.root.get("answer"))
    return read_slo(node, path, context.problems, context.names("workloads"), own)


def read_observe(node: Node, path: Path, context: FileContext) -> tuple[Observe, ...] | None:
    """Validate `observe`: telemetry sources, each a name or a map of a name to its options."""
    if not isinstance(node, Sequence):
        context.problems.add(
            node.place,
            joined(path),
            "allowed is a list of telemetry sources, such as [host, process]",
        )
        return None
    found = [_read_source(item, (*path, i), context) for i, item in enumerate(node.items)]
    names: set[str] = set()
    for index, source in enumerate(found):
        if source is not None and source.source in names:
            context.problems.add(
                node.items[index].place,
                joined((*path, index)),
                f"the source {source.source!r} is listed twice",
            )
        if source is not None:
            names.add(source.source)
    sources = tuple(source for source in found if source is not None)
    return sources if len(sources) == len(found) else None


def _read_source(item: Node, path: Path, context: FileContext) -> Observe | None:
    known = registry.names()
    if isinstance(item, Mapping) and len(item.entries) == 1:
        ((name, entry),) = item.entries.items()
        place, options = entry.place, entry.node
        if isinstance(options, Scalar) and options.value is None:
            options = Mapping(place, {})
    elif isinstance(item, Scalar) and isinstance(item.value, str):
        name, place, options = item.value, item.place, Mapping(item.place, {})
    else:
        context.problems.add(
            item.place,
            joined(path),
            f"allowed is a name ({listing(known)}), or a map of one name to its options",
        )
        return None
    if name not in known:
        context.problems.add(
            place,
            joined(path),
            f"there is no telemetry source {name!r}; allowed are {listing(known)}",
            nearest(name, known),
        )
        return None
    if not isinstance(options, Mapping):
        context.problems.add(options.place, joined((*path, name)), "allowed is a mapping of options")
        return None
    try:
        own = registry.options_model(name)
    except TowtankError as error:
        context.problems.add(place, joined(path), error.message, error.hint or "")
        return None
    here = (*path, name)
    common = tuple(ObserveFile.model_fields)
    beside = validated(ObserveFile, options.only(set(common)), here, place, context.problems)
    model = validated(own, options.without(*common), here, place, context.problems, common)
    if beside is None or model is None:
        return None
    given = model.model_dump(mode="json", exclude_unset=True)
    return Observe.model_validate({"source": name, "interval": f"{beside.interval!r}s", "options": given})


SECTIONS: dict[str, Callable[[Node, Path, FileContext], object]] = {
    "prepare": read_prepare,
    "reset": read_reset,
    "settle": read_settle,
    "observe": read_observe,
    "faults": read_faults,
    "generator": read_generator,
    "slo": read_bounds,
}
"""Key of the file → how it is read."""
