"""`towtank capacity`: how much load each deployment carries before it misses its objectives."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from towtank.cli.overrides import OVERRIDES, read_overrides
from towtank.cli.run import EXPERIMENT, FORCE_NEW, PLAIN, PROFILE, shown
from towtank.errors import ExitCode

if TYPE_CHECKING:
    from towtank.campaign.capacity import CapacitySearch
    from towtank.design import Plan
    from towtank.design.capacity_file import CapacityFile

_WIDER = 100.0
"""Without bounds, the ladder reaches from 1/100 to 100 times the load of the file."""


def capacity(
    file: Path = EXPERIMENT,
    *,
    at_least: float | None = typer.Option(
        None, "--at-least", metavar="LOAD", help="Lowest load; default is 1/100 of the file's."
    ),
    at_most: float | None = typer.Option(
        None, "--at-most", metavar="LOAD", help="Highest load; default is 100 times the file's."
    ),
    step: str = typer.Option("5%", "--step", metavar="SHARE", help="Distance of two loads."),
    confirmations: int = typer.Option(
        5, "--confirmations", min=1, metavar="N", help="Runs that must all hold, or all fail."
    ),
    most_runs: int = typer.Option(
        100, "--most-runs", min=1, metavar="N", help="Of each deployment, at most."
    ),
    results: Path | None = typer.Option(
        None,
        "--results",
        metavar="DIR",
        help="Result folder; default is results/<experiment>-capacity beside FILE.",
    ),
    profile: str | None = PROFILE,
    values: list[str] = OVERRIDES,
    force_new: bool = FORCE_NEW,
    plain: bool = PLAIN,
) -> None:
    """Find the highest load at which each deployment of an experiment holds its objectives (`slo`).

    Single runs seek the place, beginning at the load of the file; then loads are confirmed by runs that must agree.
    The same command resumes after an interruption.
    """
    from towtank.campaign import StopRequest, choose_display, run_campaign
    from towtank.campaign.capacity import keep_capacities
    from towtank.cli.journey_check import checked_plan

    plan, _ = checked_plan(file, profile=profile, overrides=read_overrides(values))
    searching = _search(
        plan, file, (at_least, at_most), step=step, confirmations=confirmations, most_runs=most_runs
    )
    root = file.resolve() if file.is_dir() else file.resolve().parent
    name = searching.laddered.plan.experiment.experiment
    folder = results if results is not None else root / "results" / name
    display = choose_display(plain=plain, environment=dict(os.environ))
    searching.tell = display.note
    with StopRequest() as stop, shown(display):
        outcome = run_campaign(
            searching.first_plan(), root=root, folder=folder.absolute(), display=display, stop=stop,
            force_new=force_new, extension=searching.extension,
        )  # fmt: skip
    found = searching.capacities(outcome.results, outcome.plan)
    kept = keep_capacities(outcome.results, searching.laddered, found)
    _say(kept)
    if len(found) < len(searching.laddered.bases):
        typer.echo(
            "some searches cannot go on: runs stayed invalid after their repetitions: "
            + ", ".join(outcome.spoiled[:5])
            + "; once the cause is gone, the same command goes on",
            err=True,
        )
        raise typer.Exit(int(ExitCode.INVALID_RUNS))


def _search(
    plan: Plan,
    file: Path,
    bounds: tuple[float | None, float | None],
    *,
    step: str,
    confirmations: int,
    most_runs: int,
) -> CapacitySearch:
    """Put ladders under a plan.

    Raises
    ------
    DesignError
    typer.BadParameter
    """
    from towtank.analysis.capacity import Rules
    from towtank.analysis.load_line import ladder
    from towtank.campaign.capacity import CapacitySearch
    from towtank.design.laddered import check_ladderable, declared_load, laddered
    from towtank.units import parse_ratio

    check_ladderable(plan, str(file))
    rungs = {}
    try:
        share = parse_ratio(step)
        for base in plan.treatments:
            load = declared_load(base.spec)
            low = load / _WIDER if bounds[0] is None else bounds[0]
            high = load * _WIDER if bounds[1] is None else bounds[1]
            whole = base.spec.workload.load.model == "closed"
            rungs[base.id] = ladder(
                max(low, 1.0) if whole and low > 0 else low, high, step=share, whole=whole
            )
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--at-least, --at-most, --step") from error
    rules = Rules(share, confirmations, most_runs)
    return CapacitySearch(laddered(plan, rungs, rules=f"{100 * share:g}% {confirmations}"), rules)


def _say(kept: CapacityFile) -> None:
    """Say what was found, and each as a factor of the first."""
    from towtank.analysis.capacity import factor, remarks, sentence

    typer.echo("")
    for found in kept.capacities:
        typer.echo(sentence(found))
        for remark in remarks(found):
            typer.echo(f"  {remark}")
    for other in kept.capacities[1:]:
        typer.echo(factor(other, kept.capacities[0]))
