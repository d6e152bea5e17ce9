"""Rows that are printed again under another name: measured anew, they would not agree to the last digit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from towtank.audit.problem import Problem
from towtank.audit.table import Row, Table

LEAST_CELLS = 3
LEAST_DIGITS = 10
"""Digits that two rows must share to be called one: by chance ten agree in about one of 10^10 pairs."""


@dataclass(frozen=True)
class Repeat:
    """Two rows with the same measured numbers."""

    first: Row
    again: Row
    columns: tuple[str, ...]

    def problem(self) -> Problem:
        """What to say of it."""
        about = f" ({self.first.about})" if self.first.about else ""
        return Problem(
            "repeated", self.again.table, self.again.line, self.again.about, self.columns,
            f"the same to the last digit as {self.first.table}, line {self.first.line}{about}: one row printed twice? "
            "(Where it is one run on purpose, give both rows the same text in a column `run`.)",
        )  # fmt: skip


def repeats(tables: Sequence[Table]) -> list[Repeat]:
    """Find rows that have the same measured numbers in all columns that both have.

    Setup (users, durations, prices) may well be the same, and so may cells without information: 0, 100 %, counts of a
    fixed plan alone. At least three cells with ten digits together must agree, and none may differ. A row is told once,
    with the first that it repeats.
    """
    printed = [(row, _measured(row)) for table in tables for row in table.rows]
    order = {id(row): number for number, (row, _) in enumerate(printed)}
    alike: dict[frozenset[str], list[tuple[Row, dict[str, str]]]] = defaultdict(list)
    for row, texts in printed:
        alike[frozenset(texts)].append((row, texts))
    found: dict[int, Repeat] = {}
    for first, second in combinations_with_replacement(alike, 2):
        both = sorted(first & second)
        if len(both) < LEAST_CELLS:
            continue
        same: dict[tuple[str, ...], list[Row]] = defaultdict(list)
        for row, texts in alike[first] + (alike[second] if second != first else []):
            same[tuple(texts[key] for key in both)].append(row)
        for values, rows in same.items():
            if len(rows) > 1 and sum(map(_digits, values)) >= LEAST_DIGITS:
                for repeat in _repeated(sorted(rows, key=lambda row: order[id(row)]), both):
                    found.setdefault(order[id(repeat.again)], repeat)
    return [found[number] for number in sorted(found)]


def _repeated(rows: Sequence[Row], keys: Sequence[str]) -> Iterator[Repeat]:
    """Each row but the first with the first that it may not repeat: one that is not the same run on purpose."""
    for number, again in enumerate(rows):
        run = again.labels.get("run", "")
        earlier = (row for row in rows[:number] if not run or row.labels.get("run", "") != run)
        first = next(earlier, None)
        if first is not None:
            yield Repeat(first, again, tuple(again.cells[key].column.name for key in keys))


def _measured(row: Row) -> dict[str, str]:
    """Cells that say something of a run, as they are printed."""
    return {
        key: cell.text
        for key, cell in row.cells.items()
        if not cell.column.setup and not cell.column.changed and _digits(cell.text) > 1
    }


def _digits(text: str) -> int:
    """Digits that say something: not the zeros at either end, so that 0, 100 and 0.50 have few."""
    plain = "".join(character for character in text.lower().partition("e")[0] if character.isdigit())
    return len(plain.strip("0"))
