"""Paths of fields in manifests: `Deployment/shop:spec.template.spec.containers[app].image`.

`Kind/name:` or `Kind:` chooses objects, none means all. Then keys with dots between them; in brackets the number of
an item of a list, the name that it has, `*` for all, or a key in quotes. A single word is looked for at any depth,
and so is what follows `**.`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Step = str | int
ALL = "*"
_SELECTOR = re.compile(r"([A-Z][A-Za-z0-9]*)(?:/([^:\s]+))?:")
_STEP = re.compile(r"""([^.\[\]"'\s]+)|\[\s*(?:"([^"]*)"|'([^']*)'|([^\]"'\s]+))\s*\]""")
_PLAIN = re.compile(r"[A-Za-z0-9_*-]+")


@dataclass(frozen=True)
class FieldPath:
    """A path as it was written, read.

    Parameters
    ----------
    text : str
    kind, name : str
        Which objects; empty for any.
    steps : tuple
        Keys, names and numbers.
    any_depth : bool
        The steps may begin anywhere in the object.
    """

    text: str
    kind: str
    name: str
    steps: tuple[Step, ...]
    any_depth: bool

    def chooses(self, thing: Json) -> bool:
        """Whether an object is one that the path is about."""
        return (not self.kind or thing.get("kind") == self.kind) and (
            not self.name or (thing.get("metadata") or {}).get("name") == self.name
        )


@dataclass(frozen=True)
class Spot:
    """A place in an object: what holds the value, and under which key."""

    holder: Any
    key: Step
    path: str

    @property
    def value(self) -> Any:  # noqa: ANN401 - whatever stands there
        """What is there."""
        return self.holder[self.key]

    def put(self, value: Any) -> None:  # noqa: ANN401
        """Put something else there."""
        self.holder[self.key] = value


def parse_path(text: str) -> FieldPath:
    """Read a path.

    Raises
    ------
    ValueError
        With what is allowed.
    """
    selector = _SELECTOR.match(text)
    kind, name = (selector.group(1), selector.group(2) or "") if selector else ("", "")
    rest = text[selector.end() :].strip() if selector else text.strip()
    any_depth = rest.startswith("**.")
    rest = rest.removeprefix("**.")
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        if steps and rest[at] == ".":
            at += 1
        match = _STEP.match(rest, at)
        if match is None:
            raise ValueError(_unreadable(text))
        bare, double, single, index = match.groups()
        if bare is not None:
            steps.append(bare)
        elif index is not None:
            steps.append(int(index) if index.lstrip("-").isdigit() else index)
        else:
            steps.append(double if double is not None else single)
        at = match.end()
        if at < len(rest) and rest[at] not in ".[":
            raise ValueError(_unreadable(text))
    if not steps or rest.endswith("."):
        raise ValueError(_unreadable(text))
    single_word = len(steps) == 1 and not kind and isinstance(steps[0], str)
    return FieldPath(text, kind, name, tuple(steps), any_depth or single_word)


def _unreadable(text: str) -> str:
    return (
        f"{text!r} is not the path of a field; allowed is such as `spec.replicas`, "
        "`Deployment/shop:spec.template.spec.containers[app].image`, or a single key such as `storageClassName`"
    )


def spots(path: FieldPath, thing: Json) -> Iterator[Spot]:
    """Every place in an object that a path leads to; only what is there already."""
    if not path.chooses(thing):
        return
    if path.any_depth:
        seen: set[tuple[int, Step]] = set()
        for holder, at in _mappings(thing, ""):
            for spot in _follow(holder, path.steps, at):
                if (id(spot.holder), spot.key) not in seen:
                    seen.add((id(spot.holder), spot.key))
                    yield spot
    else:
        yield from _follow(thing, path.steps, "")


def written_paths(thing: Json) -> Iterator[str]:
    """Every path that an object has, as an author would write it; to find what was probably meant."""
    prefix = f"{thing.get('kind')}/{(thing.get('metadata') or {}).get('name')}:"
    for spot in _all(thing, ""):
        yield prefix + spot


def _follow(holder: Any, steps: tuple[Step, ...], at: str) -> Iterator[Spot]:  # noqa: ANN401
    step, rest = steps[0], steps[1:]
    for key in _keys(holder, step):
        here = _joined(at, holder, key)
        if not rest:
            yield Spot(holder, key, here)
        else:
            yield from _follow(holder[key], rest, here)


def _keys(holder: Any, step: Step) -> list[Step]:  # noqa: ANN401
    """What a step means in a mapping or a list: nothing, one key, or several."""
    if isinstance(holder, dict):
        if step == ALL and ALL not in holder:
            return list(holder)
        return [key for key in (step, str(step)) if key in holder][:1]
    if isinstance(holder, list):
        if step == ALL:
            return list(range(len(holder)))
        if isinstance(step, int):
            return [step] if -len(holder) <= step < len(holder) else []
        return [i for i, item in enumerate(holder) if isinstance(item, dict) and item.get("name") == step]
    return []


def _joined(at: str, holder: Any, key: Step) -> str:  # noqa: ANN401
    if isinstance(holder, list):
        item = holder[int(key)]
        name = item.get("name") if isinstance(item, dict) else None
        return f"{at}[{name if isinstance(name, str) and _PLAIN.fullmatch(name) else key}]"
    if _PLAIN.fullmatch(str(key)):
        return f"{at}.{key}" if at else str(key)
    return f'{at}["{key}"]'


def _mappings(node: Any, at: str) -> Iterator[tuple[Any, str]]:  # noqa: ANN401
    if isinstance(node, dict):
        yield node, at
        for key, below in node.items():
            yield from _mappings(below, _joined(at, node, key))
    elif isinstance(node, list):
        for index, below in enumerate(node):
            yield from _mappings(below, _joined(at, node, index))


def _all(node: Any, at: str) -> Iterator[str]:  # noqa: ANN401
    keys: list[Step] = (
        list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    )
    for key in keys:
        here = _joined(at, node, key)
        yield here
        yield from _all(node[key], here)
