"""What a reader must know of costs: which could not be said, which are approximations, which are only a bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from towtank.analysis.break_even import BreakEven
from towtank.analysis.engine_findings import runs_in_words
from towtank.analysis.model import Finding, RunSummary
from towtank.analysis.run_cost import RunCost
from towtank.cost.spec import CostSpec
from towtank.units import format_duration

_ADVICE = {
    "cost_unknown": "Write what is missing (docs/cost.md). Which deployment is cheapest is said among the others only.",
    "cost_at_least": 'The cost reads "> x", and its treatment has no interval. `cost_drive` is known in full.',
    "cost_approximated": "Let answers name their instance (a header or a field), so that busy intervals can be united.",
}


def cost_findings(cost: CostSpec | None, counting: Mapping[str, Sequence[RunSummary]]) -> Iterator[Finding]:
    """Findings about `cost`, one for each reason.

    Parameters
    ----------
    cost : CostSpec or None
        None: nobody asked for costs.
    counting : mapping
        Treatment → the runs that enter numbers.
    """
    if cost is None:
        return
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for run in _runs(counting):
        quantity = run.values.get("cost")
        if quantity is None or not quantity.reason:
            continue
        kind = (
            "cost_unknown" if quantity.value is None
            else "cost_at_least" if quantity.above
            else "cost_approximated"
        )  # fmt: skip
        found[kind, quantity.reason].append(run.run_id)
    for (kind, reason), runs in found.items():
        message = f"Cost: {reason} ({runs_in_words(len(runs))})."
        yield Finding(
            kind, "info" if kind == "cost_approximated" else "warning", message, _ADVICE[kind], tuple(runs)
        )


def uncounted_findings(
    costs: Mapping[str, Sequence[RunCost]], counting: Mapping[str, Sequence[RunSummary]]
) -> Iterator[Finding]:
    """Runs in whose drive phase nobody counted for a while what is billed.

    Parameters
    ----------
    costs, counting : mapping
        Treatment → what its runs that count cost, and those runs, in the same order.
    """
    missed = {
        run.run_id: cost.uncounted_s
        for treatment, of_it in costs.items()
        for run, cost in zip(counting[treatment], of_it, strict=True)
        if cost.uncounted_s
    }
    if missed:
        yield Finding(
            "cost_uncounted",
            "warning",
            f"Cost: nobody counted nodes or pods for up to {format_duration(max(missed.values()))} of the drive phase "
            f"({runs_in_words(len(missed))}); what was counted before is billed until the next count.",
            "What came and went in between is not in the cost. See why the source `kubernetes` had gaps "
            "(docs/telemetry.md).",
            tuple(missed),
        )


def break_even_findings(found: BreakEven | None) -> Iterator[Finding]:
    """Which deployments have no line of cost against load, and why."""
    for label, why in (found.unknown if found is not None else {}).items():
        yield Finding(
            "break_even_unknown",
            "info",
            f"Cost against load of {label} is not known: {why}.",
            "Break-even is said among the others only (docs/cost.md, 5).",
        )


def _runs(counting: Mapping[str, Sequence[RunSummary]]) -> Iterable[RunSummary]:
    return (run for runs in counting.values() for run in runs)
