"""Every table of a report as a CSV file: what is shown, and the number behind it."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from towtank.errors import ResultsError
from towtank.report.model import Cell, ReportModel, Table
from towtank.report.values import NOTHING


def write_tables(model: ReportModel, folder: Path) -> list[Path]:
    """Write one file for each table, named for it; files of an earlier report are replaced.

    Parameters
    ----------
    model : ReportModel
    folder : Path
        Created when it is not there.

    Raises
    ------
    ResultsError
        It cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for table in model.tables:
            path = folder / f"{table.id}.csv"
            path.write_text(render(table), encoding="utf-8", newline="")
            paths.append(path)
    except OSError as error:
        raise ResultsError(
            f"tables cannot be written to {folder}: {error.strerror}",
            hint="choose another folder with --tables DIR",
        ) from error
    return paths


def render(table: Table) -> str:
    """Write a table as CSV (RFC 4180).

    A numeric column is followed by ``<title> (number)`` in base units, without rounding; empty where the cell has none,
    and ``inf`` where it lies above what can be measured.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    numbered = [
        column.numeric and any(row[index].sort is not None for row in table.rows)
        for index, column in enumerate(table.columns)
    ]
    header: list[str] = []
    for column, number in zip(table.columns, numbered, strict=True):
        header += [column.title, f"{column.title} (number)"] if number else [column.title]
    writer.writerow(header)
    for row in table.rows:
        cells: list[str] = []
        for cell, number in zip(row, numbered, strict=True):
            cells += [_shown(cell), _number(cell)] if number else [_shown(cell)]
        writer.writerow(cells)
    return text.getvalue()


def _shown(cell: Cell) -> str:
    """The text with its second line; a dash with its reason."""
    reason = f" ({cell.note})" if cell.text == NOTHING and cell.note else ""
    return f"{cell.text}{reason}{f'; {cell.detail}' if cell.detail else ''}"


def _number(cell: Cell) -> str:
    if cell.sort is None:
        return ""
    return "inf" if math.isinf(cell.sort) else f"{cell.sort:.12g}"
