"""Plug-ins of one kind: an explicit table of our own, and entry points for those of other distributions.

Config models are at hand at once, since an experiment file is checked against them; an implementation is imported
when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from towtank.errors import TowtankError
from towtank.fields import Model
from towtank.spelling import nearest_name


@dataclass(frozen=True)
class PluginKind:
    """A plug-in that can be named in an experiment file.

    Parameters
    ----------
    config : type of Model
        Frozen pydantic model of its part of the file.
    implementation : str
        ``module:Class``; the class is called without arguments.
    summary : str
        One line for help texts and the reference.
    """

    config: type[Model]
    implementation: str
    summary: str


K = TypeVar("K", bound=PluginKind)
P = TypeVar("P")


class Registry(Generic[K, P]):
    """Looks plug-ins of one kind up by name.

    Parameters
    ----------
    noun : str
        What messages call them.
    table : mapping
        Our own, by name.
    kind : type
        What an entry point has to give.
    group : str
        Of the entry points: their names are the plug-ins' names.
    error : type of TowtankError
        Raised for unknown names and what cannot be loaded.
    """

    def __init__(
        self, noun: str, *, table: Mapping[str, K], kind: type[K], group: str, error: type[TowtankError]
    ) -> None:
        self._noun = noun
        self._table = table
        self._kind = kind
        self._group = group
        self._error = error

    def names(self) -> tuple[str, ...]:
        """All of them: our own first, then those of other distributions, sorted."""
        return (*self._table, *sorted(set(self._foreign) - set(self._table)))

    def kind(self, name: str) -> K:
        """Look one up; an unknown name is refused with the known ones."""
        if name in self._table:
            return self._table[name]
        if name in self._foreign:
            return self._load(self._foreign[name])
        near = nearest_name(name, self.names())
        raise self._error(
            f"there is no {self._noun} {name!r}; known are {', '.join(self.names())}",
            hint=f"did you mean {near!r}?" if near else None,
        )

    def create(self, name: str) -> P:
        """Make one; its implementation is imported now."""
        where = self.kind(name).implementation
        module, _, attribute = where.partition(":")
        try:
            return cast("P", getattr(import_module(module), attribute)())
        except (ImportError, AttributeError) as error:
            raise self._error(
                f"{self._noun} {name!r} cannot be loaded from {where!r}: {error}",
                hint="install what it needs, or the distribution that brings it, anew",
            ) from error

    @cached_property
    def _foreign(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self._group)}

    def _load(self, point: EntryPoint) -> K:
        brings = point.dist.name if point.dist is not None else "an unknown distribution"
        try:
            loaded = point.load()
        except Exception as error:  # somebody else's code: anything may be raised
            raise self._error(
                f"{self._noun} {point.name!r} of {brings} cannot be loaded from {point.value!r}: {error}",
                hint=f"install {brings} anew, or remove it",
            ) from error
        if not isinstance(loaded, self._kind):
            raise self._error(
                f"the entry point {point.name!r} of {brings} is a {type(loaded).__name__}; "
                f"in the group {self._group} it must be a {self._kind.__name__}"
            )
        return loaded
