"""`towtank run`: carry an experiment out, or resume it, and print its answer."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from towtank.cli.overrides import OVERRIDES, read_overrides
from towtank.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from towtank.analysis import ExperimentAnalysis
    from towtank.campaign import Display, Outcome
    from towtank.design import Plan

EXPERIMENT = typer.Argument(..., metavar="FILE", help="The experiment file, or its folder.")
PROFILE = typer.Option(None, "--profile", metavar="NAME", help="A profile of the file.")
FORCE_NEW = typer.Option(
    False, "--force-new", help="Keep older results aside (nothing is deleted) and start afresh."
)
PLAIN = typer.Option(False, "--plain", help="Plain lines instead of the live display.")


def run(
    file: Path = EXPERIMENT,
    *,
    results: Path | None = typer.Option(
        None, "--results", metavar="DIR", help="Result folder; default is results/<experiment> beside FILE."
    ),
    profile: str | None = PROFILE,
    values: list[str] = OVERRIDES,
    force_new: bool = FORCE_NEW,
    fail_undecided: bool = typer.Option(
        False, "--fail-undecided", help="End with exit code 7 when the question stays undecided."
    ),
    no_report: bool = typer.Option(False, "--no-report", help="Do not write the HTML report at the end."),
    plain: bool = PLAIN,
) -> None:
    """Carry out an experiment, or resume it.

    The same command resumes after an interruption: runs that are complete are kept. A changed experiment file or
    environment is refused with the difference shown.
    """
    from towtank.campaign import StopRequest, choose_display, run_campaign
    from towtank.cli.journey_check import checked_plan

    # what the engine would refuse is said now, at its place in the file
    plan, _ = checked_plan(file, profile=profile, overrides=read_overrides(values))
    root = file.resolve() if file.is_dir() else file.resolve().parent
    folder = results if results is not None else root / "results" / plan.experiment.experiment
    display = choose_display(plain=plain, environment=dict(os.environ))
    with StopRequest() as stop, shown(display):
        outcome = run_campaign(
            plan, root=root, folder=folder.absolute(), display=display, stop=stop, force_new=force_new
        )
    code = _conclude(plan, outcome, write_report=not no_report, fail_undecided=fail_undecided)
    raise typer.Exit(int(code))


@contextlib.contextmanager
def shown(display: Display) -> Iterator[None]:
    """Live displays are entered; plain ones need nothing."""
    if isinstance(display, contextlib.AbstractContextManager):
        with display:
            yield
    else:
        yield


def _conclude(plan: Plan, outcome: Outcome, *, write_report: bool, fail_undecided: bool) -> ExitCode:
    """Analyse, report, print the answer; the exit code that follows from it."""
    from towtank.analysis import analyse
    from towtank.analysis.kept_runs import kept_runs
    from towtank.store import Results

    results = Results.open(outcome.results.path)
    analysis = analyse(results, derived=kept_runs(results))
    _print_answer(plan, outcome, analysis)
    if write_report:
        from towtank import report
        from towtank.report.output import write_model

        written = write_model(report.build(analysis), results.layout.report)
        typer.echo(f"report: {_short(written.html)}")
    typer.echo(f"results: {_short(outcome.results.path)}")
    if outcome.spoiled:
        typer.echo(
            f"{len(outcome.spoiled)} of {len(outcome.plan.runs)} runs stayed invalid after their repetitions: "
            + ", ".join(outcome.spoiled[:5])
            + (" …" if len(outcome.spoiled) > 5 else "")
            + "; once the cause is gone, the same command repeats them",
            err=True,
        )
        return ExitCode.INVALID_RUNS
    if analysis.slo_held is False:
        return ExitCode.SLO_MISSED
    if fail_undecided and not analysis.decided:
        return ExitCode.UNDECIDED
    return ExitCode.OK


def _print_answer(plan: Plan, outcome: Outcome, analysis: ExperimentAnalysis) -> None:
    """The question, the answer in words, and each claim with its verdict."""
    typer.echo("")
    typer.echo(f"{plan.experiment.experiment}: {plan.experiment.question}")
    typer.echo(f"  {analysis.headline}")
    if analysis.caution:
        typer.echo(f"  {analysis.caution}")
    for comparison in analysis.comparisons:
        if comparison.confirmatory:
            typer.echo(f"  - {comparison.sentence}")
    if analysis.slo_held is not None:
        typer.echo(f"  SLO: {'held' if analysis.slo_held else 'missed'}")
    typer.echo(f"  {outcome.done} runs carried out now, {outcome.kept} kept from before")


def _short(path: Path) -> str:
    """A path as one would type it from here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
