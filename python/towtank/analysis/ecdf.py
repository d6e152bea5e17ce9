"""Pooled latency of a treatment as a line: descriptive, because requests of one run are not independent.

A line of 10 million requests has to be thinned to be drawn; the points are chosen so that the tail stays.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from towtank.analysis.distribution import MICROSECOND_S, Distribution

MOST_POINTS = 400
_BODY = 250
"""Points spread evenly over the shares; the rest follows the tail and the axis."""
PERCENTILES = (
    0.0, 1.0, 5.0, 10.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 92.5, 95.0, 97.5, 98.0,
    99.0, 99.5, 99.9, 99.95, 99.99, 99.999, 100.0,
)  # fmt: skip


def ecdf(latency: Distribution, *, most_points: int = MOST_POINTS) -> pd.DataFrame:
    """Empirical distribution: share of all requests that succeeded within a latency.

    Parameters
    ----------
    latency : Distribution
    most_points : int, default 400
        At most so many points, ≥ 10.

    Returns
    -------
    DataFrame
        latency_s, share. The last share is the goodput: failures keep it below 1. Every point is exact; points are
        left out, never moved. The fastest, the slowest and points at ever smaller distances from the end are kept.
    """
    if most_points < 10:
        raise ValueError(f"most_points {most_points} is too few for a line; allowed is 10 or more")
    if not latency.values.size:
        return pd.DataFrame({"latency_s": np.array([], float), "share": np.array([], float)})
    cumulated = np.cumsum(latency.counts)
    chosen = np.arange(latency.values.size)
    if chosen.size > most_points:
        body = round(most_points * _BODY / MOST_POINTS)
        tail = (most_points - body) // 2
        n = latency.successes
        ranks = np.concatenate(
            (
                np.linspace(1, n, body),
                n + 1 - np.geomspace(1, n, tail),  # ever closer to the slowest
            )
        )
        along_axis = np.geomspace(
            max(int(latency.values[0]), 1), max(int(latency.values[-1]), 1), most_points - body - tail - 2
        )
        by_rank = np.searchsorted(cumulated, np.clip(np.floor(ranks), 1, n))
        by_value = np.clip(np.searchsorted(latency.values, along_axis), 0, latency.values.size - 1)
        chosen = np.unique(np.concatenate((by_rank, by_value, [0, latency.values.size - 1])))
    return pd.DataFrame(
        {"latency_s": latency.values[chosen] * MICROSECOND_S, "share": cumulated[chosen] / latency.n}
    )


def percentile_line(latency: Distribution) -> pd.DataFrame:
    """Pooled percentiles: percentile (0–100), latency_s (null where it falls among failures).

    Percentiles closer to 100 than the requests can tell (fewer than one request beyond) are left out.
    """
    shown = [p for p in PERCENTILES if p in (0.0, 100.0) or latency.n * (100 - p) >= 100]
    values = [latency.percentile(p) for p in shown]
    finite = [v if v is not None and np.isfinite(v) else np.nan for v in values]
    return pd.DataFrame({"percentile": shown, "latency_s": np.array(finite, dtype=float)})
