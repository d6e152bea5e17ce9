"""Bounds of response variables: read with the unit that the variable has."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Container, Iterator
from collections.abc import Mapping as MappingType

from towtank.design.problems import Place, Problems, listing, nearest, shown
from towtank.design.tree import Mapping, Node, Scalar, Sequence
from towtank.design.validation import Path, joined
from towtank.units import (
    format_bytes,
    format_duration,
    format_number,
    format_ratio,
    parse_bytes,
    parse_cores,
    parse_duration,
    parse_rate,
    parse_ratio,
)
from towtank.variables import NO_OWN, Variable, is_known, known_names, own_variable, variable


def _count(value: str | float) -> float:
    if isinstance(value, bool | str) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{shown(value)} is not a count; allowed is a number ≥ 0")
    return float(value)


def _bytes_per_s(value: str | float) -> float:
    if isinstance(value, str):
        text = re.sub(r"\s*/\s*s\s*$", "", value)
        return float(parse_bytes(text))
    return _count(value)


_READERS: dict[str, Callable[[str | float], float]] = {
    "s": parse_duration,
    "ratio": parse_ratio,
    "per_s": parse_rate,
    "count": _count,
    "bytes": lambda value: parse_bytes(value if isinstance(value, str | bool) else round(value)),
    "cores": parse_cores,
    "bytes_per_s": _bytes_per_s,
    "money": _count,
}


def read_bound(name: str, value: str) -> float:
    """Read one bound, such as ``300ms`` for `p95`, in the variable's base unit.

    Raises
    ------
    KeyError
        There is no such response variable.
    ValueError
        The bound has not its unit.
    """
    unit = variable(name).unit
    return _READERS[unit](
        float(value)
        if unit in ("count", "bytes_per_s", "money") and value.isascii() and value.isdecimal()
        else value
    )


_WORDS: dict[str, Callable[[float], str]] = {
    "s": format_duration,
    "ratio": lambda value: format_ratio(value, digits=6),
    "per_s": lambda value: f"{format_number(value)} /s",
    "bytes": format_bytes,
    "bytes_per_s": lambda value: f"{format_bytes(value)}/s",
    "cores": lambda value: f"{format_number(value)} cores",
}


def bounds_in_words(bounds: MappingType[str, float]) -> str:
    """Say bounds as a reader would: ``p95 300 ms and goodput 99.9 %``; ``none`` without any.

    Parameters
    ----------
    bounds : mapping
        Response variable → bound in its base unit; one that the experiment declares has the unit of its name's ending.
    """
    said = [f"{name} {_WORDS.get(_unit(name), format_number)(bound)}" for name, bound in bounds.items()]
    return " and ".join(said) or "none"


def _unit(name: str) -> str:
    return (variable(name) if is_known(name) else own_variable(name, "lower")).unit


def check_variable(  # noqa: PLR0917 - every place that names one is checked with the same five
    name: str,
    place: Place,
    path: str,
    workloads: Container[str],
    problems: Problems,
    own: Collection[str] = (),
) -> bool:
    """Say a response variable that there is not, or one of a workload that there is not; False then.

    `own` are names that the file itself declares, where these may stand.
    """
    if name in own:
        return True
    try:
        found = variable(name)
    except KeyError:
        known = (*own, *known_names())
        problems.add(
            place,
            path,
            f"there is no response variable {name!r}; there are {listing(known)}, and any other percentile such as "
            "p97.5",
            nearest(name, known),
        )
        return False
    if found.workload is not None and found.workload not in workloads:
        problems.add(place, path, f"{name!r}: there is no workload {found.workload!r}")
        return False
    return True


def asked_variables(root: Mapping) -> Iterator[tuple[str, Place, str]]:
    """Response variables that a file names, each with its place and key path: primaries, widths, bounds."""
    answer, repetitions, bounds = root.get("answer"), root.get("repetitions"), root.get("slo")
    primary = answer.get("primary") if isinstance(answer, Mapping) else None
    for index, item in enumerate(primary.items if isinstance(primary, Sequence) else ()):
        if isinstance(item, Scalar):
            yield item.text, item.place, f"answer.primary[{index}]"
    until = repetitions.get("until") if isinstance(repetitions, Mapping) else None
    for path, node in (("repetitions.until", until), ("slo", bounds)):
        if isinstance(node, Mapping):
            for name, entry in node.entries.items():
                yield name, entry.place, f"{path}.{name}"


def read_slo(
    node: Node,
    path: Path,
    problems: Problems,
    workloads: Container[str] = (),
    own: MappingType[str, Variable] = NO_OWN,
) -> dict[str, float] | None:
    """Read `slo`: response variable → bound in its base unit; None when there are problems.

    `own` are those that the file itself declares.
    """
    if not isinstance(node, Mapping):
        problems.add(
            node.place, joined(path), "allowed is a mapping: response variable → bound, such as p95: 300ms"
        )
        return None
    bounds: dict[str, float] = {}
    for name, entry in node.entries.items():
        here = joined((*path, name))
        if not check_variable(name, entry.place, here, workloads, problems, own):
            continue
        unit = variable(name, own).unit
        value = entry.node.value if isinstance(entry.node, Scalar) else None
        if value is None:
            problems.add(entry.node.place, here, "allowed is one value with its unit, such as 300ms or 99.9%")
            continue
        try:
            bounds[name] = _READERS[unit](value)
        except (ValueError, OverflowError) as error:
            problems.add(entry.node.place, here, str(error))
    return bounds if len(bounds) == len(node.entries) else None
