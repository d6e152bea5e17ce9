"""Rows that are printed again under another name: measured anew, they would not agree to the last digit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

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
    fixed plan alone. At least three cells with ten digits together must agree, and none may differ.
    """
    by_number: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for table in tables:
        for row in table.rows:
            for key, text in _measured(row).items():
                by_number[key, text].append(row)
    told: set[tuple[tuple[str, int], tuple[str, int]]] = set()
    found = []
    for rows in by_number.values():
        for first, again in combinations(rows, 2):
            pair = ((first.table, first.line), (again.table, again.line))
            if pair in told or pair[0] == pair[1]:
                continue
            told.add(pair)
            columns = _same(first, again)
            if columns:
                found.append(Repeat(first, again, columns))
    return found


def _same(first: Row, again: Row) -> tuple[str, ...]:
    """Columns that agree; empty unless they say that the rows are one."""
    run = first.labels.get("run", "")
    if run and run == again.labels.get("run"):
        return ()
    a, b = _measured(first), _measured(again)
    both = [key for key in a if key in b]
    if len(both) < LEAST_CELLS or any(a[key] != b[key] for key in both):
        return ()
    if sum(_digits(a[key]) for key in both) < LEAST_DIGITS:
        return ()
    return tuple(first.cells[key].column.name for key in both)


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
