"""`towtank export`: stored results for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    memory: Annotated[str, typer.Option(help="Bound of the memory; more is put on the disk.")] = "1GiB",
) -> None:
    """Write stored results for other tools.

    The tables of --csv, --parquet and --sqlite are runs, requests, iterations, samples, events, counts and totals, all
    runs together. --hgrm, --k6-summary and --junit are formats of other tools. Files appear whole or not at all.
    """
    if not any((csv, parquet, sqlite, hgrm, k6_summary, junit)):
        raise typer.BadParameter(
            "say where to: --csv DIR, --parquet DIR, --sqlite FILE, --hgrm DIR, --k6-summary DIR or --junit FILE"
        )
    if any((hgrm, k6_summary, junit)):
        _interchange(results, hgrm=hgrm, k6_summary=k6_summary, junit=junit, force=force)
    if any((csv, parquet, sqlite)):
        _tables(results, csv=csv, parquet=parquet, sqlite=sqlite, what=what, force=force, memory=memory)


def _interchange(
    results: Path, *, hgrm: Path | None, k6_summary: Path | None, junit: Path | None, force: bool
) -> None:
    from towtank.report.interchange import write_hgrm, write_junit, write_k6_summaries
    from towtank.store import Results, locate

    opened = Results.open(locate(results))
    for damage in opened.damage:
        typer.echo(f"warning: left out: {damage}", err=True)
    if hgrm is not None:
        for file in write_hgrm(opened, hgrm, force=force):
            typer.echo(f"{file.what}: {file.rows} requests in {file.path}")
    if k6_summary is not None:
        for file in write_k6_summaries(opened, k6_summary, force=force):
            typer.echo(f"{file.what}: {file.rows} requests in {file.path}")
    if junit is not None:
        for file in write_junit(opened, junit, force=force):
            typer.echo(f"{file.what}: {file.rows} test cases in {file.path}")


def _tables(
    results: Path,
    *,
    csv: Path | None,
    parquet: Path | None,
    sqlite: Path | None,
    what: str,
    force: bool,
    memory: str,
) -> None:
    from towtank.cli.sql import memory_bound
    from towtank.store import Database, Results, locate
    from towtank.store.export import check_what, export_folder, export_sqlite, file_in, refuse_existing

    names = check_what([name.strip() for name in what.split(",") if name.strip()])
    folders = [(folder, kind) for folder, kind in ((csv, "csv"), (parquet, "parquet")) if folder is not None]
    targets = [file_in(folder, name, kind) for folder, kind in folders for name in names]
    refuse_existing(targets + ([sqlite] if sqlite is not None else []), force=force)
    with Database(Results.open(locate(results)), memory_bytes=memory_bound(memory)) as database:
        for damage in database.damage:
            typer.echo(f"warning: left out: {damage}", err=True)
        done = []
        if csv is not None:
            done += export_folder(database, csv, kind="csv", what=names, force=force)
        if parquet is not None:
            done += export_folder(database, parquet, kind="parquet", what=names, force=force)
        if sqlite is not None:
            done += export_sqlite(database, sqlite, what=names, force=force)
    for table in done:
        typer.echo(f"{table.what}: {table.rows} rows in {table.path}")
