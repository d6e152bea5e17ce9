"""Elasticity of stored runs: supply as it was counted, demand from the treatment's calibration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from towtank.analysis.contrasts import contrasts
from towtank.analysis.demand import (
    DemandCurve,
    Judged,
    Level,
    demand_curve,
    each_second,
    intended_load,
    judge,
)
from towtank.analysis.distribution import MICROSECOND_S
from towtank.analysis.elasticity import (
    GRID_S,
    SPEEDUP,
    Adaptation,
    Elasticity,
    adaptations,
    elastic_speedup,
)
from towtank.analysis.intervals import mean_interval
from towtank.analysis.model import Quantity, RunSummary
from towtank.analysis.step_function import StepFunction
from towtank.analysis.summaries import RunData
from towtank.analysis.supply import Supply, supply_of
from towtank.design.capacity_file import Demand
from towtank.design.foreign import ForeignWorkload
from towtank.design.model import TreatmentSpec
from towtank.design.plan import Plan
from towtank.design.slo import bounds_in_words
from towtank.store.run_record import Window
from towtank.variables import DEMAND_VARIABLES

COLUMNS = ("treatment_id", "run_id", "metric", "value", "low", "high", "reason")
SERIES_COLUMNS = ("treatment_id", "run_id", "t_s", "metric", "value")
_UNDER = ("accuracy_under", "accuracy_under_ratio", "timeshare_under")
_OVER = ("accuracy_over", "accuracy_over_ratio", "timeshare_over")
_MOVES = ("jitter_per_min", "instability")
METRICS = (*_UNDER, *_OVER, *_MOVES)
TIMES = ("follow_up", "follow_down")
MEAN_COLUMNS = (
    "treatment_id", "metric", "mean", "low", "high", "at_least", "at_most", "n", "runs", "reason",
)  # fmt: skip
SPEEDUP_COLUMNS = ("treatment_id", "baseline_id", "value", "reason")
UNCALIBRATED = (
    "there is no calibration, so demand is not known: search with `towtank capacity` over a factor `replicas`, and "
    "name its file under `demand`"
)


@dataclass(frozen=True)
class Demanded:
    """What a treatment's load demanded.

    Parameters
    ----------
    demand : Demand or None
        The calibration.
    loads : tuple of float
        Mean intended load of each second, from the start of the load.
    reason : str
        Why demand is not known; empty when it is.
    """

    demand: Demand | None
    loads: tuple[float, ...] = ()
    reason: str = ""


def demanded(spec: TreatmentSpec) -> Demanded:
    """Say what the load of a treatment demands, second by second."""
    reason = _not_comparable(spec)
    if reason or spec.demand is None:
        return Demanded(None, reason=reason or UNCALIBRATED)
    return Demanded(spec.demand, tuple(intended_load(spec.workload.load).tolist()))


@dataclass(frozen=True, eq=False)
class RunScaling:
    """Supply against demand in one run.

    Parameters
    ----------
    treatment_id, run_id : str
    judged : Judged
        The metrics, or why there are none.
    changes : tuple of Adaptation
        Every change of demand and how long supply took.
    series : DataFrame
        t_s, metric (``supply``, ``demand``, ``demand_low``, ``demand_high``, ``load``), value; the figure's.
    """

    treatment_id: str
    run_id: str
    judged: Judged
    changes: tuple[Adaptation, ...]
    series: pd.DataFrame


def curve_of(demand: Demand) -> DemandCurve:
    """Fit the calibration that a treatment carries."""
    levels = [Level(one.replicas, one.holds, one.fails) for one in demand.levels]
    return demand_curve(levels, least=demand.least)


def of_run(run: RunData, asked: Demanded | None) -> RunScaling | None:
    """Compare supply with demand in a run that was read; local processes are looked at only where there is a demand."""
    record = run.record
    if asked is None or (asked.demand is None and not run.pods.observed):
        return None
    scaled = None if asked.demand is None else asked.demand.scaled
    supply = supply_of(record, run.pods, run.events, scaled=scaled)
    of_it = {"treatment_id": record.treatment_id, "run_id": record.run_id}
    return compared(supply, record.window, asked, **of_it)


def compared(
    supply: Supply, window: Window | None, asked: Demanded | None, *, treatment_id: str, run_id: str
) -> RunScaling | None:
    """Compare supply with demand in the measured window of a run; None where neither is known, or nothing was scaled.

    The grid begins with the window: its warm-up is left out.
    """
    if window is None or asked is None or (supply.steps is None and asked.demand is None):
        return None
    name = {"treatment_id": treatment_id, "run_id": run_id}
    end_s = window.end_us * MICROSECOND_S
    steps = supply.steps

    def nothing(reason: str, known: Sequence[tuple[str, StepFunction]] = ()) -> RunScaling:
        return RunScaling(
            **name, judged=Judged(None, reason=reason), changes=(), series=_series(known, **name)
        )

    if steps is None:
        return nothing(supply.reason)
    if asked.demand is None:
        return nothing(asked.reason, [("supply", steps)]) if _scales(steps) else None
    first = round(window.start_us * MICROSECOND_S / GRID_S)
    begin_s = first * GRID_S
    loads = np.array(asked.loads[first : round(end_s / GRID_S)])
    if not loads.size or steps.start_s > begin_s + GRID_S:
        return nothing(
            "supply was not counted from the start of the measured window on" if loads.size else "no window",
            [("supply", steps)],
        )
    curve = curve_of(asked.demand)
    known = [
        ("supply", steps),
        ("load", each_second(loads, begin_s)),
        ("demand", each_second(curve.demand(loads), begin_s)),
        ("demand_low", each_second(curve.at_least(loads), begin_s)),
        ("demand_high", each_second(curve.at_most(loads), begin_s)),
    ]
    if bool(np.isnan(steps.values[steps.times_s < end_s]).any()):
        return nothing("there is a gap in the observation of pods", known)
    judged = judge(curve, loads, steps, start_s=begin_s)
    changes = () if judged.found is None else adaptations(dict(known)["demand"], steps)
    return RunScaling(**name, judged=judged, changes=changes, series=_series(known, **name))


def _scales(supply: StepFunction) -> bool:
    """Whether supply rose, or ended elsewhere than it began; an instance that was lost and replaced scales nothing."""
    known = supply.values[~np.isnan(supply.values)]
    return bool(known.size and (known.max() > known[0] or known[-1] != known[0]))


def values_of(found: RunScaling | None) -> dict[str, Quantity]:
    """Response variables of a run: `DEMAND_VARIABLES`."""
    if found is None:
        return dict.fromkeys(DEMAND_VARIABLES, Quantity(None, reason="the run has no measured window"))
    rows = {metric: (value, reason) for metric, value, _, _, reason in _rows(found)}
    return {
        name: Quantity(value, reason=reason if value is None else "")
        for name, (value, reason) in rows.items()
        if name in DEMAND_VARIABLES
    }


def with_demand(run: RunSummary, found: RunScaling | None, asked: Demanded | None) -> RunSummary:
    """The summary with its `DEMAND_VARIABLES`; as it is where its treatment has no demand."""
    if asked is None or asked.demand is None:
        return run
    return replace(run, values={**run.values, **values_of(found)})


def _not_comparable(spec: TreatmentSpec) -> str:
    if spec.demand is None:
        return UNCALIBRATED
    if isinstance(spec.workload, ForeignWorkload):
        return "the load is another tool's: what it intended is not known"
    if spec.beside:
        return "several workloads are driven side by side; a calibration is of one"
    if spec.demand.slo != spec.slo:
        return (
            f"the calibration is for the objectives {bounds_in_words(spec.demand.slo)}, this experiment has "
            f"{bounds_in_words(spec.slo)}: demand would be that of another question"
        )
    return ""


def _series(
    known: Iterable[tuple[str, StepFunction]], *, treatment_id: str = "", run_id: str = ""
) -> pd.DataFrame:
    """Where each function changes, and its end."""
    rows = []
    for metric, steps in known:
        changed = np.flatnonzero(np.append(True, np.diff(steps.values) != 0))
        rows += [
            (treatment_id, run_id, float(at), metric, float(value))
            for at, value in zip(steps.times_s[changed], steps.values[changed], strict=True)
        ]
        rows.append((treatment_id, run_id, steps.end_s, metric, float(steps.values[-1])))
    return pd.DataFrame(rows, columns=list(SERIES_COLUMNS))


def table(runs: Sequence[RunScaling]) -> pd.DataFrame:
    """One row for each run and metric: value, its bounds by the calibration, or the reason why there is none.

    Returns
    -------
    DataFrame
        `COLUMNS`; besides `METRICS`, the median time to follow demand up and down in seconds.
    """
    rows = [(run.treatment_id, run.run_id, *row) for run in runs for row in _rows(run)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(run: RunScaling) -> Iterator[tuple[str, float | None, float | None, float | None, str]]:
    """Metric, value, bounds and reason."""
    for metric in METRICS:
        yield (metric, *_bounded(run.judged, metric), run.judged.reason)
    for metric, upwards in zip(TIMES, (True, False), strict=True):
        value, reason = _median_time(run, upwards=upwards)
        yield metric, value, None, None, reason


def means(values: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Mean over the runs of each treatment with its interval, and the mean at the bounds of the calibration.

    Parameters
    ----------
    values : DataFrame
        `table`.
    confidence : float

    Returns
    -------
    DataFrame
        `MEAN_COLUMNS`: low and high are the interval of the mean; at_least and at_most the means at the smallest and
        largest demand that the calibration allows; n of runs have a value.
    """
    rows = []
    for (treatment, metric), mine in values.groupby(["treatment_id", "metric"], sort=False):
        known = mine["value"].dropna().astype(float)
        interval = mean_interval(known, confidence=confidence) if len(known) else None
        bounds = [mine[bound].astype(float) for bound in ("low", "high")]
        least, most = (None if one.isna().any() else float(one.mean()) for one in bounds)
        why = [*mine[mine["value"].isna()]["reason"], *mine["reason"]]
        reason = next((str(text) for text in why if text), "")
        rows.append((
            treatment, metric, float(known.mean()) if len(known) else None,
            None if interval is None else interval.low, None if interval is None else interval.high,
            least, most, len(known), len(mine), reason,
        ))  # fmt: skip
    return pd.DataFrame(rows, columns=list(MEAN_COLUMNS))


