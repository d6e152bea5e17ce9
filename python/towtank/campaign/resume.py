"""Starting afresh, going on, or refusing: what the same command does when results are there already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from towtank import design
from towtank.campaign import environment as env
from towtank.design.plan import Plan
from towtank.errors import ChangedError, ResultsError
from towtank.store import Results, RunFolder, create_results

_MOST_LINES = 20


@dataclass(frozen=True)
class Opened:
    """A result folder that is ready for runs.

    Parameters
    ----------
    results : Results
    plan : Plan
        When going on, with the stored runs: adaptive repetitions may have extended them. All else is the file's, as
        a stored plan has the values of headers such as Authorization masked.
    moved_aside : Path, optional
        Where older results went.
    """

    results: Results
    plan: Plan
    moved_aside: Path | None = None


def open_or_create(
    folder: Path, plan: Plan, environment: Mapping[str, Any], *, force_new: bool = False
) -> Opened:
    """Open the results of an experiment for going on, or create them.

    Raises
    ------
    ChangedError
        The stored results are of another experiment file or another environment; shows the difference.
    ResultsError
        Something else lies in that place.
    """
    moved = None
    if force_new and folder.exists() and any(folder.iterdir()):
        moved = _move_aside(folder)
    if not (folder / "plan.json").exists():
        if folder.exists() and _has_runs(folder):
            raise ResultsError(
                f"{folder} has runs but no plan.json: it cannot be resumed",
                hint="--force-new moves it aside and starts afresh",
            )
        return Opened(create_results(folder, plan, environment), plan, moved)
    results = Results.open(folder)
    stored = results.plan
    same_experiment = stored.digest == plan.digest
    if same_experiment and results.environment.get("digest") == environment["digest"]:
        return Opened(results, replace(plan, runs=stored.runs))
    if not any(run.record.state == "complete" for run in results.runs("all")):
        # a first start that failed, then was mended: there is nothing that the new runs could be mixed with
        moved = _move_aside(folder)
        return Opened(create_results(folder, plan, environment), plan, moved)
    if same_experiment:
        raise _changed(folder, "the environment", env.difference(results.environment, environment))
    raise _changed(folder, "the experiment", design.difference(stored, plan))


def usable(run: RunFolder) -> bool:
    """A complete run that the instrument did not spoil."""
    verdicts = run.record.verdicts
    return run.record.state == "complete" and verdicts is not None and verdicts.instrument != "invalid"


def _changed(folder: Path, what: str, lines: list[str]) -> ChangedError:
    shown = "\n".join(f"  {line}" for line in lines[:_MOST_LINES])
    more = f"\n  … and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
    return ChangedError(
        f"{what} is not the one whose results are in {folder}; they are never mixed\n{shown}{more}",
        hint="undo the change to go on; --force-new keeps the old results aside and starts afresh; "
        "or put the new ones elsewhere with --results DIR",
    )


def _has_runs(folder: Path) -> bool:
    return (folder / "runs").is_dir() and any((folder / "runs").iterdir())


def _move_aside(folder: Path) -> Path:
    """Rename a result folder; nothing of it is deleted."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    for attempt in range(100):
        suffix = f"-{attempt}" if attempt else ""
        target = folder.with_name(f"{folder.name}.{stamp}{suffix}")
        if not target.exists():
            folder.rename(target)
            return target
    raise ResultsError(f"{folder} could not be moved aside: too many folders of that name")
