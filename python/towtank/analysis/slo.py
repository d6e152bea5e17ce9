"""Service level objectives: in how many runs of each treatment a declared bound was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from towtank.analysis.model import Quantity, RunSummary, TreatmentSummary
from towtank.design.plan import Plan
from towtank.variables import Variable

COLUMNS = ("treatment_id", "variable", "bound", "value", "held", "runs_held", "runs", "worst", "reason")


def holds(described: Variable, quantity: Quantity, bound: float) -> bool | None:
    """Whether a value keeps a bound; None when there is no value.

    A percentile among failures never keeps an upper bound: those requests were not answered at all.
    """
    if quantity.value is None:
        return None
    if quantity.above:
        return not described.lower_is_better
    return quantity.value <= bound if described.lower_is_better else quantity.value >= bound


def slo_table(
    plan: Plan, runs: Mapping[str, Sequence[RunSummary]], treatments: Sequence[TreatmentSummary]
) -> pd.DataFrame:
    """One row for each treatment and bound.

    Returns
    -------
    DataFrame
        treatment_id, variable, bound, value (mean over runs; null when censored), held (in every run; null without
        runs), runs_held, runs, worst (of the runs; null when censored), reason.
    """
    rows = []
    summaries = {t.treatment_id: t for t in treatments}
    for treatment in plan.treatments:
        for name, bound in treatment.spec.slo.items():
            described = plan.experiment.variable(name)
            quantities = [run.values[name] for run in runs.get(treatment.id, ())]
            kept = [holds(described, q, bound) for q in quantities]
            judged = [k for k in kept if k is not None]
            mean = summaries[treatment.id].estimates.get(name)
            rows.append(
                {
                    "treatment_id": treatment.id,
                    "variable": name,
                    "bound": bound,
                    "value": None if mean is None or mean.above else mean.mean,
                    "held": all(judged) if judged else None,
                    "runs_held": sum(judged),
                    "runs": len(judged),
                    "worst": _worst(described, quantities),
                    "reason": "" if judged else "no valid run has a value",
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def all_held(table: pd.DataFrame) -> bool | None:
    """Whether every bound was kept everywhere: False as soon as one was missed, None while one cannot be judged."""
    judged = [None if pd.isna(held) else bool(held) for held in table["held"]]
    if False in judged:
        return False
    return True if judged and None not in judged else None


def _worst(described: Variable, quantities: Sequence[Quantity]) -> float | None:
    known = [q.value for q in quantities if q.value is not None]
    if not known or any(q.above for q in quantities):
        return None
    return max(known) if described.lower_is_better else min(known)
