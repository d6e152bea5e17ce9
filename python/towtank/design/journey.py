"""Walking over the steps of a journey that is still a tree with positions."""

from __future__ import annotations

from collections.abc import Iterator

from towtank.design.tree import Mapping, Sequence
from towtank.design.validation import Path


def requests_of(holder: Mapping, path: Path) -> Iterator[tuple[Mapping, Path]]:
    """Every request in the steps of a journey or an option, however deep, with its key path."""
    steps = holder.get("steps")
    if not isinstance(steps, Sequence):
        return
    for index, step in enumerate(steps.items):
        here = (*path, "steps", index)
        choose = step.get("choose") if isinstance(step, Mapping) else None
        if isinstance(choose, Sequence):
            for number, option in enumerate(choose.items):
                if isinstance(option, Mapping):
                    yield from requests_of(option, (*here, "choose", number))
        elif isinstance(step, Mapping):
            yield step, here
