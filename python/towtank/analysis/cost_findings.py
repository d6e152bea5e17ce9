"""What a reader must know of costs: which could not be said, which are approximations, which are only a bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from towtank.analysis.break_even import BreakEven
from towtank.analysis.engine_findings import runs_in_words
from towtank.analysis.model import Finding, RunSummary
from towtank.cost.spec import CostSpec

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
