"""`towtank sql`: ask stored results a question."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from towtank.store import Database, Rows

DEFAULT_LIMIT = 100
"""Rows that a table on the terminal shows; files and pipes get all."""
_TOLD_APART = re.compile(r"\b(valid|instrument)\b", re.IGNORECASE)
"""The columns by which a query tells invalid runs from valid ones."""
_OF_COLUMNS = frozenset({"describe", "desc", "show"})
"""How statements begin that count nothing."""


class Format(StrEnum):
    """How the answer is written."""

    table = "table"
    csv = "csv"
    json = "json"
    markdown = "markdown"


def sql(
    results: Annotated[Path, typer.Argument(help="An experiment file, or the folder of its results.")],
    query: Annotated[str, typer.Argument(help="One statement that reads, such as: SELECT * FROM runs")],
    output: Annotated[
        Format, typer.Option("--format", "-f", help="How the answer is written.")
    ] = Format.table,
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, help=f"Show at most so many rows [default: {DEFAULT_LIMIT} in a table, else all]."
        ),
    ] = None,
    memory: Annotated[
        str, typer.Option(help="Memory that a query may take; what can be put on the disk is put there.")
    ] = "1GiB",
) -> None:
    """Ask stored results a question in SQL.

    The views are runs, requests, iterations, samples, events, counts and totals; DESCRIBE shows the columns of one.
    Only reading is possible, and only what is in the results folder.
    """
    from towtank.cli.bounds import bounded_memory, ended_in_order
    from towtank.store import Database, Results, locate, out_of_memory

    size = memory_bound(memory)
    shown = limit if limit is not None or output is not Format.table else DEFAULT_LIMIT
    with (
        ended_in_order() as hurry,
        Database(Results.open(locate(results)), memory_bytes=size) as database,
        bounded_memory(size),
    ):
        hurry(database.interrupt)
        try:
            rows = database.query(query)
            for damage in database.damage:
                typer.echo(f"warning: left out: {damage}", err=True)
            _say_invalid(database, query, rows)
            _write(rows, output, shown)
        except MemoryError as error:  # while it was shown
            raise out_of_memory(error) from error


def _say_invalid(database: Database, query: str, rows: Rows) -> None:
    """Remind of invalid runs, which every view has, where neither the query nor its answer tells them apart."""
    from towtank.store.views import VIEWS

    invalid = [
        run.run_id
        for run in database.results.runs()
        if run.record.verdicts is not None and run.record.verdicts.instrument == "invalid"
    ]
    told_apart = _TOLD_APART.search(query) or not {"valid", "instrument"}.isdisjoint(rows.columns)
    words = re.findall(r"\w+", query.lower())
    if invalid and not told_apart and words[0] not in _OF_COLUMNS and not VIEWS.keys().isdisjoint(words):
        names = ", ".join(invalid[:5]) + (f" … and {len(invalid) - 5} more" if len(invalid) > 5 else "")
        typer.echo(
            f"note: {len(invalid)} of {len(database.results.runs())} complete runs are invalid and are counted too, "
            f"unless the query leaves them out: {names}; WHERE valid does",
            err=True,
        )


def memory_bound(text: str) -> int:
    """Read the value of ``--memory``, bytes.

    Raises
    ------
    typer.BadParameter
        Not a size, or less than DuckDB can work with.
    """
    from towtank.units import parse_bytes

    try:
        size = parse_bytes(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--memory") from error
    if size < 64 << 20:
        raise typer.BadParameter(f"{text} is too little; allowed is 64MiB or more", param_hint="--memory")
    return size


def _write(rows: Rows, output: Format, limit: int | None) -> None:
    from towtank.store import rendering

    batches = _first(rows.batches(), limit)
    if output is Format.csv:
        rendering.write_csv(batches, rows.schema, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    elif output is Format.json:
        for line in rendering.json_lines(batches):
            typer.echo(line)
    elif output is Format.markdown:
        for line in rendering.markdown_lines(rows.columns, batches):
            typer.echo(line)
    else:
        _table(rows, limit)


def _table(rows: Rows, limit: int | None) -> None:
    """Show a table; what does not fit into the terminal is folded, never cut."""
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from towtank.store import rendering

    table = Table(show_edge=False, header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for field in rows.schema:
        number = (
            pa.types.is_integer(field.type)
            or pa.types.is_floating(field.type)
            or pa.types.is_decimal(field.type)
        )
        table.add_column(
            Text(rendering.visible(field.name)),
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=False,
        )
    lines = (line for batch in rows.batches() for line in rendering.cells(batch))
    count = 0
    for line in islice(lines, limit):
        table.add_row(*(Text(text) for text in line))
        count += 1
    more = next(lines, None) is not None
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, 10_000)
    console.print(table, soft_wrap=False)
    note = (
        f"the first {count} rows; --limit or LIMIT for others"
        if more
        else f"{count} row{'' if count == 1 else 's'}"
    )
    typer.echo(f"({note})", err=True)


def _first(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Only the first rows."""
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows
