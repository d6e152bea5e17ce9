"""What an audit says of a cell, or of several that contradict each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """Cells that cannot all be right.

    Parameters
    ----------
    rule : str
        Name of the rule, as docs/audit.md lists them.
    table : str
        File that it is in.
    line : int
        Line of the file, from 1.
    row : str
        What the row is about: its text cells.
    columns : tuple of str
        Cells that contradict each other.
    message : str
        What is printed, and what follows from the others, with the arithmetic.
    """

    rule: str
    table: str
    line: int
    row: str
    columns: tuple[str, ...]
    message: str

    def __str__(self) -> str:
        about = f" ({self.row})" if self.row else ""
        return f"{self.table}, line {self.line}{about}, {' and '.join(self.columns)}: {self.message}"
