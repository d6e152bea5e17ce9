"""Latency over time as a map: how many requests of a time bin took how long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from towtank.analysis.distribution import MICROSECOND_S
from towtank.analysis.summaries import RunData

RUN_COLUMNS = ("treatment_id", "t_us", "bin_us", "bucket", "requests")
COLUMNS = ("treatment_id", "t_s", "bin_s", "low_s", "high_s", "requests", "share")
PER_DECADE = 8
"""Buckets of latency to a factor of ten: each reaches 33 % further than the one before."""
MOST_BINS = 48
"""Time bins of a map; a longer run has wider ones."""
FAILED = -1
"""Bucket of requests that did not succeed."""
_EDGES_US = np.unique(np.rint(10 ** (np.arange(0, 10 * PER_DECADE + 1) / PER_DECADE)).astype(np.int64))
"""Where buckets begin, µs; below the first factors of ten, edges that round to the same whole number are one."""


def run_heat(run: RunData) -> pd.DataFrame:
    """Count the requests of one run by time bin and bucket of latency.

    Returns
    -------
    DataFrame
        `RUN_COLUMNS`: start and width of the time bin (µs), number of the bucket (`FAILED` of those that did not
        succeed), requests ≥ 1. Warm-up is included. Membership is by the scheduled time.
    """
    counts = run.counts
    if counts is None or not counts.bin.size:
        return pd.DataFrame(columns=list(RUN_COLUMNS))
    width = 1  # doubled: bins of a run that lasted a little longer are then unions of another's
    while width * MOST_BINS <= int(counts.bin.max()):
        width *= 2
    buckets = _EDGES_US.size + 1
    bucket = np.where(counts.ok, np.searchsorted(_EDGES_US, np.maximum(counts.value, 1), side="right"), 0)
    sums = np.bincount((counts.bin // width) * buckets + bucket, weights=counts.count)
    cells = np.flatnonzero(sums)
    bin_us = run.record.bin_us * width
    return pd.DataFrame(
        {
            "treatment_id": run.record.treatment_id,
            "t_us": cells // buckets * bin_us,
            "bin_us": bin_us,
            "bucket": cells % buckets + FAILED,
            "requests": np.rint(sums[cells]).astype(np.int64),
        }
    )


def pooled_heat(runs: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Add the maps of all runs of each treatment up.

    Parameters
    ----------
    runs : sequence of DataFrame
        From `run_heat`. All runs of a treatment get the bins of the one with the widest; a run whose bins do not fit
        into those of the runs before it, nor they into its, is left out: it was counted otherwise.

    Returns
    -------
    DataFrame
        `COLUMNS`: time bin (s), ends of the bucket of latency (s; null where the requests failed), requests, and
        their share of the requests due in the bin. Pooled, descriptive.
    """
    there = [(str(run.treatment_id.iloc[0]), int(run.bin_us.iloc[0]), run) for run in runs if not run.empty]
    widest: dict[str, int] = {}
    for treatment, width, _ in there:
        known = widest.setdefault(treatment, width)
        widest[treatment] = width if width % known == 0 else known
    parts = [
        run.assign(t_us=run.t_us // widest[treatment] * widest[treatment], bin_us=widest[treatment])
        for treatment, width, run in there
        if widest[treatment] % width == 0
    ]
    if not parts:
        return pd.DataFrame(columns=list(COLUMNS))
    keys = ["treatment_id", "t_us", "bin_us", "bucket"]
    found = pd.concat(parts).groupby(keys, sort=False)["requests"].sum().reset_index()
    due = found.groupby(["treatment_id", "t_us"], sort=False)["requests"].transform("sum")
    bucket = found.bucket.to_numpy(dtype=np.int64)
    edges_s = np.append(_EDGES_US * MICROSECOND_S, np.inf)
    failed = bucket == FAILED
    return found.assign(
        t_s=found.t_us * MICROSECOND_S,
        bin_s=found.bin_us * MICROSECOND_S,
        low_s=np.where(failed, np.nan, edges_s[bucket]),
        high_s=np.where(failed, np.nan, edges_s[bucket + 1]),
        share=found.requests / due,
    )[list(COLUMNS)]
