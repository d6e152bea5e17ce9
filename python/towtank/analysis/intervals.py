"""Intervals from n independent numbers: mean by t, median by exact ranks, share by binomial, bootstrap.

Pure kernels over plain arrays; nothing here knows of runs or treatments. Sources stand with each formula and
in docs/statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

FloatArray = npt.NDArray[np.float64]
RELATIVE_ZERO = 1e-12
"""A standard deviation this small beside the largest value is rounding, not variation."""
BOOTSTRAP_LEAST = 20
"""Fewer values than this give a studentised bootstrap whose coverage is not to be trusted."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval.

    Parameters
    ----------
    low, high : float
        Bounds; ±inf where the data set none.
    confidence : float
        Asked for, 0–1.
    coverage : float
        Achieved; more than asked for where the method is discrete.
    """

    low: float
    high: float
    confidence: float
    coverage: float


def check_confidence(confidence: float) -> None:
    """Refuse a confidence outside (0, 1).

    Raises
    ------
    ValueError
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence {confidence!r} is not between 0 and 1, such as 0.95")


def as_finite(values: npt.ArrayLike) -> FloatArray:
    """One-dimensional finite float array.

    Raises
    ------
    ValueError
        A value is nan or infinite.
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    if not bool(np.all(np.isfinite(array))):
        raise ValueError("a value is not finite; censored values need a method of ranks")
    return array


def has_no_variation(values: npt.ArrayLike) -> bool:
    """Whether all values are equal, up to rounding."""
    array = as_finite(values)
    if array.size < 2:
        return True
    return bool(np.ptp(array) <= RELATIVE_ZERO * max(1.0, float(np.max(np.abs(array)))))


def mean_interval(
    values: npt.ArrayLike, *, confidence: float, sd: float | None = None, df: int | None = None
) -> Interval | None:
    """Student's interval of a mean.

    Parameters
    ----------
    values : array_like
        Independent, finite.
    confidence : float
        0–1.
    sd : float, optional
        Standard deviation to use instead of that of `values`: the pilot's, in a two-stage design.
    df : int, optional
        Degrees of freedom of `sd`; required with it.

    Returns
    -------
    Interval or None
        None with fewer than two values, or when there is no variation.

    Notes
    -----
    x̄ ± t(1 − α/2; df) s / √n, with s² = Σ (x − x̄)² / (n − 1) and df = n − 1 (Student 1908). With the pilot's s and
    df, and all n values in x̄, it is Stein's (1945) two-stage interval.
    """
    check_confidence(confidence)
    array = as_finite(values)
    if (sd is None) != (df is None):
        raise ValueError("`sd` and `df` belong together: a standard deviation and its degrees of freedom")
    if array.size < 2 and sd is None:
        return None
    if sd is None or df is None:
        if has_no_variation(array):
            return None
        sd, df = float(np.std(array, ddof=1)), array.size - 1
    if sd <= 0 or df < 1 or array.size < 1:
        return None
    half = float(stats.t.ppf(0.5 + confidence / 2, df)) * sd / math.sqrt(array.size)
    centre = float(np.mean(array))
    return Interval(centre - half, centre + half, confidence, confidence)


def median_ranks(n: int, *, confidence: float) -> tuple[int, int, float] | None:
    """Ranks of the order statistics that enclose the median.

    Parameters
    ----------
    n : int
        Number of independent values.
    confidence : float
        At least this much, 0–1.

    Returns
    -------
    (int, int, float) or None
        1-based ranks j and n + 1 − j, and their exact coverage; None when even the smallest and largest value do
        not reach `confidence` (95 % needs n ≥ 6).

    Notes
    -----
    P(X(j) ≤ median ≤ X(n+1−j)) ≥ 1 − 2 P(B ≤ j − 1), B ~ Binomial(n, ½), for any distribution; j is the largest with
    at least `confidence`. Ranks are 1-based: for n = 50 they are 18 and 33 (coverage 0.9672).

    References
    ----------
    Le Boudec, J.-Y. (2010). Performance Evaluation of Computer and Communication Systems. EPFL Press, §2.2.
    """
    check_confidence(confidence)
    if n < 0:
        raise ValueError(f"n = {n} is negative")
    ranks = np.arange(1, n // 2 + 1)
    coverage = 1.0 - 2.0 * stats.binom.cdf(ranks - 1, n, 0.5)
    # A coverage that equals the confidence asked for must not fail by the last bit.
    good = np.flatnonzero(coverage >= confidence - 1e-12)
    if not good.size:
        return None
    rank = int(ranks[good[-1]])
    return rank, n + 1 - rank, float(coverage[good[-1]])


def fewest_for_ranks(*, confidence: float) -> int:
    """Fewest values whose smallest and largest enclose the median with this confidence: 6 for 95 %."""
    check_confidence(confidence)
    n = 2
    while median_ranks(n, confidence=confidence) is None:
        n += 1
    return n


def median_interval(
    values: npt.ArrayLike, *, confidence: float, lower: npt.ArrayLike | None = None
) -> Interval | None:
    """Exact distribution-free interval of a median.

    Parameters
    ----------
    values : array_like
        Independent; ±inf allowed, nan not. When `lower` is given, the upper ends of what is known of each value.
    confidence : float
        0–1.
    lower : array_like, optional
        Lower ends, for values known only to lie between two bounds.

    Returns
    -------
    Interval or None
        None when there are too few values for the confidence (see `median_ranks`).
    """
    high = np.sort(np.asarray(values, dtype=np.float64).ravel())
    low = high if lower is None else np.sort(np.asarray(lower, dtype=np.float64).ravel())
    if bool(np.any(np.isnan(high))) or bool(np.any(np.isnan(low))) or high.size != low.size:
        raise ValueError("values and their lower ends must be numbers, and as many")
    ranks = median_ranks(high.size, confidence=confidence)
    if ranks is None:
        return None
    first, last, coverage = ranks
    return Interval(float(low[first - 1]), float(high[last - 1]), confidence, coverage)


def share_interval(hits: int, n: int, *, confidence: float) -> Interval | None:
    """Exact interval of a share of runs (Clopper and Pearson 1934); None without runs."""
    check_confidence(confidence)
    if n == 0:
        return None
    bounds = stats.binomtest(hits, n).proportion_ci(confidence_level=confidence, method="exact")
    return Interval(float(bounds.low), float(bounds.high), confidence, confidence)


def bootstrap_interval(
    values: npt.ArrayLike, *, confidence: float, rng: np.random.Generator, resamples: int = 4999
) -> Interval | None:
    """Studentised bootstrap interval of a mean, a check of the t interval that follows skewness.

    Parameters
    ----------
    values : array_like
        Independent, finite; at least 20.
    confidence : float
        0–1.
    rng : numpy.random.Generator
    resamples : int, default 4999

    Returns
    -------
    Interval or None
        None with fewer than 20 values or without variation.

    Notes
    -----
    t* = (x̄* − x̄) / (s*/√n) over resamples; interval [x̄ − t*(1−α/2) s/√n, x̄ − t*(α/2) s/√n]. Memory is
    O(n × resamples).

    References
    ----------
    Efron, B. and Tibshirani, R. (1993). An Introduction to the Bootstrap. Chapman & Hall, §12.5.
    """
    check_confidence(confidence)
    array = as_finite(values)
    if array.size < BOOTSTRAP_LEAST or has_no_variation(array):
        return None
    drawn = array[rng.integers(0, array.size, size=(resamples, array.size))]
    spread = drawn.std(axis=1, ddof=1)
    varied = spread > 0
    root = math.sqrt(array.size)
    centre, sd = float(array.mean()), float(array.std(ddof=1))
    studentised = (drawn.mean(axis=1)[varied] - centre) / (spread[varied] / root)
    tail = (1 - confidence) / 2
    low, high = np.quantile(studentised, [tail, 1 - tail])
    return Interval(centre - float(high) * sd / root, centre - float(low) * sd / root, confidence, confidence)
