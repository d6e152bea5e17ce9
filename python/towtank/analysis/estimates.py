"""A treatment's estimate: the mean over its runs of a per-run value, with an interval.

The run is the unit of inference; requests are not, because those of one run share everything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from towtank.analysis.intervals import (
    BOOTSTRAP_LEAST,
    FloatArray,
    Interval,
    bootstrap_interval,
    has_no_variation,
    mean_interval,
    median_interval,
    median_ranks,
    share_interval,
)
from towtank.analysis.model import Estimate, Quantity
from towtank.variables import Variable


def estimate(described: Variable, quantities: Sequence[Quantity], *, confidence: float) -> Estimate:
    """Mean over runs with its interval.

    Parameters
    ----------
    described : Variable
    quantities : sequence of Quantity
        One per valid run.
    confidence : float
        0–1.

    Returns
    -------
    Estimate
        Arithmetic mean and t interval, cut to the values the variable can take. With censored runs the mean is a
        lower bound (`above`) without an interval. A collapse share has the exact binomial interval. Fewer than
        two runs, runs without any variation, and the number of requests have no interval and say so: that number is
        what the file declares, so it is told with the range of the runs.
    """
    values = np.array([q.value for q in quantities if q.value is not None], dtype=np.float64)
    n = values.size
    lost = len(quantities) - n
    missing = f"; {lost} of {len(quantities)} runs have no value" if lost else ""

    def result(
        interval: Interval | None = None, *, method: str = "none", reason: str = "", above: bool = False
    ) -> Estimate:
        low, high = (None, None) if interval is None else _possible(described, interval)
        mean = float(values.mean()) if n else None
        reason = reason + missing if reason else missing.removeprefix("; ")
        return Estimate(described.name, mean, low, high, n, confidence, method, reason, above)

    if n == 0:
        return result(reason=next((q.reason for q in quantities if q.reason), "no valid runs"))
    censored = sum(q.above for q in quantities if q.value is not None)
    if censored:
        return result(
            method="lower bound",
            reason=f"{censored} of {n} runs lie above the value shown for them, so the mean is a lower bound",
            above=True,
        )
    if described.name == "collapsed":
        return result(
            share_interval(round(float(values.sum())), n, confidence=confidence), method="Clopper–Pearson"
        )
    without = _without_interval(described, values)
    if without is not None:
        return result(method=without[0], reason=without[1])
    return result(mean_interval(values, confidence=confidence), method="t")


def median_estimate(described: Variable, quantities: Sequence[Quantity], *, confidence: float) -> Estimate:
    """Median over runs with its exact interval by binomial ranks; copes with censored runs.

    Returns
    -------
    Estimate
        `mean` holds the median; a bound that falls on a censored run is None, and `above` says that the median
        itself does.
    """
    known = [q for q in quantities if q.value is not None]
    n = len(known)
    if n == 0:
        return Estimate(described.name, None, None, None, 0, confidence, "none", "no valid runs")
    values = np.array([np.inf if q.above else q.value for q in known], dtype=np.float64)
    ordered = np.sort(values)
    upper_middle = float(ordered[n // 2])
    above = bool(np.isinf(upper_middle))
    limit = min((q.value for q in known if q.above and q.value is not None), default=None)
    middle = limit if above else float(np.median(ordered))
    interval = median_interval(values, confidence=confidence)
    if interval is None:
        reason = f"{n} runs are too few for a {confidence * 100:g} % interval of the median"
        return Estimate(described.name, middle, None, None, n, confidence, "none", reason, above)
    low = interval.low if np.isfinite(interval.low) else None
    high = interval.high if np.isfinite(interval.high) else None
    ranks = median_ranks(n, confidence=confidence)
    method = f"median, ranks {ranks[0]} and {ranks[1]}, coverage {ranks[2]:.4f}" if ranks else "median"
    reason = "" if high is not None else "the upper bound lies among failures"
    return Estimate(described.name, middle, low, high, n, confidence, method, reason, above)


def bootstrap_check(
    quantities: Sequence[Quantity], *, confidence: float, rng: np.random.Generator
) -> tuple[float, float] | None:
    """Studentised bootstrap interval of the mean from 20 uncensored runs; None otherwise."""
    values = [q.value for q in quantities if q.value is not None and not q.above]
    if len(values) < max(BOOTSTRAP_LEAST, len(quantities)):
        return None
    interval = bootstrap_interval(values, confidence=confidence, rng=rng)
    return None if interval is None else (interval.low, interval.high)


def _without_interval(described: Variable, values: FloatArray) -> tuple[str, str] | None:
    """Method and reason where an interval of a mean would mislead; None where it would not."""
    n = values.size
    if n < 2:
        return "none", "one run: its variation is unknown"
    if has_no_variation(values):
        return "constant", f"the same in all {n} runs: no variation to reckon with"
    if described.base == "requests":
        told = f"{values.min():.10g} to {values.max():.10g} in {n} runs"
        return "range", f"{told}; a count is what the load made of its plan, so there is no interval"
    return None


def _possible(described: Variable, interval: Interval) -> tuple[float, float]:
    """Cut an interval to values the variable can take; that never loses the true mean."""
    low = max(interval.low, 0.0)
    high = min(interval.high, 1.0) if described.unit == "ratio" else interval.high
    return low, high
