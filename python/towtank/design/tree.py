"""A document as a tree in which every key and value knows its file, line and column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from towtank.design.problems import Place

UNKNOWN = object()
"""Stands where an expression has no value; that has been said already."""


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """One value. `text` is what the file says, `value` what it means, `plain` whether it had no quotes."""

    place: Place
    value: bool | int | float | str | None
    text: str
    plain: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """A list."""

    place: Place
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    """Keys in the order of the file, each with the place of the key and its value."""

    place: Place
    entries: dict[str, Entry]

    def get(self, key: str) -> Node | None:
        """Value of a key, or None where it is missing."""
        entry = self.entries.get(key)
        return entry.node if entry else None

    def key_place(self, key: str) -> Place:
        """Where a key stands; the mapping itself where it is missing."""
        entry = self.entries.get(key)
        return entry.place if entry else self.place

    def only(self, keys: frozenset[str] | set[str]) -> Mapping:
        """Return the mapping reduced to some keys."""
        return Mapping(self.place, {k: e for k, e in self.entries.items() if k in keys})

    def without(self, *keys: str) -> Mapping:
        """Return the mapping reduced by some keys."""
        return Mapping(self.place, {k: e for k, e in self.entries.items() if k not in keys})


Node = Scalar | Sequence | Mapping


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A key's place and its value."""

    place: Place
    node: Node


def plain(node: Node, as_text: frozenset[tuple[str | int, ...]] = frozenset()) -> Any:  # noqa: ANN401
    """Turn a tree into dictionaries, lists and values.

    Parameters
    ----------
    as_text : frozenset of key path
        Scalars that shall come as the text that the file says: ``1.10`` where a version is wanted.
    """
    return _plain(node, as_text, ())


def _plain(node: Node, as_text: frozenset[tuple[str | int, ...]], at: tuple[str | int, ...]) -> object:
    if isinstance(node, Scalar):
        return node.text if at in as_text else node.value
    if isinstance(node, Sequence):
        return [_plain(item, as_text, (*at, i)) for i, item in enumerate(node.items)]
    return {key: _plain(e.node, as_text, (*at, key)) for key, e in node.entries.items()}


def scalars(node: Node) -> Iterator[Scalar]:
    """Every scalar in a tree, in the order of the file."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from scalars(item)
    else:
        for entry in node.entries.values():
            yield from scalars(entry.node)


def has_unknown(node: Node) -> bool:
    """Whether some value in a tree cannot be worked out; that has been said where it stands."""
    return any(scalar.value is UNKNOWN for scalar in scalars(node))
