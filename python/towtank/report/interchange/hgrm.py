"""HdrHistogram's table of percentiles (`.hgrm`), as wrk2 prints it and as its plotters read it.

A percentile of the table is that of a count, not interpolated: the value of a line is the smallest that at
least this share of the requests does not exceed. Values are exact, not those of buckets. Only successes can
have a line; how many requests failed stands in the trailer, as a comment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from towtank.analysis.distribution import Distribution

TICKS_PER_HALF_DISTANCE = 5
"""Lines for each halving of the distance to 100 %: what wrk2 and the plotters use."""
_US_PER_MS = 1000.0


def render(latency: Distribution, *, title: str) -> str:
    """Write the table; values in ms.

    Parameters
    ----------
    latency : Distribution
    title : str
        What it is of; stands in a comment.

    Raises
    ------
    ValueError
        There is no success.
    """
    if not latency.values.size:
        raise ValueError("no request succeeded: there is no distribution to write")
    lines = [f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}", ""]
    for value_us, share, total in _levels(latency):
        line = f"{value_us / _US_PER_MS:12.3f} {float(share):14.12f} {total:10d}"
        lines.append(line if share == 1 else f"{line} {float(1 / (1 - share)):14.2f}")
    mean, deviation = _moments(latency)
    lines += [
        f"#[Mean    = {mean:12.3f}, StdDeviation   = {deviation:12.3f}]",
        f"#[Max     = {latency.values[-1] / _US_PER_MS:12.3f}, Total count    = {latency.successes:12d}]",
        f"#[Buckets = {latency.values.size:12d}, SubBuckets     = {1:12d}]",
        f"# {_comment(title)}: ms; {latency.failures} of {latency.n} requests failed and are in no line above",
    ]
    return "\n".join(lines) + "\n"


def _levels(latency: Distribution) -> Iterator[tuple[int, Fraction, int]]:
    """Value in µs, percentile level as a share, and how many requests do not exceed the value.

    The levels are those of HdrHistogram's iterator: five steps to half of what is left, again and again,
    until the largest value is reached; then 100 %.
    """
    reached = np.cumsum(latency.counts)
    n = int(reached[-1])
    level = Fraction(0)
    while level < 1:
        wanted = max(1, math.ceil(level * n))
        at = int(np.searchsorted(reached, wanted, side="left"))
        if at == latency.values.size - 1 and level > 0 and wanted == n:
            break
        yield int(latency.values[at]), level, int(reached[at])
        halvings = 1
        while level >= 1 - Fraction(1, 2**halvings):
            halvings += 1
        level += Fraction(1, TICKS_PER_HALF_DISTANCE * 2**halvings)
    yield int(latency.values[-1]), Fraction(1), n


def _moments(latency: Distribution) -> tuple[float, float]:
    """Mean and standard deviation (of the population, as HdrHistogram has it), ms."""
    values = latency.values.astype(float) / _US_PER_MS
    mean = float(np.average(values, weights=latency.counts))
    return mean, math.sqrt(float(np.average((values - mean) ** 2, weights=latency.counts)))


def _comment(text: str) -> str:
    """Keep a text in one line."""
    return "".join(sign if sign.isprintable() else "_" for sign in text)