def speedups(plan: Plan, found: pd.DataFrame) -> pd.DataFrame:
    """Elastic speedup of each treatment against its baseline, from the means of both (`means`).

    Returns
    -------
    DataFrame
        treatment_id, baseline_id, value, reason.
    """
    known = {
        treatment: dict(zip(of["metric"], of["mean"], strict=True))
        for treatment, of in found.groupby("treatment_id", sort=False)
        if not of[of["metric"].isin(SPEEDUP)]["mean"].isna().any()
    }
    rows = []
    for contrast in contrasts(plan):
        treatment, baseline = contrast.key
        if treatment in known and baseline in known:
            got = elastic_speedup(known[baseline], known[treatment])
            rows.append((treatment, baseline, got.value, got.reason))
    return pd.DataFrame(rows, columns=list(SPEEDUP_COLUMNS))


def _bounded(judged: Judged, metric: str) -> tuple[float | None, float | None, float | None]:
    """More demand means more that is missing and less that is too much; how it moves has no such bounds."""

    def of(one: Elasticity | None) -> float | None:
        found = None if one is None else getattr(one, metric)
        return None if found is None else float(found)

    if metric in _MOVES:
        return of(judged.found), None, None
    low, high = (judged.low, judged.high) if metric in _UNDER else (judged.high, judged.low)
    return of(judged.found), of(low), of(high)


def _median_time(run: RunScaling, *, upwards: bool) -> tuple[float | None, str]:
    """Median over changes of demand; those that were never followed are longer than all others."""
    if run.judged.found is None:
        return None, run.judged.reason
    mine = [one for one in run.changes if one.is_up == upwards]
    if not mine:
        return None, f"demand never went {'up' if upwards else 'down'}"
    late = sum(one.took_s is None for one in mine)
    told = ""
    if late:
        told = (
            f"{late} of {len(mine)} changes were not followed before the next, or the end"
            if len(mine) > 1
            else "its only change was not followed before the next, or the end"
        )
    middle = float(np.median([np.inf if one.took_s is None else one.took_s for one in mine]))
    return (None if np.isinf(middle) or np.isnan(middle) else middle), told
