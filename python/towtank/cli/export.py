"""`towtank export`: stored results for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from towtank.store import Results

MOST_SAID = 20
"""Attempts that are named one by one with what is wrong with them."""


def export(  # noqa: PLR0917 - typer's idiom
    results: Annotated[Path, typer.Argument(help="An experiment file, or the folder of its results.")],
    csv: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a CSV file per table into this folder.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a Parquet file per table into this folder.")
    ] = None,
    sqlite: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all tables into this SQLite file.")
    ] = None,
    hgrm: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write HdrHistogram percentile tables into this folder."),
    ] = None,
    k6_summary: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a summary per run as k6's handleSummary has it.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the SLOs of every run as JUnit test cases.")
    ] = None,
    what: Annotated[
        str, typer.Option(metavar="NAMES", help="Tables, such as runs,requests [default: all].")
    ] = "",
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="With attempts that do not count: invalid ones, and those that never ended."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    memory: Annotated[str, typer.Option(help="Bound of the memory; more is put on the disk.")] = "1GiB",
) -> None:
    """Write stored results for other tools.

    The tables of --csv, --parquet and --sqlite are runs, requests, iterations, samples, events, counts and totals, all
    runs together. --hgrm, --k6-summary and --junit are formats of other tools. Files appear whole or not at all.
    Attempts that do not count, such as invalid ones, are left out and named; --all takes them in.
    """
    if not any((csv, parquet, sqlite, hgrm, k6_summary, junit)):
        raise typer.BadParameter(
            "say where to: --csv DIR, --parquet DIR, --sqlite FILE, --hgrm DIR, --k6-summary DIR or --junit FILE"
        )
    from towtank.store import Results, locate

    opened = Results.open(locate(results))
    if any((hgrm, k6_summary, junit)):
        _interchange(
            opened, hgrm=hgrm, k6_summary=k6_summary, junit=junit, force=force, everything=everything
        )
    if any((csv, parquet, sqlite)):
        _tables(
            opened, csv=csv, parquet=parquet, sqlite=sqlite, what=what, force=force, memory=memory,
            everything=everything,
        )  # fmt: skip
    if any((hgrm, k6_summary, csv, parquet, sqlite)):
        _say_left_out(opened, everything=everything, tables=any((csv, parquet, sqlite)))


def _say_left_out(opened: Results, *, everything: bool, tables: bool) -> None:
    """Say which attempts are not in it and why; what does not count and is in it is named too."""
    from towtank.analysis.selection import left_out

    records = [run.record for run in opened.runs("all")]
    found = left_out(records)
    inside = [one for one in found if everything and (one.complete or tables)]
    outside = [one for one in found if one not in inside]
    if inside:
        names = ", ".join(one.run_id for one in inside[:MOST_SAID])
        more = f" … and {len(inside) - MOST_SAID} more" if len(inside) > MOST_SAID else ""
        typer.echo(
            f"note: {len(inside)} of {len(records)} attempts are in it that do not count: {names}{more}",
            err=True,
        )
    if outside:
        how = "" if everything else "; --all takes them in"
        typer.echo(f"note: {len(outside)} of {len(records)} attempts are left out{how}:", err=True)
        for one in outside[:MOST_SAID]:
            typer.echo(f"  {one.run_id}: {one.why}", err=True)
        if len(outside) > MOST_SAID:
            typer.echo(f"  … and {len(outside) - MOST_SAID} more", err=True)


def _interchange(
    opened: Results,
    *,
    hgrm: Path | None,
    k6_summary: Path | None,
    junit: Path | None,
    force: bool,
    everything: bool,
) -> None:
    from towtank.report.interchange import write_hgrm, write_junit, write_k6_summaries

    for damage in opened.damage:
        typer.echo(f"warning: left out: {damage}", err=True)
    if hgrm is not None:
        for file in write_hgrm(opened, hgrm, force=force, everything=everything):
            typer.echo(f"{file.what}: {file.rows} requests in {file.path}")
    if k6_summary is not None:
        for file in write_k6_summaries(opened, k6_summary, force=force, everything=everything):
            typer.echo(f"{file.what}: {file.rows} requests in {file.path}")
    if junit is not None:
        for file in write_junit(opened, junit, force=force):
            typer.echo(f"{file.what}: {file.rows} test cases in {file.path}")


def _tables(
    opened: Results,
    *,
    csv: Path | None,
    parquet: Path | None,
    sqlite: Path | None,
    what: str,
    force: bool,
    memory: str,
    everything: bool,
) -> None:
    from towtank.analysis.selection import counting_attempts
    from towtank.cli.sql import memory_bound
    from towtank.store import Database
    from towtank.store.export import check_what, export_folder, export_sqlite, file_in, refuse_existing

    names = check_what([name.strip() for name in what.split(",") if name.strip()])
    folders = [(folder, kind) for folder, kind in ((csv, "csv"), (parquet, "parquet")) if folder is not None]
    targets = [file_in(folder, name, kind) for folder, kind in folders for name in names]
    refuse_existing(targets + ([sqlite] if sqlite is not None else []), force=force)
    runs = None if everything else counting_attempts([run.record for run in opened.runs("all")])
    with Database(opened, memory_bytes=memory_bound(memory)) as database:
        for damage in database.damage:
            typer.echo(f"warning: left out: {damage}", err=True)
        done = []
        if csv is not None:
            done += export_folder(database, csv, kind="csv", what=names, runs=runs, force=force)
        if parquet is not None:
            done += export_folder(database, parquet, kind="parquet", what=names, runs=runs, force=force)
        if sqlite is not None:
            done += export_sqlite(database, sqlite, what=names, runs=runs, force=force)
    for table in done:
        typer.echo(f"{table.what}: {table.rows} rows in {table.path}")
