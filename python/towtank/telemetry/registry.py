"""Which telemetry sources there are: one explicit table, and entry points for those of others.

Option models are at hand at once, since an experiment file is checked against them; an implementation is
imported when it is first used. Another distribution adds a source with an entry point of the group
`towtank.telemetry`: its name is the source's, its value a `SourceKind`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from towtank.errors import TelemetryError
from towtank.fields import Model
from towtank.telemetry.base import Source
from towtank.telemetry.options import HostOptions, ProcessOptions

ENTRY_POINT_GROUP = "towtank.telemetry"


@dataclass(frozen=True)
class SourceKind:
    """A telemetry source that can be named under `observe`.

    Parameters
    ----------
    options : type of Model
        Frozen pydantic model of its options.
    implementation : str
        ``module:Class``; the class is called without arguments and gives a `Source`.
    summary : str
        One line for help texts and the reference.
    """

    options: type[Model]
    implementation: str
    summary: str


SOURCES: dict[str, SourceKind] = {
    "host": SourceKind(
        HostOptions, "towtank.telemetry.host:HostSource", "this machine, and Towtank's own share"
    ),
    "process": SourceKind(
        ProcessOptions,
        "towtank.telemetry.process:ProcessSource",
        "each local instance with all its processes",
    ),
}


def names() -> tuple[str, ...]:
    """All sources: our own first, then those of other distributions, sorted."""
    return (*SOURCES, *sorted(set(_foreign()) - set(SOURCES)))


def kind(name: str) -> SourceKind:
    """Look a source up.

    Raises
    ------
    TelemetryError
        Unknown name, with the known ones; or an entry point that cannot be loaded.
    """
    if name in SOURCES:
        return SOURCES[name]
    foreign = _foreign()
    if name in foreign:
        return _load(foreign[name])
    near = difflib.get_close_matches(name, names(), n=1)
    raise TelemetryError(
        f"there is no telemetry source {name!r}; known are {', '.join(names())}",
        hint=f"did you mean {near[0]!r}?" if near else None,
    )


def options_model(name: str) -> type[Model]:
    """Option model of a source, for validating its part of an experiment file."""
    return kind(name).options


def create(name: str) -> Source:
    """Make a source; its implementation is imported now.

    Raises
    ------
    TelemetryError
    """
    where = kind(name).implementation
    module, _, attribute = where.partition(":")
    try:
        return cast("Source", getattr(import_module(module), attribute)())
    except (ImportError, AttributeError) as error:
        raise TelemetryError(
            f"telemetry source {name!r} cannot be loaded from {where!r}: {error}",
            hint="install what it needs, or the distribution that brings it, anew",
        ) from error


@cache
def _foreign() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _load(point: EntryPoint) -> SourceKind:
    brings = point.dist.name if point.dist is not None else "an unknown distribution"
    try:
        loaded = point.load()
    except Exception as error:  # somebody else's code: anything may be raised
        raise TelemetryError(
            f"telemetry source {point.name!r} of {brings} cannot be loaded from {point.value!r}: {error}",
            hint=f"install {brings} anew, or remove it",
        ) from error
    if not isinstance(loaded, SourceKind):
        raise TelemetryError(
            f"the entry point {point.name!r} of {brings} is a {type(loaded).__name__}; "
            f"in the group {ENTRY_POINT_GROUP} it must be a SourceKind"
        )
    return loaded
