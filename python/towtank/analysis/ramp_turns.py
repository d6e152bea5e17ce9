"""Where latency turns while a load rises within a run: a place for each run, and the interval over the runs.

Bins of one run are no independent numbers, so the p-value of a single run only decides whether it names a place at all;
what is said of the treatment rests on how far the places of its runs lie apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from towtank.analysis.demand import intended_load
from towtank.analysis.elasticity import GRID_S
from towtank.analysis.intervals import FloatArray, mean_interval
from towtank.analysis.load_curves import LATENCY, LoadCurve
from towtank.analysis.load_levels import LoadFamily
from towtank.analysis.model import RunSummary
from towtank.analysis.turning_point import FEWEST_LEVELS, TurningPoint, turning_point
from towtank.design.foreign import ForeignWorkload
from towtank.design.laddered import declared_load
from towtank.design.load_shape import duration_s
from towtank.design.model import ClosedLoad, TreatmentSpec
from towtank.design.plan import Plan

LEAST_RISE = 2.0
"""Highest load of a run ÷ its lowest, from which on a curve over loads is worth looking at."""
MOST_RUNS_WITHOUT = 0.5
"""Where more of the runs than these name no place, the treatment has none."""
RESAMPLES = 199
MOST_BINS = 120
"""Of a run; of more, every second, third … is looked at: percentiles of bins are never averaged."""
SERIES = "p95_s"


def ramp_turns(
    plan: Plan, counting: Mapping[str, Sequence[RunSummary]], series: pd.DataFrame, *, confidence: float
) -> tuple[LoadCurve, ...]:
    """Look for the load at which p95 turns, in every treatment whose load changes within a run.

    Parameters
    ----------
    plan : Plan
    counting : mapping
        Treatment id → its runs that count.
    series : DataFrame
        `timeseries.COLUMNS`.
    confidence : float
    """
    found = []
    for treatment in plan.treatments:
        loads = _loads(treatment.spec)
        runs = [run.run_id for run in counting.get(treatment.id, ())]
        if loads is None or not runs:
            continue
        family = LoadFamily(
            treatment.label,
            treatment.spec.deployment_name,
            "closed" if isinstance(treatment.spec.workload.load, ClosedLoad) else "open",
            {},
            pauses=False,
            slo=dict(treatment.spec.slo),
        )
        places, failing = [], 0
        for number, run_id in enumerate(runs):
            mine = series[series["run_id"] == run_id]
            rng = np.random.default_rng([plan.experiment.seed, treatment.index, number])
            place, left = _of_run(mine, loads, treatment.spec, rng=rng, confidence=confidence)
            places.append(place)
            failing += left
        found.append(
            LoadCurve(family, LATENCY, _over_runs(places, confidence=confidence), failing, unit="bins")
        )
    return tuple(found)


def _loads(spec: TreatmentSpec) -> FloatArray | None:
    """Intended load of each second; None where it is constant, has few levels, is another tool's, or not one load."""
    if spec.beside or isinstance(spec.workload, ForeignWorkload) or declared_load(spec) > 0:
        return None
    loads = intended_load(spec.workload.load)
    some = loads[loads > 0]
    is_curve = np.unique(some).size >= FEWEST_LEVELS and some.max() >= LEAST_RISE * some.min()
    return loads if is_curve else None


def _of_run(
    mine: pd.DataFrame, loads: FloatArray, spec: TreatmentSpec, *, rng: np.random.Generator, confidence: float
) -> tuple[TurningPoint, int]:
    """Place of one run, and how many of its bins lie among failures."""
    load = spec.workload.load
    begins, ends = mine["t_s"].to_numpy(dtype=float), (mine["t_s"] + mine["bin_s"]).to_numpy(dtype=float)
    inside = (begins >= load.warmup) & (ends <= duration_s(load)) & (mine["due"].to_numpy(dtype=float) > 0)
    latencies = mine[SERIES].to_numpy(dtype=float)
    measured = np.isfinite(latencies) & (latencies > 0)
    failing = int(np.sum(inside & ~measured))
    usable = np.flatnonzero(inside & measured)
    usable = usable[:: max(1, -(-usable.size // MOST_BINS))]
    x = np.array([
        float(np.mean(loads[int(a // GRID_S) : max(int(a // GRID_S) + 1, int(np.ceil(b / GRID_S)))]))
        for a, b in zip(begins[usable], ends[usable], strict=True)
    ])  # fmt: skip
    found = turning_point(x, latencies[usable], rng=rng, resamples=RESAMPLES, confidence=confidence)
    return found, failing


def _over_runs(places: Sequence[TurningPoint], *, confidence: float) -> TurningPoint:
    """Mean place of the runs that have one, with its interval."""
    shown = [one for one in places if one.at is not None]
    told = f"in {len(shown)} of {len(places)} runs"
    if len(shown) <= MOST_RUNS_WITHOUT * len(places):
        why = next((one.reason for one in places if one.at is None and one.reason), "")
        return TurningPoint(None, reason=f"it turns {told} only: {why}")
    at = np.array([one.at for one in shown], dtype=float)
    before, after = (
        np.mean([getattr(one, name) for one in shown]) for name in ("slope_before", "slope_after")
    )
    interval = mean_interval(at, confidence=confidence)
    if interval is None:
        told += "; one run, or all alike: the interval is that of its bins, which are not independent"
        low, high = shown[0].low, shown[0].high
    else:
        low, high = max(0.0, interval.low), interval.high
    return TurningPoint(
        float(at.mean()), low, high, float(before), float(after), None, f"within runs, {told}"
    )
