"""Comparisons of two independent samples, for designs without blocks (`order: listed`).

Welch's t for the size of the difference; Mann–Whitney and Brunner–Munzel as checks by ranks, the latter in its
permutation form, which also copes with complete separation, where the t approximation is undefined.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy import stats

from towtank.analysis.intervals import FloatArray, Interval, as_finite, check_confidence, has_no_variation

EXACT_SPLITS = 12_870
"""Up to as many ways to split the values (C(16, 8)), all of them are looked at."""


def welch(first: npt.ArrayLike, second: npt.ArrayLike, *, confidence: float) -> tuple[float, Interval] | None:
    """Welch's test and interval of mean(first) − mean(second).

    Returns
    -------
    (float, Interval) or None
        Two-sided p-value and interval; None with fewer than two values on a side or without variation in both.

    Notes
    -----
    Variances need not be equal; a side without variation has variance 0 (up to rounding, which scipy refuses to
    look through). Degrees of freedom by Welch and Satterthwaite (Welch 1947).
    """
    check_confidence(confidence)
    a, b = as_finite(first), as_finite(second)
    if min(a.size, b.size) < 2 or (has_no_variation(a) and has_no_variation(b)):
        return None
    parts = [0.0 if has_no_variation(x) else float(x.var(ddof=1)) / x.size for x in (a, b)]
    df = sum(parts) ** 2 / (parts[0] ** 2 / (a.size - 1) + parts[1] ** 2 / (b.size - 1))
    error = math.sqrt(sum(parts))
    difference = float(a.mean() - b.mean())
    half = float(stats.t.ppf(0.5 + confidence / 2, df)) * error
    p = float(2 * stats.t.sf(abs(difference) / error, df))
    return p, Interval(difference - half, difference + half, confidence, confidence)


def mann_whitney(first: npt.ArrayLike, second: npt.ArrayLike) -> float | None:
    """Two-sided Mann–Whitney p-value; exact when there are no ties. ±inf is a value like others.

    Returns
    -------
    float or None
        1 when all values are equal; None when a side is empty.
    """
    a, b = _ranks(first, second)
    if min(a.size, b.size) == 0:
        return None
    if np.ptp(np.concatenate((a, b))) == 0:
        return 1.0
    return float(stats.mannwhitneyu(a, b, alternative="two-sided", method="auto").pvalue)


def brunner_munzel(
    first: npt.ArrayLike, second: npt.ArrayLike, *, rng: np.random.Generator, resamples: int = 9_999
) -> float | None:
    """Two-sided p-value of Brunner and Munzel's test in its permutation form.

    Parameters
    ----------
    first, second : array_like
        Independent samples; ±inf allowed, as ties of rank.
    rng : numpy.random.Generator
        Used when there are more than 12 870 ways to split the values.
    resamples : int, default 9 999

    Returns
    -------
    float or None
        None with fewer than two values on a side.

    Notes
    -----
    The statistic is W = (p̂ − ½) / σ̂ with p̂ = P(X < Y) + ½ P(X = Y) from ranks. With complete separation σ̂ = 0 and W
    is ±inf: the largest value that any split can reach, so the permutation p-value stays defined.

    References
    ----------
    Neubert, K. and Brunner, E. (2007). A studentized permutation test for the non-parametric Behrens–Fisher
    problem. Computational Statistics & Data Analysis 51 (10), 5192–5204.
    """
    a, b = _ranks(first, second)
    if min(a.size, b.size) < 2:
        return None
    pooled = np.concatenate((a, b))
    n, total = a.size, a.size + b.size
    observed = abs(float(_brunner_munzel_statistics(pooled, np.arange(n)[None, :])[0]))
    if math.comb(total, n) <= EXACT_SPLITS:
        splits = np.array(list(combinations(range(total), n)))
        return float(np.mean(_at_least(_brunner_munzel_statistics(pooled, splits), observed)))
    splits = np.argsort(rng.random((resamples, total)), axis=1)[:, :n]
    hits = int(np.sum(_at_least(_brunner_munzel_statistics(pooled, splits), observed)))
    return (1 + hits) / (1 + resamples)


def superiority(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """P(first < second) + ½ P(first = second) over all pairs of values."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return float(np.mean((a[:, None] < b[None, :]) + 0.5 * (a[:, None] == b[None, :])))


def _at_least(statistics: FloatArray, observed: float) -> npt.NDArray[np.bool_]:
    """Which statistics are as extreme as the observed one, up to rounding."""
    slack = 0.0 if math.isinf(observed) else 1e-9 * max(1.0, observed)
    return np.abs(statistics) >= observed - slack


def _ranks(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both samples as midranks of the pooled values, so that ±inf can be reckoned with."""
    a = np.asarray(first, dtype=np.float64).ravel()
    b = np.asarray(second, dtype=np.float64).ravel()
    pooled = np.concatenate((a, b))
    if bool(np.any(np.isnan(pooled))):
        raise ValueError("a value is nan; leave the run out and say why")
    ranks = stats.rankdata(pooled).astype(np.float64)
    return ranks[: a.size], ranks[a.size :]


def _brunner_munzel_statistics(pooled: FloatArray, splits: npt.NDArray[np.intp]) -> FloatArray:
    """W for every split; a row of `splits` holds the positions of the first sample.

    Placements: of each value, how many of the other sample lie below it, ties counting half. Their variances per
    sample give σ̂².
    """
    below = (pooled[:, None] > pooled[None, :]) + 0.5 * (pooled[:, None] == pooled[None, :])
    rows, n = splits.shape
    total = pooled.size
    m = total - n
    member = np.zeros((rows, total), dtype=bool)
    member[np.arange(rows)[:, None], splits] = True
    from_first = member.astype(float) @ below.T  # per value: values of the first sample below it
    from_second = (~member).astype(float) @ below.T
    placed_first = from_second[member].reshape(rows, n) / m
    placed_second = from_first[~member].reshape(rows, m) / n
    effect = placed_second.mean(axis=1) - 0.5
    variance = placed_first.var(axis=1, ddof=1) / n + placed_second.var(axis=1, ddof=1) / m
    flat = variance <= 1e-15
    statistics = effect / np.sqrt(np.where(flat, 1.0, variance))
    statistics[flat & (np.abs(effect) < 1e-12)] = 0.0
    statistics[flat & (effect >= 1e-12)] = np.inf
    statistics[flat & (effect <= -1e-12)] = -np.inf
    return np.asarray(statistics, dtype=np.float64)
