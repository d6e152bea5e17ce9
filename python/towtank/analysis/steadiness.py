"""Kernels over one series of one run: how much of its beginning to leave out, and where its level changes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from towtank.analysis.intervals import FloatArray, as_finite

BATCH = 5
"""Observations in a batch: the 5 of MSER-5."""
FEWEST = 10 * BATCH
"""Observations that MSER-5 needs: of fewer batches, too few would be left to choose from."""
LEAST_STRETCH = 5
"""Fewest observations between two changes."""
PENALTY = 4.0
"""Of a change, in units of noise variance × log n: two parameters at twice the weight of BIC, since bins are not
independent of each other."""


def mser5(values: npt.ArrayLike) -> int | None:
    """How many observations at the beginning to leave out, by MSER-5.

    Parameters
    ----------
    values : array_like
        Equally spaced in time, finite.

    Returns
    -------
    int or None
        A multiple of 5. None with fewer than 50 observations, and where the rule points into the second half: then
        the series is not seen to become steady.

    Notes
    -----
    With means Z(1) … Z(n) of batches of 5, the d < n that makes Σ(j > d) (Z(j) − Z̄(d))² / (n − d)² smallest, Z̄(d) the
    mean of those behind d; the last 5 batches are no candidates (White 1997, Simulation 69, 323; Spratt 1998).
    """
    array = as_finite(values)
    n = array.size // BATCH
    if array.size < FEWEST:
        return None
    batches = array[: n * BATCH].reshape(n, BATCH).mean(axis=1)
    kept = np.arange(n, BATCH, -1)
    sums, squares = np.cumsum(batches[::-1])[::-1], np.cumsum(batches[::-1] ** 2)[::-1]
    spread = np.maximum(squares[: kept.size] - sums[: kept.size] ** 2 / kept, 0.0)
    first = int(np.argmin(spread / kept**2))
    return first * BATCH if first <= n // 2 else None


@dataclass(frozen=True)
class Change:
    """A change of level.

    Parameters
    ----------
    index : int
        First observation at the new level.
    before, after : float
        Mean of the observations between this change and the ones around it.
    """

    index: int
    before: float
    after: float


def level_changes(values: npt.ArrayLike) -> tuple[Change, ...]:
    """Find the instants at which the mean of a series changes.

    Parameters
    ----------
    values : array_like
        Equally spaced, finite; logs, where a change is a ratio.

    Returns
    -------
    tuple of Change
        Ascending. Empty with fewer than 10 observations, or without noise to hold a change against.

    Notes
    -----
    Optimal partitioning (Jackson et al. 2005): the segmentation that makes Σ squared deviations from the segments'
    means + 4 σ² log n × changes smallest, over all segmentations with at least 5 observations each. σ is 1.4826 × the
    median absolute difference of neighbours ÷ √2, which a few changes do not move. O(n²); a series has 600 bins.
    """
    array = as_finite(values)
    n = array.size
    if n < 2 * LEAST_STRETCH:
        return ()
    steps = np.abs(np.diff(array))
    sigma = 1.4826 * float(np.median(steps)) / math.sqrt(2)
    if sigma <= 0:
        return ()
    cuts = _partition(array, penalty=PENALTY * sigma**2 * math.log(n))
    bounds = [0, *cuts, n]
    means = [float(array[a:b].mean()) for a, b in itertools.pairwise(bounds)]
    return tuple(Change(cut, means[i], means[i + 1]) for i, cut in enumerate(cuts))


def _partition(array: FloatArray, *, penalty: float) -> list[int]:
    """Starts of all segments but the first."""
    n = array.size
    sums, squares = (np.concatenate(([0.0], np.cumsum(x))) for x in (array, array**2))
    best = np.full(n + 1, np.inf)
    best[0] = -penalty
    last = np.zeros(n + 1, dtype=np.int64)
    for end in range(LEAST_STRETCH, n + 1):
        starts = np.arange(end - LEAST_STRETCH + 1)
        inside = sums[end] - sums[starts]
        cost = squares[end] - squares[starts] - inside**2 / (end - starts)
        total = best[starts] + cost + penalty
        choice = int(np.argmin(total))
        best[end], last[end] = total[choice], choice
    cuts: list[int] = []
    end = n
    while end > 0:
        end = int(last[end])
        if end > 0:
            cuts.append(end)
    return cuts[::-1]
