"""`towtank report`: from stored results to HTML, Markdown, figures and terminal tables."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Purpose(StrEnum):
    """What the parts of a report are for."""

    paper = "paper"


def report(  # noqa: PLR0917 - typer hands over options by position
    results: Annotated[Path, typer.Argument(help="An experiment file, or the folder of its results.")],
    html: Annotated[
        Path | None, typer.Option("--html", help="Where the HTML goes [default: RESULTS/report/report.html].")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the report as Markdown instead of the terminal tables.")
    ] = False,
    figures: Annotated[
        Path | None,
        typer.Option("--figures", metavar="DIR", help="Also write every figure as files into this folder."),
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", help="Formats of the figures: svg, png, pdf, with commas between.")
    ] = "svg,png,pdf",
    tables: Annotated[
        Path | None,
        typer.Option(
            "--tables", metavar="DIR", help="Also write every table as a CSV file into this folder."
        ),
    ] = None,
    purpose: Annotated[
        Purpose | None,
        typer.Option(
            "--for",
            help="Also write every table and figure by itself, as LaTeX, Markdown, CSV, SVG, PDF and PNG.",
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into", metavar="DIR", help="Folder of `--for paper` [default: RESULTS/report/paper]."
        ),
    ] = None,
    pareto: Annotated[
        list[str] | None,
        typer.Option(
            "--pareto",
            metavar="X,Y",
            help="Draw the Pareto front of these two response variables [default: cost, else CPU, against p95].",
        ),
    ] = None,
    language: Annotated[
        str,
        typer.Option("--language", help="Language of the report: en, pt. Others go to report.LANGUAGE.html."),
    ] = "en",
    runs: Annotated[bool, typer.Option("--runs", help="Also print the table of all runs.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the path of the report only.")] = False,
) -> None:
    """Write the report of stored results, and print its tables.

    RESULTS/report gets report.html, one file that needs no network, and report.md. Nothing is measured and nothing
    is executed: a result folder can be reported on another machine, years later.
    """
    import sys

    from rich.console import Console

    from towtank import report as reports
    from towtank.report.csv_tables import write_tables
    from towtank.report.language import catalogue, translated
    from towtank.report.output import analysis_of, write_model
    from towtank.report.paper import PAGE_PX, write_paper
    from towtank.store import locate

    if into is not None and purpose is None:
        raise typer.BadParameter(f"{into} is where --for writes, and there is no --for: add --for paper")
    catalogue(language)
    folder = locate(results)
    analysis = analysis_of(folder)
    pairs = [_pair(words) for words in pareto or ()]
    model = translated(reports.build(analysis, pareto=pairs), language)
    wanted = tuple(part for part in formats.split(",") if part.strip())
    written = write_model(model, folder / "report", html_file=html, figures=figures, formats=wanted)
    listed = write_tables(model, tables) if tables is not None else []
    paper = None
    if purpose is not None:
        fit = translated(reports.build(analysis, wide_px=PAGE_PX, pareto=pairs), language)
        paper = write_paper(fit, into or folder / "report" / purpose.value, wanted)
    if markdown:
        sys.stdout.write(reports.markdown.render(model))
        return
    if not quiet:
        reports.terminal.show(model, Console(highlight=False, markup=False, emoji=False), runs=runs)
        typer.echo()
    typer.echo(str(written.html))
    if paper is not None:
        typer.echo(str(paper.index))
    if not quiet:
        if listed:
            typer.echo(f"{len(listed)} tables in {tables}")
        if written.figures:
            typer.echo(f"{len(written.figures)} figures in {figures}")
        typer.echo(f"{written.html.stat().st_size / 1e6:.1f} MB; Markdown beside it: {written.markdown.name}")


def _pair(words: str) -> tuple[str, str]:
    """Read `--pareto X,Y`."""
    names = [name.strip() for name in words.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise typer.BadParameter(
            f"{words!r} is not two response variables, such as cpu_cores,p95", param_hint="--pareto"
        )
    return names[0], names[1]
