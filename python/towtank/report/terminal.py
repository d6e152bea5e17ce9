"""The report in a terminal: the answer, the tables, the findings; rich tables without any markup parsing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from towtank.report.language import catalogue
from towtank.report.model import Cell, Column, Notice, ReportModel, Table, Tone

Say = Callable[[str], str]
_TONE: dict[Tone, str] = {
    "plain": "", "good": "green", "bad": "red", "same": "cyan", "unsure": "yellow", "muted": "dim",
}  # fmt: skip
_SEVERITY = {"serious": "red", "warning": "yellow", "info": "cyan"}
TERMINAL_TABLES = ("claims", "treatments", "latency", "outcomes-table", "steps", "slo")
"""What `show` prints; `runs=True` adds the table of all runs."""
RUN_COLUMNS = ("Run", "Instrument", "System", "Goodput", "median", "p95")
"""Of the table of runs; the others are in the HTML report."""
MAX_TURNED = 5
"""Most rows that are still comfortable side by side."""
GAP = 3
"""Blanks and line between two columns."""


def show(model: ReportModel, console: Console, *, runs: bool = False) -> None:
    """Print the report.

    Parameters
    ----------
    model : ReportModel
    console : rich.console.Console
    runs : bool, default False
        Also print the table of all runs.
    """
    console.print(Text(model.question, style="bold"))
    console.print(Text(model.headline))
    if model.caution:
        console.print(Text(model.caution, style=_TONE["unsure"]))
    console.print(Text(" · ").join(Text(c.text, style=_TONE[c.tone]) for c in model.chips))
    for answer in model.answers:
        line = Text("  ")
        line.append(answer.verdict, style=f"bold {_TONE[answer.tone]}".strip())
        line.append(f"  {answer.claim}\n    ")
        line.append(answer.sentence, style="dim")
        console.print(line)
    wanted, say = (*TERMINAL_TABLES, "runs") if runs else TERMINAL_TABLES, catalogue(model.language).text
    for table in model.tables:
        if table.id in wanted and table.rows:
            console.print()
            console.print(_table(_runs(table, say) if table.id == "runs" else table, console.width, say))
    notices = [b for s in model.sections for b in s.blocks if isinstance(b, Notice) and b.name != "none"]
    if notices:
        console.print()
        console.print(Text(say("Findings and threats to validity"), style="bold"))
        for notice in notices:
            console.print(_notice(notice, say))


def _runs(table: Table, say: Say) -> Table:
    """Keep the columns that a terminal has room for."""
    keep = [i for i, c in enumerate(table.columns) if c.title in {say(name) for name in RUN_COLUMNS}]
    rows = tuple(tuple(row[i] for i in keep) for row in table.rows)
    return replace(table, columns=tuple(table.columns[i] for i in keep), rows=rows)


def _table(table: Table, width: int, say: Say) -> RenderableType:
    """Print a table in the fullest form that the screen is wide enough for."""
    drawn, marks, left_out = _fit(table, width)
    notes = [Text(f" {mark} {note}", style="dim") for note, mark in marks.items()]
    if left_out:
        told = f" Not shown here: {', '.join(left_out)}; the HTML report has them."
        notes.append(Text(say(told), style="dim"))
    return Group(Text(table.caption, style="bold"), drawn, *notes)


def _fit(table: Table, width: int) -> tuple[RichTable, dict[str, str], list[str]]:
    """Whole; else turned on its side; else without intervals; else without the columns that have no room.

    Returns
    -------
    RichTable, dict, list of str
        What to print, its footnotes, and the columns left out.
    """
    if _needed(table) <= width:
        return _upright(table), table.footnotes(), []
    turned = _turn(table)
    if len(table.rows) <= MAX_TURNED and _needed(turned) <= width:
        return _upright(turned), table.footnotes(), []
    short = _without_details(table)
    left_out: list[str] = []
    while len(short.columns) > 2 and _needed(short) > width:
        optional = [i for i, c in enumerate(short.columns) if c.optional]
        index = optional[-1] if optional else len(short.columns) - 1
        left_out.insert(0, short.columns[index].title)
        short = _without_column(short, index)
    return _upright(short), short.footnotes(), left_out


def _turn(table: Table) -> Table:
    """Columns become rows: the treatments stand side by side."""
    heads = (table.columns[0], *(Column(row[0].text, numeric=True) for row in table.rows))
    rows = tuple(
        (Cell(column.title), *(row[index] for row in table.rows))
        for index, column in enumerate(table.columns)
        if index > 0
    )
    return replace(table, columns=heads, rows=rows)


def _without_details(table: Table) -> Table:
    return replace(table, rows=tuple(tuple(replace(c, detail="") for c in row) for row in table.rows))


def _without_column(table: Table, index: int) -> Table:
    rows = tuple((*row[:index], *row[index + 1 :]) for row in table.rows)
    return replace(table, columns=(*table.columns[:index], *table.columns[index + 1 :]), rows=rows)


def _needed(table: Table) -> int:
    """Width that a table needs so that nothing is folded."""
    widths = [
        max([len(column.title), *(_width(row[i]) for row in table.rows)])
        for i, column in enumerate(table.columns)
    ]
    return sum(widths) + GAP * len(widths)


def _width(cell: Cell) -> int:
    return max(cell_len(cell.text) + (2 if cell.note else 0), cell_len(cell.detail))


def _upright(table: Table) -> RichTable:
    marks = table.footnotes()
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="")
    for column in table.columns:
        drawn.add_column(Text(column.title), justify="right" if column.numeric else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(_cell(c, marks) for c in row))
    return drawn


def _cell(cell: Cell, marks: dict[str, str]) -> Text:
    text = Text(cell.text, style=_TONE[cell.tone])
    if cell.note:
        text.append(f" {marks[cell.note]}", style="dim")
    if cell.detail:
        text.append(f"\n{cell.detail}", style="dim")
    return text


def _notice(notice: Notice, say: Say) -> Text:
    text = Text("  ")
    text.append(say(notice.severity), style=_SEVERITY[notice.severity])
    text.append(f"  {notice.message}")
    if notice.advice:
        text.append(f"\n    → {notice.advice}", style="dim")
    return text
