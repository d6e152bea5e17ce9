"""Reading a published table from its CSV form."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from towtank.audit.columns import KNOWN, TIME_UNITS, Column, understand
from towtank.audit.printed import Range, read_number
from towtank.errors import ForeignFileError

MOST_BYTES = 20_000_000
MOST_CHARACTERS = 100_000
"""A published table is far smaller; a file beyond is something else."""


@dataclass(frozen=True)
class Cell:
    """A printed number: its text, and the range it stands for in base units."""

    column: Column
    text: str
    range: Range

    @property
    def high(self) -> Fraction:
        """Upper end of a cell that has one."""
        assert self.range.high is not None  # noqa: S101 - asked of cells of `bounded` only
        return self.range.high

    @property
    def said(self) -> str:
        """What is printed, with the unit of a time."""
        unit = self.column.name.rpartition("_")[2]
        return f"{self.text} {unit}" if unit in TIME_UNITS else self.text

    @property
    def low(self) -> Fraction:
        """Lower end."""
        return self.range.low


@dataclass(frozen=True)
class Row:
    """A row: its numbers by quantity, and its text.

    Parameters
    ----------
    table : str
    line : int
        Of the file, from 1.
    labels : dict of str to str
        Text cells by column.
    cells : dict of str to Cell
        By quantity (`Column.key`); only those in which something is printed.
    columns : dict of str to Column
        All that the table has, printed or not.
    """

    table: str
    line: int
    labels: dict[str, str]
    cells: dict[str, Cell]
    columns: dict[str, Column]

    @property
    def about(self) -> str:
        """What the row is about."""
        return ", ".join(text for text in self.labels.values() if text)

    def bounded(self, *keys: str) -> tuple[Cell, ...] | None:
        """Cells that can be reckoned with; None unless all are printed and have an upper end."""
        return bounded(self.cells, *keys)


def bounded(cells: Mapping[str, Cell], *keys: str) -> tuple[Cell, ...] | None:
    """As `Row.bounded`, of some cells of a row."""
    found = [cells.get(key) for key in keys]
    known = tuple(cell for cell in found if cell is not None and cell.range.high is not None)
    return known if len(known) == len(keys) else None


@dataclass(frozen=True)
class Table:
    """A published table.

    Parameters
    ----------
    name : str
        Its file.
    rows : tuple of Row
    unread : tuple of str
        Columns of numbers whose names say nothing to the audit.
    """

    name: str
    rows: tuple[Row, ...]
    unread: tuple[str, ...]


def read_table(path: Path, *, slack: int = 1) -> Table:
    """Read a table.

    Parameters
    ----------
    path : Path
        CSV in UTF-8: a line of column names, then one line a row; lines that begin with ``#`` are left out.
    slack : int
        As that of `printed.read_number`.

    Raises
    ------
    ForeignFileError
        It cannot be read, is no table, or has a cell that is no number where one belongs; all such cells at once.
    """
    lines = [(number, line) for number, line in enumerate(_text(path).splitlines(), 1) if line.strip()]
    lines = [(number, line) for number, line in lines if not line.lstrip().startswith("#")]
    if len(lines) < 2:
        raise ForeignFileError(
            f"{path} has no rows: a line of column names and at least one row are needed",
            hint="docs/audit.md shows the form",
        )
    split = [(number, _cells(path, number, line)) for number, line in lines]
    names = [name.strip() for name in split[0][1]]
    other = next((sign for sign in ";\t|" if len(names) == 1 and sign in names[0]), "")
    if other:
        raise ForeignFileError(
            f"{path}, line {split[0][0]} parts its columns by {other!r}; allowed is the comma",
            hint="save it as CSV with commas, and numbers with a decimal point",
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or "" in names:
        what = f"the column {twice[0]!r} twice" if twice and twice[0] else "a column without a name"
        raise ForeignFileError(f"{path}, line {split[0][0]} has {what}", hint="give every column one name")
    columns = understand(names)
    _refuse_one_quantity_twice(path, columns)
    rows: list[Row] = []
    wrong: list[str] = []
    for number, cells in split[1:]:
        if len(cells) != len(names):
            wrong.append(
                f"{path}, line {number} has {len(cells)} cells, its table {len(names)} columns: "
                "quote a cell that has a comma in it"
            )
            continue
        try:
            rows.append(_row(str(path), number, dict(zip(names, cells, strict=True)), columns, slack=slack))
        except ValueError as error:
            wrong.append(f"{path}, line {number}: {error}")
    if wrong:
        raise ForeignFileError("\n".join(wrong), hint="docs/audit.md says how numbers are written")
    return Table(str(path), tuple(rows), _unread(rows))


def _cells(path: Path, number: int, line: str) -> list[str]:
    if len(line) > MOST_CHARACTERS:
        raise ForeignFileError(
            f"{path}, line {number} has {len(line):,} characters; at most {MOST_CHARACTERS:,}: it is no printed line"
        )
    try:
        return next(csv.reader(io.StringIO(line)))
    except csv.Error as error:
        raise ForeignFileError(
            f"{path}, line {number} cannot be read: {error}", hint="docs/audit.md shows the form"
        ) from error


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ForeignFileError(
                f"{path} has more than {MOST_BYTES // 1_000_000} MB: it is no published table"
            )
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise ForeignFileError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ForeignFileError(f"{path} is not UTF-8 text", hint="save it as CSV in UTF-8") from error


def _refuse_one_quantity_twice(path: Path, columns: dict[str, Column]) -> None:
    seen: dict[str, str] = {}
    for name, column in columns.items():
        if column.key in seen:
            raise ForeignFileError(
                f"{path} has one quantity in two columns: {seen[column.key]} and {name}",
                hint="keep the one with more digits, or put the other in a table of its own",
            )
        seen[column.key] = name


def _row(table: str, line: int, texts: dict[str, str], columns: dict[str, Column], *, slack: int) -> Row:
    labels = {name: text.strip() for name, text in texts.items() if name not in columns}
    cells: dict[str, Cell] = {}
    wrong = []
    for name, column in columns.items():
        try:
            found = read_number(texts[name], count=column.count, slack=slack)
        except ValueError as error:
            wrong.append(f"{name}: {error}")
            continue
        if found is not None:
            cells[column.key] = Cell(column, texts[name].strip(), found.times(column.scale))
    if wrong:
        raise ValueError("; ".join(wrong))
    return Row(table, line, labels, cells, columns)


def _unread(rows: list[Row]) -> tuple[str, ...]:
    """Columns left as text in which every row has a number with a decimal point: most likely they are misspelt."""
    names = rows[0].labels if rows else {}
    return tuple(name for name in names if all(_is_decimal(row.labels[name]) for row in rows))


def _is_decimal(text: str) -> bool:
    try:
        return "." in text and read_number(text) is not None
    except ValueError:
        return False


def nothing_to_check(tables: list[Table]) -> ForeignFileError:
    """What to say where no rule found the columns that it needs."""
    return ForeignFileError(
        f"nothing can be recomputed in {', '.join(table.name for table in tables)}: no rule finds the columns it needs",
        hint=f"columns that are understood: {KNOWN}",
    )
