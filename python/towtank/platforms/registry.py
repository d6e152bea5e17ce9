"""Which platforms there are: one explicit table, and entry points for those of others.

Config models are at hand at once, since an experiment file is checked against them; an implementation is
imported when it is first used. Another distribution adds a platform with an entry point of the group
`towtank.platforms`: its name is the platform's, its value a `PlatformKind`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from towtank.errors import PlatformError
from towtank.fields import Model
from towtank.platforms.base import Platform
from towtank.platforms.external_config import ExternalConfig
from towtank.platforms.local_config import LocalConfig

ENTRY_POINT_GROUP = "towtank.platforms"


@dataclass(frozen=True)
class PlatformKind:
    """A platform that can be named in an experiment file.

    Parameters
    ----------
    config : type of Model
        Frozen pydantic model of its part of the file, with `target_names()`.
    implementation : str
        ``module:Class``; the class is called without arguments and gives a `Platform`.
    summary : str
        One line for help texts and the reference.
    """

    config: type[Model]
    implementation: str
    summary: str


PLATFORMS: dict[str, PlatformKind] = {
    "local": PlatformKind(
        LocalConfig, "towtank.platforms.local:LocalPlatform", "processes on this machine, under the guard"
    ),
    "external": PlatformKind(
        ExternalConfig, "towtank.platforms.external:ExternalPlatform", "addresses that are already there"
    ),
}


def names() -> tuple[str, ...]:
    """All platforms: our own first, then those of other distributions, sorted."""
    return (*PLATFORMS, *sorted(set(_foreign()) - set(PLATFORMS)))


def kind(name: str) -> PlatformKind:
    """Look a platform up.

    Raises
    ------
    PlatformError
        Unknown name, with the known ones; or an entry point that cannot be loaded.
    """
    if name in PLATFORMS:
        return PLATFORMS[name]
    foreign = _foreign()
    if name in foreign:
        return _load(foreign[name])
    near = difflib.get_close_matches(name, names(), n=1)
    raise PlatformError(
        f"there is no platform {name!r}; known are {', '.join(names())}",
        hint=f"did you mean {near[0]!r}?" if near else None,
    )


def config_model(name: str) -> type[Model]:
    """Config model of a platform, for validating its part of an experiment file."""
    return kind(name).config


def create(name: str) -> Platform:
    """Make a platform; its implementation is imported now.

    Raises
    ------
    PlatformError
    """
    where = kind(name).implementation
    module, _, attribute = where.partition(":")
    try:
        return cast("Platform", getattr(import_module(module), attribute)())
    except (ImportError, AttributeError) as error:
        raise PlatformError(
            f"platform {name!r} cannot be loaded from {where!r}: {error}",
            hint="install what it needs, or the distribution that brings it, anew",
        ) from error


@cache
def _foreign() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _load(point: EntryPoint) -> PlatformKind:
    brings = point.dist.name if point.dist is not None else "an unknown distribution"
    try:
        loaded = point.load()
    except Exception as error:  # somebody else's code: anything may be raised
        raise PlatformError(
            f"platform {point.name!r} of {brings} cannot be loaded from {point.value!r}: {error}",
            hint=f"install {brings} anew, or remove it",
        ) from error
    if not isinstance(loaded, PlatformKind):
        raise PlatformError(
            f"the entry point {point.name!r} of {brings} is a {type(loaded).__name__}; "
            f"in the group {ENTRY_POINT_GROUP} it must be a PlatformKind"
        )
    return loaded
