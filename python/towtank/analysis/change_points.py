"""Where a short series changes its level, with a p-value: binary segmentation by a permutation test."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from towtank.analysis.intervals import FloatArray

LEAST = 3
"""Fewest values on a side: one or two odd ones are no level."""
PERMUTATIONS = 4_999
MOST_PERMUTATIONS = 999_999
"""Of one stretch; a level below their share can be reached by nothing."""
_AT_ONCE = 5_000


@dataclass(frozen=True)
class ChangePoint:
    """A change of level.

    Parameters
    ----------
    index : int
        First value at the new level.
    p_value : float
        Of the test that found it, in the stretch between the changes found before it.
    """

    index: int
    p_value: float


def change_points(
    values: npt.ArrayLike, *, level: float, rng: np.random.Generator, permutations: int = PERMUTATIONS
) -> tuple[ChangePoint, ...]:
    """Find the changes of level in a series.

    Parameters
    ----------
    values : array_like
        In their order; independent of each other. With infinite ones among them ranks take their place.
    level : float
        Probability, 0–1, of any change being found where there is none.
    rng : numpy.random.Generator
    permutations : int
        Orders that are drawn at the least; more where `level` is so small that none of these could be below it.

    Returns
    -------
    tuple of ChangePoint
        Ascending.

    Notes
    -----
    For each split with at least 3 values a side, k(n − k)/n (x̄ₖ − x̄ₙ₋ₖ)² is how much of the squares lies between the
    sides; its largest value over the splits is the statistic. Without a change all orders of the values are equally
    likely, so that p = (1 + orders with as large a one) / (1 + orders drawn) is exact (Phipson and Smyth 2010), however
    the values are distributed. Where it is at most `level` the series is split there, and both sides are looked at in
    the same way (Vostrikova 1981; Matteson and James 2014 with another statistic), each at its share of `level` by
    length: the stretches that are left without a change then have one found in any of them with this probability.
    """
    series = np.asarray(values, dtype=np.float64)
    if np.any(np.isnan(series)):
        raise ValueError("a series with gaps has no order to look at; leave the gaps out")
    if not np.all(np.isfinite(series)):
        series = np.asarray(stats.rankdata(series), dtype=np.float64)
    found: list[ChangePoint] = []
    stretches = [(0, series.size)]
    while stretches:
        start, end = stretches.pop()
        if end - start < 2 * LEAST:
            continue
        of_it = level * (end - start) / series.size
        split = _split(series[start:end], level=of_it, rng=rng, permutations=permutations)
        if split is not None and split.p_value <= of_it:
            at = start + split.index
            found.append(ChangePoint(at, split.p_value))
            stretches += [(start, at), (at, end)]
    return tuple(sorted(found, key=lambda change: change.index))


def fewest(level: float) -> int:
    """Shortest series in which any change can be found at a level: half its orders of two levels must be rarer.

    0 where none can, because so many orders are not drawn.
    """
    if level * (1 + MOST_PERMUTATIONS) < 1:
        return 0
    n = 2 * LEAST
    while 2 / math.comb(n, n // 2) > level:
        n += 1
    return n


def _split(
    values: FloatArray, *, level: float, rng: np.random.Generator, permutations: int
) -> ChangePoint | None:
    """The most likely split of a stretch; None where all of it is the same, or p is above `level`."""
    if np.ptp(values) == 0:
        return None
    centred = values - values.mean()
    between = _between(centred[None, :])[0]
    as_large = between.max() - 1e-9 * float(np.sum(centred**2))
    orders = min(max(permutations, math.ceil(10 / level) - 1), MOST_PERMUTATIONS)
    hits = 0
    for begun in range(0, orders, _AT_ONCE):
        drawn = rng.permuted(np.tile(centred, (min(_AT_ONCE, orders - begun), 1)), axis=1)
        hits += int((_between(drawn).max(axis=1) >= as_large).sum())
        if (1 + hits) / (1 + orders) > level:
            return None
    return ChangePoint(LEAST + int(np.argmax(between)), (1 + hits) / (1 + orders))


def _between(centred: FloatArray) -> FloatArray:
    """Squares between the sides of each split, a row for each order of values with mean 0."""
    n = centred.shape[1]
    k = np.arange(LEAST, n - LEAST + 1)
    sums = np.cumsum(centred, axis=1)[:, k - 1]
    return np.asarray(sums**2 * n / (k * (n - k)), dtype=np.float64)
