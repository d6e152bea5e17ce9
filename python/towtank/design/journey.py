"""Walking over the steps of a journey that is still a tree with positions."""

from __future__ import annotations

from collections.abc import Iterator

from towtank.design.journey_model import STEP_KEYS
from towtank.design.tree import Mapping, Node, Sequence
from towtank.design.validation import Path


def requests_of(holder: Mapping, path: Path) -> Iterator[tuple[Mapping, Path]]:
    """Every request in the steps of a journey, however deep, with its key path."""
    steps = holder.get("steps")
    yield from _requests(steps, (*path, "steps"))


def _requests(steps: Node | None, path: Path) -> Iterator[tuple[Mapping, Path]]:
    if not isinstance(steps, Sequence):
        return
    for index, step in enumerate(steps.items):
        here = (*path, index)
        if not isinstance(step, Mapping):
            continue
        kind = next((key for key in STEP_KEYS if key in step.entries), None)
        if kind is None:
            yield step, here
            continue
        inside, below = step.get(kind), (*here, kind)
        if kind in ("once", "sequence"):
            yield from _requests(inside, below)
        elif kind == "choose" and isinstance(inside, Sequence):
            for number, option in enumerate(inside.items):
                yield from _branches(option, (*below, number))
        elif kind in ("repeat", "if"):
            yield from _branches(inside, below)


def _branches(holder: Node | None, path: Path) -> Iterator[tuple[Mapping, Path]]:
    if isinstance(holder, Mapping):
        for key in ("steps", "else"):
            yield from _requests(holder.get(key), (*path, key))
