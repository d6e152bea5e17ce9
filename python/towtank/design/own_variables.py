"""Response variables that an experiment declares: their names, and the SQL behind them with its place in the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from towtank.design.problems import Place, Problems
from towtank.design.tree import Entry, Mapping, Node, Scalar
from towtank.variables import OTHER_UNITS, Variable, is_known, own_variable

PATH = "answer.variables"


@dataclass(frozen=True)
class Expression:
    """SQL of one response variable, and where it stands."""

    name: str
    sql: str
    place: Place
    path: str


def own_names(answer: Node | None) -> tuple[str, ...]:
    """Names that an `answer` declares."""
    return tuple(name for name, _ in _declared(answer))


def own_described(answer: Node | None) -> dict[str, Variable]:
    """What an `answer` declares, by name; lower is better where it does not say, which has been said to be wrong."""
    found = {}
    for name, entry in _declared(answer):
        if is_known(name):
            continue  # that has been said, and what there is of that name is meant elsewhere
        better = entry.node.get("better") if isinstance(entry.node, Mapping) else None
        higher = isinstance(better, Scalar) and better.value == "higher"
        found[name] = own_variable(name, "higher" if higher else "lower")
    return found


def own_expressions(answer: Node | None) -> tuple[Expression, ...]:
    """SQL that an `answer` declares, as far as it is text; the rest has been said to be wrong."""
    found = []
    for name, entry in _declared(answer):
        sql = entry.node.get("sql") if isinstance(entry.node, Mapping) else None
        if isinstance(sql, Scalar) and isinstance(sql.value, str):
            found.append(Expression(name, sql.value, sql.place, f"{PATH}.{name}.sql"))
    return tuple(found)


def check_own_names(declared: Node | None, problems: Problems) -> None:
    """Say names that are taken, or that end in a unit which values are not kept in."""
    if not isinstance(declared, Mapping):
        return
    for name, entry in declared.entries.items():
        path = f"{PATH}.{name}"
        if is_known(name):
            problems.add(
                entry.place, path, f"{name!r} is a response variable of every run; choose another name"
            )
        ending = next((ending for ending in OTHER_UNITS if name.endswith(ending)), "")
        if ending:
            problems.add(
                entry.place,
                path,
                f"{name!r} ends in {ending!r}; a name ends in the unit of its values: _s, _ratio (0 to 1), _per_s, "
                "_bytes, _bytes_per_s, _cores, or in none",
                f"such as {name.removesuffix(ending)}{'_ratio' if ending == '_percent' else '_s'}; divide in the SQL",
            )


def _declared(answer: Node | None) -> Iterator[tuple[str, Entry]]:
    declared = answer.get("variables") if isinstance(answer, Mapping) else None
    if isinstance(declared, Mapping):
        yield from declared.entries.items()
