"""Time series over runs: per treatment and moment the middle run, with the lowest and highest around it.

Percentiles of bins are never averaged: the middle line is the median *over runs* of each run's own value in that
bin, and the band reaches from the lowest run to the highest. Where there are more bins than a figure can show,
neighbours are joined: the band keeps every extreme.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from towtank.analysis.model import ExperimentAnalysis
from towtank.report.naming import COUNTED

MAX_BINS = 160
"""Bins that a plot of the grid can show."""

HELD_S, HELD_INTERVALS = 5.0, 3
"""A count holds for so long, or so many of its usual intervals, when no other comes; then nothing is known."""

ROWS = (
    "rate",
    "p50_s",
    "p95_s",
    "goodput",
    "pods",
    "pods_pending",
    "nodes_ready",
    "cpu_cores",
    "memory_bytes",
)
"""Rows of the grid, in order."""
OWN = {"rate": "done_per_s", "pods": "pods_ready", "nodes_ready": "nodes_ready"}
"""Row → the variable that it is about, where there is another in it."""
BEHIND = {"rate": "requests_per_s", "pods": "pods_desired", "nodes_ready": "nodes"}
"""Row → what is drawn behind it: what was wanted, or is there."""


def row_of(variable: str) -> str:
    """Row in which a variable is drawn."""
    return next((row for row in OWN if variable in (OWN[row], BEHIND[row])), variable)


def observed_bands(analysis: ExperimentAnalysis) -> pd.DataFrame:
    """As `bands`, of what the experiment file names itself to be observed; with a column `source`."""
    valid = {r.run_id for r in analysis.runs if r.instrument in COUNTED}
    frame = analysis.observed
    if frame.empty:
        return pd.DataFrame()
    frame = frame[frame.run_id.isin(valid)]
    parts = [
        _over_runs(one, str(metric)).assign(source=str(source))
        for (source, metric), one in frame.groupby(["source", "metric"], sort=True)
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def bands(analysis: ExperimentAnalysis) -> pd.DataFrame:
    """Middle, lowest and highest run for each treatment, variable and bin.

    Returns
    -------
    DataFrame
        treatment_id, variable, t_s, end_s, mid, low, high, failing (share of runs whose value lies among the failures:
        `mid` is null when more than half do, `high` when any does).
    """
    valid = {r.run_id for r in analysis.runs if r.instrument in COUNTED}
    parts = []
    series = analysis.timeseries
    if not series.empty:
        series = series[series.run_id.isin(valid)]
        columns = ("requests_per_s", "done_per_s", "p50_s", "p95_s", "goodput")
        parts += [_over_runs(_long(series, c), c) for c in columns]
    resources = analysis.resources
    if not resources.empty:
        resources = resources[resources.run_id.isin(valid)]
        bin_s = _bin_width(analysis.timeseries, resources)
        parts += [
            _over_runs(_of_deployment(resources[resources.metric == m], bin_s), m)
            for m in ("cpu_cores", "memory_bytes")
        ]
    parts += _replicas(analysis, valid)
    found = [p for p in parts if not p.empty]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def _replicas(analysis: ExperimentAnalysis, valid: set[str]) -> list[pd.DataFrame]:
    """Pods and nodes; what never changes, or never happens, needs no row."""
    counts = analysis.replicas
    if counts.empty:
        return []
    counts = counts[counts.run_id.isin(valid) & (counts.t_s >= 0)]
    if counts.empty:
        return []
    bin_s = _bin_width(analysis.timeseries, counts)
    parts = []
    for metric, mine in counts.groupby("metric", sort=False):
        dull = mine.value.max() == 0 if metric == "pods_pending" else mine.value.nunique() == 1
        if metric in ("pods_pending", "nodes_ready", "nodes") and dull:
            continue
        each = [_held(one, bin_s) for _, one in mine.groupby(["treatment_id", "run_id"], sort=False)]
        parts.append(_over_runs(pd.concat(each, ignore_index=True), str(metric)))
    return parts


def _held(counts: pd.DataFrame, bin_s: float) -> pd.DataFrame:
    """One count of one run in every bin: a count holds until the next one, unless that is missing."""
    counts = counts.sort_values("t_s", kind="stable")
    told_s = counts.t_s.to_numpy(dtype=float)
    first, last = (math.floor(float(told_s[end]) / bin_s + 1e-9) for end in (0, -1))
    start_s = np.arange(first, last + 1) * bin_s
    at = np.searchsorted(told_s, start_s + bin_s - 1e-9, side="right") - 1
    longest_s = max(HELD_S, HELD_INTERVALS * float(np.median(np.diff(told_s)))) if told_s.size > 1 else HELD_S
    fresh = start_s - told_s[at] <= longest_s
    values = counts.value.to_numpy(dtype=float)[at]
    names = {key: counts[key].iloc[0] for key in ("treatment_id", "run_id")}
    found: pd.DataFrame = pd.DataFrame({"t_s": start_s, "value": values})[fresh]
    return found.assign(**names, bin_s=bin_s)


def _long(series: pd.DataFrame, column: str) -> pd.DataFrame:
    """Values of one column; a latency that is missing although requests were due lies among the failures (+inf)."""
    value = pd.to_numeric(series[column], errors="coerce")
    if column in ("p50_s", "p95_s"):
        value = value.mask(value.isna() & (series["due"] > 0), math.inf)
    frame = series[["treatment_id", "run_id", "t_s", "bin_s"]].assign(value=value)
    return frame[frame.value.notna()]


def _bin_width(series: pd.DataFrame, resources: pd.DataFrame) -> float:
    if not series.empty:
        return float(series.bin_s.iloc[0])
    span = float(resources.t_s.max() - resources.t_s.min())
    return max(span / MAX_BINS, 0.2)


def _of_deployment(samples: pd.DataFrame, bin_s: float) -> pd.DataFrame:
    """Sum over instances of each instance's mean in a bin; samples before the load starts are left out."""
    samples = samples[samples.t_s >= 0]
    if samples.empty:
        return pd.DataFrame()
    binned = samples.assign(t_s=np.floor(samples.t_s / bin_s + 1e-9) * bin_s)
    each = binned.groupby(["treatment_id", "run_id", "t_s", "instance"], sort=False)["value"].mean()
    total = each.groupby(["treatment_id", "run_id", "t_s"]).sum().reset_index()
    return total.assign(bin_s=bin_s)


def _over_runs(frame: pd.DataFrame, variable: str) -> pd.DataFrame:
    if frame.empty:
        return pd.DataFrame()
    bin_s = float(frame.bin_s.iloc[0])
    bins = round((frame.t_s.max() - frame.t_s.min()) / bin_s) + 1
    joined = max(1, math.ceil(bins / MAX_BINS))
    width = bin_s * joined
    start = frame.t_s.min()
    frame = frame.assign(t_s=start + np.floor((frame.t_s - start) / width + 1e-9) * width)
    grouped = frame.groupby(["treatment_id", "t_s"], sort=True)["value"]
    # method="higher" keeps the median a value that occurred, and lets +inf stand for "among the failures"
    rows = pd.DataFrame({
        "mid": grouped.quantile(0.5, interpolation="higher"),
        "low": grouped.min(),
        "high": grouped.max(),
        "failing": grouped.agg(lambda v: float(np.isinf(v).mean())),
    }).reset_index()  # fmt: skip
    return rows.assign(variable=variable, end_s=rows.t_s + width)
