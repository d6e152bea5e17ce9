"""Factors × levels, less `exclude`, plus `include`: which treatments there are, counted before they are made."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from towtank.design.expression import NAME, WORDS
from towtank.design.model import Scalar as Level
from towtank.design.operations import FUNCTIONS, as_text
from towtank.design.problems import Place, Problems, listing, nearest, shown
from towtank.design.tree import Entry, Mapping, Node, Scalar, Sequence

MAX_TREATMENTS = 10_000
"""More cannot be run in a lifetime; counted before anything is expanded."""
MAX_LEVEL_TEXT = 200
_RESERVED = WORDS | frozenset(FUNCTIONS)
_NOT_SLUG = re.compile(r"[^A-Za-z0-9_.]+")
_MAX_ID = 80

Levels = dict[str, Level]


@dataclass
class Factor:
    """A factor with its levels and where they stand."""

    name: str
    place: Place
    levels: list[Level] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    is_whole: bool = True
    """False when some of its levels were wrong and left out."""


def same(a: Level, b: Level) -> bool:
    """Tell whether two levels are the same: 1 and 1.0 are, 1 and true or '1' are not."""
    return isinstance(a, str) == isinstance(b, str) and isinstance(a, bool) == isinstance(b, bool) and a == b


def read_factors(root: Mapping, problems: Problems) -> dict[str, Factor]:
    """Read `factors`; wrong levels are said and left out."""
    node = root.get("factors")
    if node is None:
        return {}
    if not isinstance(node, Mapping):
        problems.add(node.place, "factors", "allowed is a mapping: factor → list of levels")
        return {}
    factors: dict[str, Factor] = {}
    for name, entry in node.entries.items():
        factor = Factor(name, entry.place)
        if not NAME.fullmatch(name) or name in _RESERVED or len(name) > 63:
            problems.add(
                entry.place,
                f"factors.{name}",
                f"{shown(name)} cannot name a factor; allowed are letters, digits and _, beginning with a "
                "letter, and no word of the expression language",
            )
            continue
        factors[name] = factor
        before = len(problems)
        _read_levels(factor, entry.node, problems)
        factor.is_whole = len(problems) == before
    return factors


def _read_levels(factor: Factor, node: Node, problems: Problems) -> None:
    path = f"factors.{factor.name}"
    if not isinstance(node, Sequence):
        problems.add(node.place, path, "allowed is a list of levels, such as [25, 50]")
        return
    if not node.items:
        problems.add(factor.place, path, "the factor has no level; a list with at least one is needed")
    for index, item in enumerate(node.items):
        here = f"{path}[{index}]"
        if not isinstance(item, Scalar):
            problems.add(item.place, here, "a level is text, a number, true or false")
            continue
        reason = _bad_level(item)
        if reason:
            problems.add(item.place, here, reason)
            continue
        value = item.value
        assert value is not None  # noqa: S101 - `_bad_level` has refused it
        twin = next((i for i, level in enumerate(factor.levels) if same(level, value)), None)
        if twin is not None:
            line = factor.places[twin].line
            problems.add(item.place, here, f"the level {shown(value)} is listed twice; first in line {line}")
            continue
        factor.levels.append(value)
        factor.places.append(item.place)


def _bad_level(item: Scalar) -> str:
    value = item.value
    if value is None:
        return "a level is empty; it is text, a number, true or false"
    if isinstance(value, float) and not math.isfinite(value):
        return f"the level {item.text} is not a finite number"
    if isinstance(value, str):
        if "${{" in value:
            return "a level cannot be an expression"
        if not value.strip() or len(value) > MAX_LEVEL_TEXT or not value.isprintable():
            return f"a level must be printable text of 1 to {MAX_LEVEL_TEXT} characters"
    return ""


@dataclass(frozen=True)
class PartialLevels:
    """One entry of `exclude` or `include`."""

    place: Place
    path: str
    levels: Levels

    def matches(self, combination: Levels) -> bool:
        """Tell whether a combination agrees with it."""
        return all(same(combination[name], level) for name, level in self.levels.items())


def read_partial(
    root: Mapping, key: str, factors: dict[str, Factor], problems: Problems
) -> list[PartialLevels]:
    """Read `exclude` or `include`; the levels of `exclude` must be listed ones."""
    node = root.get(key)
    if node is None:
        return []
    if not isinstance(node, Sequence):
        problems.add(
            node.place, key, f"allowed is a list of maps, such as [{{{next(iter(factors), 'users')}: …}}]"
        )
        return []
    found: list[PartialLevels] = []
    for index, item in enumerate(node.items):
        path = f"{key}[{index}]"
        if not isinstance(item, Mapping) or not item.entries:
            problems.add(item.place, path, "allowed is a map: factor → level")
            continue
        before = len(problems)
        levels = {
            name: level
            for name, entry in item.entries.items()
            if (
                level := _partial_level(
                    name, entry, f"{path}.{name}", factors, problems, listed=key == "exclude"
                )
            )
            is not None
        }
        if len(problems) == before:
            found.append(PartialLevels(item.place, path, levels))
    return found


def _partial_level(
    name: str, entry: Entry, here: str, factors: dict[str, Factor], problems: Problems, *, listed: bool
) -> Level | None:
    place, node = entry.place, entry.node
    if name not in factors:
        problems.add(
            place,
            here,
            f"there is no factor {name!r}; factors are {listing(factors)}",
            nearest(name, factors),
        )
        return None
    if not isinstance(node, Scalar):
        problems.add(node.place, here, "a level is text, a number, true or false")
        return None
    reason = _bad_level(node)
    if reason:
        problems.add(node.place, here, reason)
        return None
    value = node.value
    levels = factors[name].levels
    must_exist = listed and factors[name].is_whole
    if must_exist and value is not None and not any(same(value, level) for level in levels):
        texts = [as_text(level) for level in levels]
        problems.add(
            node.place,
            here,
            f"{shown(value)} is no level of {name!r}; levels are {listing(texts)}",
            nearest(as_text(value), texts),
        )
        return None
    return value


@dataclass(frozen=True)
class Combination:
    """One level of each factor, and where it comes from: `factors`, or an entry of `include`."""

    levels: Levels
    place: Place
    path: str


def combinations(root: Mapping, factors: dict[str, Factor], problems: Problems) -> list[Combination]:
    """List all treatments in the order of the file, the included ones last.

    Empty when there are problems with the factors, or too many treatments.
    """
    before = len(problems)
    excluded = read_partial(root, "exclude", factors, problems)
    included = read_partial(root, "include", factors, problems)
    if len(problems) > before or any(not f.levels for f in factors.values()):
        return []
    start = root.key_place("factors")
    count = math.prod(len(f.levels) for f in factors.values())
    if count > MAX_TREATMENTS:
        sizes = " × ".join(str(len(f.levels)) for f in factors.values())
        problems.add(
            start, "factors", f"{sizes} = {count:,} treatments; at most {MAX_TREATMENTS:,} are allowed"
        )
        return []
    found = [
        Combination(levels, start, "factors")
        for levels in _crossed(factors, {})
        if not any(e.matches(levels) for e in excluded)
    ]
    if not found and not included:
        place = root.key_place("exclude")
        problems.add(place, "exclude", f"nothing is left: all {count:,} treatments are excluded")
        return []
    if not _add_included(found, included, factors, problems):
        return []
    return found


def _add_included(
    found: list[Combination],
    included: list[PartialLevels],
    factors: dict[str, Factor],
    problems: Problems,
) -> bool:
    """Add what `include` asks for; False when that would be too much."""
    known = {level_key(one.levels) for one in found}
    for one in included:
        count = math.prod(len(f.levels) for f in factors.values() if f.name not in one.levels)
        if len(found) + count > MAX_TREATMENTS:
            problems.add(
                one.place, one.path, f"adds {count:,} treatments; at most {MAX_TREATMENTS:,} are allowed"
            )
            return False
        new = [levels for levels in _crossed(factors, one.levels) if level_key(levels) not in known]
        if not new:
            problems.add(one.place, one.path, "adds nothing: every such treatment is there already")
        known |= {level_key(levels) for levels in new}
        found += [Combination(levels, one.place, one.path) for levels in new]
    return True


def _crossed(factors: dict[str, Factor], fixed: Levels) -> Iterator[Levels]:
    choices = [[fixed[f.name]] if f.name in fixed else f.levels for f in factors.values()]
    for levels in itertools.product(*choices):
        yield dict(zip(factors, levels, strict=True))


def level_key(levels: Levels) -> tuple[tuple[str, str], ...]:
    """Make levels comparable without 1 == true."""
    return tuple(
        (type(v).__name__ if isinstance(v, str | bool) else "number", as_text(v)) for v in levels.values()
    )


def treatment_ids(treatments: list[Levels], fallback: str) -> list[str]:
    """Name treatments by their levels: unique, stable, and fit for folders.

    Numbers and booleans carry the name of their factor, ``nfs-users-25``; long names are cut and marked by a hash.
    """
    ids: list[str] = []
    taken: set[str] = set()
    for levels in treatments:
        parts = [
            as_text(level) if isinstance(level, str) else f"{name}-{as_text(level)}".replace("--", "-minus-")
            for name, level in levels.items()
        ]
        name = "-".join(_NOT_SLUG.sub("-", part).strip("-.") for part in parts).strip("-") or fallback
        if len(name) > _MAX_ID:
            mark = hashlib.sha256(repr(level_key(levels)).encode()).hexdigest()[:8]
            name = f"{name[: _MAX_ID - 9]}-{mark}"
        unique, number = name, 2
        while unique.lower() in taken:  # a file system may not tell cases apart
            unique, number = f"{name}-{number}", number + 1
        taken.add(unique.lower())
        ids.append(unique)
    return ids
