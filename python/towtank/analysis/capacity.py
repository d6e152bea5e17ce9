"""Capacities from stored runs: how each run of a search came out, what the search asks for next, and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from towtank.analysis.load_line import LoadLine, Outcome, Search, Trial, Wanted, ratio, replayed
from towtank.analysis.model import RunSummary
from towtank.analysis.slo import holds
from towtank.analysis.summaries import RunTables, summarise_run
from towtank.design.capacity_file import FILE_NAME, UNITS, Capacity, read_capacities
from towtank.design.foreign import ForeignWorkload
from towtank.design.journey_shape import steps_per_iteration
from towtank.design.laddered import load_words
from towtank.design.model import Workload
from towtank.design.plan import Treatment
from towtank.design.slo import bounds_in_words
from towtank.errors import ResultsError
from towtank.units import format_number
from towtank.variables import variable

OF_THE_GENERATOR = frozenset({
    "engine_late", "engine_stalled", "engine_short_of_cpu", "engine_cpu_bound", "engine_out_of_resources",
})  # fmt: skip
"""Reasons why a run is invalid that more load makes worse: the generator is at its end there."""


@dataclass(frozen=True)
class Came:
    """How one run came out."""

    outcome: Outcome
    why: str = ""


def outcome_of(run: RunTables, slo: dict[str, float]) -> Came | None:
    """Judge an attempt; None when it says nothing: not complete, or spoiled by something else than too much load.

    Raises
    ------
    ResultsError
        An objective has no value in a run that counts.
    """
    record = run.record
    if record.state != "complete" or record.verdicts is None:
        return None
    if record.verdicts.instrument == "invalid":
        names = [one.name for one in record.verdicts.instrument_reasons if one.severe]
        mine = [name for name in names if name in OF_THE_GENERATOR]
        return Came("generator", mine[0]) if mine and len(mine) == len(names) else None
    if record.verdicts.system == "collapsed":
        return Came("failed", "collapsed")
    missed = missed_bounds(summarise_run(run, wanted=tuple(slo)).summary, slo)
    return Came("failed", ", ".join(missed)) if missed else Came("held")


def missed_bounds(summary: RunSummary, slo: dict[str, float]) -> list[str]:
    """Objectives that a run did not keep.

    Raises
    ------
    ResultsError
        One has no value.
    """
    missed = []
    for name, bound in slo.items():
        quantity = summary.values[name]
        kept = holds(variable(name), quantity, bound)
        if kept is None:
            raise ResultsError(
                f"{name} of run {summary.run_id} has no value: {quantity.reason}",
                hint="a search needs objectives that every run has a value of",
            )
        if not kept:
            missed.append(name)
    return missed


@dataclass(frozen=True)
class Rules:
    """What a search goes by; part of its identity.

    Parameters
    ----------
    step : float
        Relative distance of two rungs.
    confirmations : int
    most_runs : int
        For each deployment.
    """

    step: float
    confirmations: int
    most_runs: int


def make_search(rungs: int, start: int, rules: Rules) -> Search:
    """Search a ladder by these rules."""
    return Search(rungs, start=start, confirmations=rules.confirmations, most_trials=rules.most_runs)


def ask(search: Search, made: Sequence[tuple[int, Came]]) -> tuple[tuple[Trial, ...], Wanted | LoadLine]:
    """Say what a search wants after the runs that were made, in their order."""
    trials = replayed(search, [(rung, came.outcome, came.why) for rung, came in made])
    return trials, search.next(trials)


def capacity_of(base: Treatment, rungs: Sequence[float], line: LoadLine, rules: Rules) -> Capacity:
    """Say what was found in loads instead of rungs."""

    def load(rung: int | None) -> float | None:
        return None if rung is None else rungs[rung]

    model = base.spec.workload.load.model
    return Capacity.model_validate(
        {
            "treatment": base.id,
            "label": base.label,
            "deployment": base.spec.deployment_name,
            "workload": base.spec.workload_name,
            "levels": dict(base.levels),
            "model": model,
            "end": line.end,
            "holds": load(line.holds),
            "fails": load(line.fails),
            "requests": _requests_of_arrival(base.spec.workload),
            "undecided": tuple(rungs[rung] for rung in line.undecided),
            "why": dict(line.why),
            "against": tuple((rungs[rung], held, runs) for rung, held, runs in line.against),
            "lowest": rungs[0],
            "highest": rungs[-1],
            "step": rules.step,
            "confirmations": rules.confirmations,
            "runs": line.trials,
            "slo": dict(base.spec.slo),
        }
    )


def _requests_of_arrival(workload: Workload | ForeignWorkload) -> float | None:
    """Expected requests of an arrival; None of users, and of a journey that another tool has."""
    if isinstance(workload, ForeignWorkload) or workload.load.model != "open":
        return None
    return steps_per_iteration(workload.journey, 1.0)[1] or None


def searched_in(folder: Path) -> tuple[Capacity, ...]:
    """Read what a search found whose results these are; nothing where they are of another experiment.

    Raises
    ------
    ResultsError
        The file is there and cannot be used.
    """
    return read_capacities(folder).capacities if (folder / FILE_NAME).is_file() else ()


def sentence(found: Capacity) -> str:
    """Say it: ``GKE-50 carries 410 users (holds at 410, fails at 430: p95 in 5 of 5 runs)``."""
    unit = UNITS[found.model]
    name = found.label
    why = ", ".join(f"{what} in {runs} of {found.confirmations} runs" for what, runs in found.why.items())
    if found.holds is None:
        if found.end == "budget":
            return f"{name}: nothing was confirmed within {found.runs} runs"
        if found.undecided:
            return f"{name}: no load was confirmed, down to {load_words(found.lowest, unit)}, the lowest of the ladder"
        if found.end == "generator" and found.fails is None:
            return f"{name}: nothing can be said: the generator ends before {load_words(found.lowest, unit)}"
        return f"{name} does not carry {load_words(found.lowest, unit)}, the lowest load of the ladder" + (
            f" ({why})" if why else ""
        )
    held = f"{found.holds:g}"
    if found.fails is not None:
        because = f": {why}" if why else ""
        end = "" if found.end == "found" else "; the search was cut short"
        bounds = f"(holds at {held}, fails at {found.fails:g}{because})"
        return f"{name} carries {load_words(found.holds, unit)} {bounds}{end}"
    tail = {
        "generator": "above that the generator ends first, so nothing is said of more",
        "top": "the highest load of the ladder; it may carry more",
    }.get(found.end, f"no load was refuted within {found.runs} runs")
    return f"{name} carries at least {load_words(found.holds, unit)}: {tail}"


def remarks(found: Capacity) -> tuple[str, ...]:
    """Say what must stand beside the sentence."""
    unit = UNITS[found.model]
    told = []
    if found.undecided:
        loads = ", ".join(f"{load:g}" for load in found.undecided)
        told.append(f"at {loads} {unit} the confirmations disagreed: neither confirmed nor refuted")
    for load, held, runs in found.against:
        where = "below" if found.holds is not None and load < found.holds else "above"
        told.append(
            f"not monotone: {where} the bounds, at {load_words(load, unit)}, {held} of {runs} runs held"
        )
    return tuple(told)


def factor(found: Capacity, other: Capacity) -> str:
    """Say one capacity as a factor of another's, ``A carries 2 times what B carries``; or why there is none."""
    why = _incomparable(found, other)
    if why or found.holds is None or other.holds is None:
        return f"{found.label} against {other.label}: no factor, since {why}"
    value, low, high = ratio((found.holds, found.fails), (other.holds, other.fails))
    said = f"{found.label} carries {format_number(value)} times what {other.label} carries"
    if low and high is not None:
        return f"{said} ({format_number(low)} to {format_number(high)})"
    if low:
        return f"{said}, or more (at least {format_number(low)}): of {found.label} no load was refuted"
    if high is not None:
        return f"{said}, or less (at most {format_number(high)}): of {other.label} no load was refuted"
    return f"{said}, or more, or less: no load was refuted of either"


def _incomparable(found: Capacity, other: Capacity) -> str:
    if found.model != other.model:
        return f"one was searched by {UNITS[found.model]}, the other by {UNITS[other.model]}"
    if found.slo != other.slo:
        return (
            f"they were searched for different objectives, {bounds_in_words(found.slo)} against "
            f"{bounds_in_words(other.slo)}"
        )
    lacking = next((one.label for one in (found, other) if one.holds is None), None)
    return f"no load was confirmed of {lacking}" if lacking is not None else ""
