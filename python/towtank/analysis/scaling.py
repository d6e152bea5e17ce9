"""Elasticity of stored runs: supply as the source `kubernetes` counted it, demand from the treatment's calibration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

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
from towtank.analysis.elasticity import GRID_S, Adaptation, Elasticity, adaptations
from towtank.analysis.pods import NOT_OBSERVED, Pods
from towtank.analysis.step_function import StepFunction
from towtank.design.capacity_file import Demand
from towtank.design.foreign import ForeignWorkload
from towtank.design.model import TreatmentSpec
from towtank.store.run_record import Window

COLUMNS = ("treatment_id", "run_id", "metric", "value", "low", "high", "reason")
SERIES_COLUMNS = ("treatment_id", "run_id", "t_s", "metric", "value")
_UNDER = ("accuracy_under", "accuracy_under_ratio", "timeshare_under")
_OVER = ("accuracy_over", "accuracy_over_ratio", "timeshare_over")
_MOVES = ("jitter_per_min", "instability")
METRICS = (*_UNDER, *_OVER, *_MOVES)
TIMES = ("scale_up_s", "scale_down_s")
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


def supply_of(pods: Pods, until_s: float) -> StepFunction | None:
    """Ready pods over time, from the first count to the last; nan over a gap of the observation."""
    mine = (
        pods.counts[pods.counts["metric"] == "pods_ready"]
        .sort_values("t_us")
        .drop_duplicates("t_us", keep="last")
    )
    times = mine["t_us"].to_numpy(dtype=float) * MICROSECOND_S
    if pods.gaps_unlisted or times.size < 2:
        return None
    end = min(float(times[-1]), until_s)
    steps = dict(zip(times.tolist(), mine["value"].tolist(), strict=True))
    for gap_from, gap_to in pods.gaps_us:
        began, over = gap_from * MICROSECOND_S, gap_to * MICROSECOND_S
        steps = {at: float("nan") if began <= at < over else value for at, value in steps.items()}
        earlier = max((at for at in steps if at <= began), default=None)
        if earlier is not None:
            steps[earlier] = float("nan")  # what holds until the next count, holds into the gap
    if not any(at < end for at in steps):
        return None
    return StepFunction.of(steps, end)


def curve_of(demand: Demand) -> DemandCurve:
    """Fit the calibration that a treatment carries."""
    levels = [Level(one.replicas, one.holds, one.fails) for one in demand.levels]
    return demand_curve(levels, least=demand.least)


def of_run(
    pods: Pods, window: Window | None, asked: Demanded | None, *, treatment_id: str, run_id: str
) -> RunScaling | None:
    """Compare supply with demand in the measured window of a run; None where no pods were counted.

    The grid begins with the window: its warm-up is left out.
    """
    if window is None or asked is None or not pods.observed:
        return None
    name = {"treatment_id": treatment_id, "run_id": run_id}
    end_s = window.end_us * MICROSECOND_S
    supply = supply_of(pods, end_s)

    def nothing(reason: str, known: Sequence[tuple[str, StepFunction]] = ()) -> RunScaling:
        return RunScaling(
            **name, judged=Judged(None, reason=reason), changes=(), series=_series(known, **name)
        )

    if supply is None:
        return nothing(NOT_OBSERVED.reason)
    if asked.demand is None:
        return nothing(asked.reason, [("supply", supply)])
    first = round(window.start_us * MICROSECOND_S / GRID_S)
    begin_s = first * GRID_S
    loads = np.array(asked.loads[first : round(end_s / GRID_S)])
    if not loads.size or supply.start_s > begin_s + GRID_S:
        return nothing(
            "supply was not counted from the start of the measured window on" if loads.size else "no window",
            [("supply", supply)],
        )
    curve = curve_of(asked.demand)
    known = [
        ("supply", supply),
        ("load", each_second(loads, begin_s)),
        ("demand", each_second(curve.demand(loads), begin_s)),
        ("demand_low", each_second(curve.at_least(loads), begin_s)),
        ("demand_high", each_second(curve.at_most(loads), begin_s)),
    ]
    if bool(np.isnan(supply.values[supply.times_s < end_s]).any()):
        return nothing("there is a gap in the observation of pods", known)
    judged = judge(curve, loads, supply, start_s=begin_s)
    changes = () if judged.found is None else adaptations(dict(known)["demand"], supply)
    return RunScaling(**name, judged=judged, changes=changes, series=_series(known, **name))


def _not_comparable(spec: TreatmentSpec) -> str:
    if spec.demand is None:
        return UNCALIBRATED
    if isinstance(spec.workload, ForeignWorkload):
        return "the load is another tool's: what it intended is not known"
    if spec.beside:
        return "several workloads are driven side by side; a calibration is of one"
    if spec.demand.slo != spec.slo:
        return (
            f"the calibration is for the objectives {spec.demand.slo}, this experiment has {spec.slo}: demand would be "
            "that of another question"
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
        `COLUMNS`; besides `METRICS`, the median time to scale up and down in seconds.
    """
    rows: list[tuple[str, str, str, float | None, float | None, float | None, str]] = []
    for run in runs:
        for metric in METRICS:
            value, low, high = _bounded(run.judged, metric)
            rows.append((run.treatment_id, run.run_id, metric, value, low, high, run.judged.reason))
        for metric, upwards in zip(TIMES, (True, False), strict=True):
            value, reason = _median_time(run, upwards=upwards)
            rows.append((run.treatment_id, run.run_id, metric, value, None, None, reason))
    return pd.DataFrame(rows, columns=list(COLUMNS))


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
    told = f"{late} of {len(mine)} changes were not followed before the next, or the end" if late else ""
    middle = float(np.median([np.inf if one.took_s is None else one.took_s for one in mine]))
    return (None if np.isinf(middle) or np.isnan(middle) else middle), told
