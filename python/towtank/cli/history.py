"""`towtank history`: where many results of one experiment took another level."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from towtank.analysis.followed_series import Change
    from towtank.analysis.history import History
    from towtank.store import Results

NEWEST = 7


def history(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RESULTS...", help="Folders of results, in any order.")
    ],
    newest: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="End with 8 when something became worse within the newest N results."
        ),
    ] = NEWEST,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is found as JSON.")] = False,
    github: Annotated[
        bool, typer.Option("--github", help="Also print annotations of GitHub's workflows.")
    ] = False,
) -> None:
    """Follow the primary variables over many results of one experiment, and say where their level changed.

    The designs must be the same but for the deployments. Ends with 8 when something became worse lately, else with 6
    when the newest result has no valid run or lacks a value that others have.
    """
    from towtank.analysis.history import history as follow
    from towtank.errors import ExitCode
    from towtank.report.interchange import github as annotations
    from towtank.store import Results, locate

    results = [Results.open(locate(folder)) for folder in folders]
    found = follow(results)
    if as_json:
        typer.echo(_json(found, newest))
    else:
        for line in _lines(found, results, newest):
            typer.echo(line)
    if github:
        for line in annotations.render_changes(found, newest=newest):
            typer.echo(line, err=as_json)
    if found.worse_since(newest):
        raise typer.Exit(int(ExitCode.REGRESSION))
    if found.unsaid:
        raise typer.Exit(int(ExitCode.INVALID_RUNS))


def _lines(found: History, results: Sequence[Results], newest: int) -> list[str]:
    from towtank.analysis import sentences

    first, last = found.points[0], found.points[-1]
    span = f"{first.started_utc[:10]} ({first.name}) to {last.started_utc[:10]} ({last.name})"
    said = [f"{found.experiment}: {len(found.points)} results, {span}"]
    for change in found.changes:
        said.append(f"  - {change.sentence}")
        said += [
            f"    the environments differ there: {line}" for line in _environments(found, change, results)
        ]
    said += [f"note: {note}" for note in found.notes]
    said.append(f"note: {found.caution}")
    said += [f"not known: {line}" for line in found.unsaid]
    lately = len(found.worse_since(newest))
    changes = sentences.count(len(found.changes), "changes of level")
    said.append(
        f"{len(found.series)} series, {changes}, {lately} for the worse within the newest {newest} results"
    )
    return said


def _environments(found: History, change: Change, results: Sequence[Results]) -> list[str]:
    """What differs between the result that a change begins at and the one before it, one line each."""
    from towtank.campaign.environment import difference

    by_path = {one.path: one for one in results}
    before, at = (by_path[found.points[index].path] for index in (change.at - 1, change.at))
    if not all(one.layout.environment.is_file() for one in (before, at)):
        return []
    return difference(before.environment, at.environment)


def _json(found: History, newest: int) -> str:
    import json
    from dataclasses import asdict

    lately = [asdict(change) for change in found.worse_since(newest)]
    return json.dumps(
        {**asdict(found), "worse": lately}, indent=2, ensure_ascii=False, allow_nan=False, default=str
    )
