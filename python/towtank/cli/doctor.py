"""`towtank doctor`: what this machine can and cannot do, and what that means."""

from __future__ import annotations

import json as json_module
from pathlib import Path

import typer

_WIDTH_IN_PIPES = 140


def doctor(
    path: Path = typer.Argument(Path(), metavar="DIR", help="Where results would be written."),
    *,
    json: bool = typer.Option(False, "--json", help="As JSON, for scripts."),
) -> None:
    """Say what this machine can and cannot do.

    Measures for half a second how evenly this machine lets a program run. Changes nothing.
    """
    from towtank.campaign.machine_checks import check_machine

    findings = check_machine(path)
    if json:
        typer.echo(json_module.dumps([finding.as_json() for finding in findings], indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("", "what", "found", "what it means"):
        table.add_column(title, overflow="fold")
    colours = {"ok": "green", "limited": "yellow", "missing": "red"}
    for finding in findings:
        table.add_row(
            f"[{colours[finding.state]}]{finding.state}[/]", finding.what, finding.found, finding.meaning
        )
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH_IN_PIPES
    console.print(table)
