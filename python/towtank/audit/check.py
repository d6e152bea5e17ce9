"""One comparison that a rule made: the cells it is about, and whether they can all be right."""

from __future__ import annotations

from dataclasses import dataclass

from towtank.audit.problem import Problem
from towtank.audit.table import Cell, Row


@dataclass(frozen=True)
class Check:
    """What a rule found of some cells.

    Parameters
    ----------
    cells : tuple of Cell
    holds : bool
        There are values which print like the cells and agree with each other.
    message : str
        What to say where it does not hold.
    trivial : bool
        It says nothing of the table that it holds, so it does not count as something recomputed.
    """

    cells: tuple[Cell, ...]
    holds: bool
    message: str
    trivial: bool = False

    def problem(self, rule: str, row: Row) -> Problem:
        """What to say of it."""
        names = tuple(dict.fromkeys(cell.column.name for cell in self.cells))
        return Problem(rule, row.table, row.line, row.about, names, self.message)
