"""What happened when: requests, completions, latency and goodput per time bin, per run and over runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from towtank.analysis.distribution import MICROSECOND_S
from towtank.analysis.summaries import SECOND_US, RunData
from towtank.analysis.tables import LatencyCounts, Totals
from towtank.store.run_record import RunRecord

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

COLUMNS = (
    "treatment_id", "run_id", "t_s", "bin_s", "requests_per_s", "done_per_s", "p50_s", "p95_s", "goodput", "due",
)  # fmt: skip
AVERAGED = ("requests_per_s", "done_per_s", "p50_s", "p95_s", "goodput")
MEAN_COLUMNS = ("treatment_id", "t_s", "bin_s", "variable", "mean", "low", "high", "runs")
LONG_BIN_US = 10_000_000
MOST_BINS = 600
"""A series with more bins than this is drawn in bins of at least 10 s."""


def run_timeseries(run: RunData) -> pd.DataFrame:
    """Time series of one run, warm-up and stages included.

    Returns
    -------
    DataFrame
        `COLUMNS`. Percentiles come from the merged counts of that bin of that run, never from other percentiles; null
        where they fall among failures. Membership is by the scheduled time, completions by the end. Both rates are
        over whole seconds where bins are shorter: completions are stored by second, and the two are compared. Goodput
        is null where the run does not know it.
    """
    if run.counts is None or run.totals is None:
        return pd.DataFrame(columns=list(COLUMNS))
    frame = latency_series(run.counts, run.record)
    bin_us = run.record.bin_us * _stored_bins(run.counts, run.record)
    starts = np.rint(frame["t_s"].to_numpy(dtype=float) / MICROSECOND_S).astype(np.int64)
    due = frame["due"].to_numpy(dtype=float)
    frame["requests_per_s"] = _due_rate(due, starts, bin_us)
    frame["done_per_s"] = _completion_rate(run.totals, starts, bin_us)
    frame = frame.assign(treatment_id=run.record.treatment_id, run_id=run.record.run_id)
    return frame[list(COLUMNS)]


def latency_series(counts: LatencyCounts, record: RunRecord) -> pd.DataFrame:
    """Latency and goodput of the bins of one run: t_s, bin_s, p50_s, p95_s, goodput, due; see `run_timeseries`."""
    width = _stored_bins(counts, record)
    bin_s = record.bin_us * width * MICROSECOND_S
    knows_goodput = "goodput" not in record.unknown
    rows = []
    for index, latency in counts.by_bin(width):
        rows.append(
            {
                "t_s": index * bin_s,
                "p50_s": _finite(latency.percentile(50)),
                "p95_s": _finite(latency.percentile(95)),
                "goodput": latency.successes / latency.n if knows_goodput else np.nan,
                "due": latency.n,
            }
        )
    return pd.DataFrame(rows, columns=["t_s", "p50_s", "p95_s", "goodput", "due"]).assign(bin_s=bin_s)


def mean_timeseries(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean over the runs of a treatment of each bin's per-run value, with the smallest and largest run.

    Parameters
    ----------
    frame : DataFrame
        Time series of all runs.

    Returns
    -------
    DataFrame
        `MEAN_COLUMNS`. This is the estimate of a treatment, as everywhere: the run is the unit. A bin in which some
        run's percentile falls among failures has no mean; `runs` counts the runs with a value.
    """
    if frame.empty:
        return pd.DataFrame(columns=list(MEAN_COLUMNS))
    long = frame.melt(
        id_vars=["treatment_id", "run_id", "t_s", "bin_s"], value_vars=list(AVERAGED), var_name="variable"
    )
    long["value"] = long["value"].astype(float)
    groups = long.groupby(["treatment_id", "variable", "bin_s", "t_s"], sort=False)["value"]
    found = groups.agg(mean="mean", low="min", high="max", runs="count", rows="size").reset_index()
    hidden = found["runs"] < found["rows"]
    found.loc[hidden, ["mean", "high"]] = np.nan
    return found[list(MEAN_COLUMNS)]


def _stored_bins(counts: LatencyCounts, record: RunRecord) -> int:
    """Stored bins that make one shown bin."""
    if not counts.bin.size:
        return 1
    bins = int(np.ptp(counts.bin)) + 1
    if bins <= MOST_BINS or record.bin_us >= LONG_BIN_US:
        return 1
    return -(-LONG_BIN_US // record.bin_us)


def _completion_rate(totals: Totals, starts: Integers, bin_us: int) -> Floats:
    """Complete answers per second in each bin, from sums per second."""
    seconds, done = totals.completions()
    if not seconds.size:
        return np.zeros(starts.size)
    edges = np.arange(seconds[0], seconds[-1] + 2) * SECOND_US
    per_second = np.zeros(edges.size - 1)
    per_second[seconds - seconds[0]] = done
    return _rate(edges, np.concatenate(([0.0], np.cumsum(per_second))), starts, bin_us)


def _due_rate(due: Floats, starts: Integers, bin_us: int) -> Floats:
    """Requests due per second in each bin, over the same seconds as completions."""
    if bin_us % SECOND_US == 0:
        return due / (bin_us * MICROSECOND_S)
    ends = np.cumsum(due)
    # The start and end of every bin: nothing is due between bins.
    instants = np.stack((starts, starts + bin_us), axis=1).ravel()
    cumulated = np.stack((ends - due, ends), axis=1).ravel()
    edges = np.arange(starts[0] // SECOND_US, -(-(starts[-1] + bin_us) // SECOND_US) + 1) * SECOND_US
    return _rate(edges, np.interp(edges, instants, cumulated), starts, bin_us)


def _rate(edges: Integers, cumulated: Floats, starts: Integers, bin_us: int) -> Floats:
    """Rate in each bin, from counts cumulated up to the edges of seconds.

    A bin shorter than a second shows the rate of the second it lies in; a longer one the mean of its seconds, each
    weighted by its overlap with the bin.
    """
    until = np.interp([starts, starts + bin_us], edges, cumulated)
    return np.asarray((until[1] - until[0]) / (bin_us * MICROSECOND_S), dtype=np.float64)


def _finite(value: float | None) -> float:
    return value if value is not None and np.isfinite(value) else np.nan
