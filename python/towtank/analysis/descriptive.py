"""How the per-run values of each treatment are spread: minimum, quartiles, maximum, mean, standard deviation.

Descriptive: it carries no interval and no claim. Quartiles are of type 7, as R and numpy have them by default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from towtank.analysis.model import Quantity, RunSummary
from towtank.design.plan import Plan

QUARTILES = {"min": 0.0, "q25": 0.25, "median": 0.5, "q75": 0.75, "max": 1.0}
"""Name → share of the runs below it."""
EVERY_RUN = ("throughput", "goodput", "mean", "median", "p90", "p95", "p99", "cpu_cores", "memory_bytes")
"""Variables that are shown whatever the experiment file asks for."""


@dataclass(frozen=True)
class Spread:
    """One variable over the runs of one treatment.

    Parameters
    ----------
    treatment_id, variable : str
    planned : int
        Blocks of the design so far.
    lost : int
        Blocks without a value: no valid run, or a run that cannot say it.
    cells : dict
        min, q25, median, q75, max, mean, std in the variable's base unit; what cannot be said is None with a reason,
        and a quartile among runs that lie above what can be measured is `above`.
    """

    treatment_id: str
    variable: str
    planned: int
    lost: int
    cells: dict[str, Quantity]


def described(
    plan: Plan, counting: Mapping[str, Sequence[RunSummary]]
) -> Iterator[tuple[str, dict[str, list[Quantity]]]]:
    """Variables that descriptive tables show, each with the values of the runs of every treatment.

    They are what is claimed, what the file declares, and what every run has; one that no run can say is left out.

    Parameters
    ----------
    plan : Plan
    counting : mapping
        Treatment id → its runs that count.
    """
    answer = plan.experiment.answer
    asked = (*answer.primary, *answer.variables) if answer else ()
    for name in dict.fromkeys((*asked, *EVERY_RUN)):
        quantities = {
            t.id: [run.values[name] for run in counting.get(t.id, ()) if name in run.values]
            for t in plan.treatments
        }
        if any(q.value is not None for of_one in quantities.values() for q in of_one):
            yield name, quantities


def lying_above(known: Sequence[Quantity]) -> str:
    """How many runs lie above what can be measured, as a reason; empty when none does."""
    above = sum(q.above for q in known)
    return f"{above} of {len(known)} runs lie above what can be measured" if above else ""


def spreads(plan: Plan, counting: Mapping[str, Sequence[RunSummary]], *, blocks: int) -> tuple[Spread, ...]:
    """Describe every variable of every treatment.

    Parameters
    ----------
    plan, counting
        As `described` takes them.
    blocks : int
        Blocks begun so far: what runs are lost of.

    Returns
    -------
    tuple of Spread
        By variable, then by treatment in the order of the file; a variable that no run can say is left out.
    """
    return tuple(
        spread(treatment_id, name, values, blocks=blocks)
        for name, quantities in described(plan, counting)
        for treatment_id, values in quantities.items()
    )


def spread(treatment_id: str, name: str, quantities: Sequence[Quantity], *, blocks: int) -> Spread:
    """Describe one variable of one treatment."""
    known = [q for q in quantities if q.value is not None]
    planned = max(blocks, len(quantities))
    lost = planned - len(known)
    if not known:
        why = next((q.reason for q in quantities if q.reason), "no valid run")
        nothing = Quantity(None, reason=why)
        return Spread(treatment_id, name, planned, lost, dict.fromkeys((*QUARTILES, "mean", "std"), nothing))
    ordered = sorted(known, key=lambda q: (q.above, q.value))
    cells = {key: _quantile(ordered, share) for key, share in QUARTILES.items()}
    return Spread(treatment_id, name, planned, lost, cells | _moments(known))


def _quantile(ordered: Sequence[Quantity], share: float) -> Quantity:
    """Type 7; a quantile that touches a run which lies above what can be measured lies above it too."""
    h = (len(ordered) - 1) * share
    low, high = ordered[int(h)], ordered[min(int(h) + (h > int(h)), len(ordered) - 1)]
    if low.value is None or high.value is None:
        raise ValueError("a quantile is asked of runs without a value")
    if high.above:
        return Quantity(high.value, above=True)
    return Quantity(low.value + (h - int(h)) * (high.value - low.value))


def _moments(known: Sequence[Quantity]) -> dict[str, Quantity]:
    values = np.array([q.value for q in known], dtype=np.float64)
    why = lying_above(known)
    if why:
        return {
            "mean": Quantity(float(values.mean()), above=True, reason=why),
            "std": Quantity(None, reason=why),
        }
    one = Quantity(None, reason="one run: its variation is unknown")
    return {
        "mean": Quantity(float(values.mean())),
        "std": Quantity(float(values.std(ddof=1))) if values.size > 1 else one,
    }
