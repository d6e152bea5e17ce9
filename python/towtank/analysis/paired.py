"""Tests on differences within blocks: t, exact sign test, sign-flip permutation.

A difference is treatment − baseline of one block, on the scale of comparison (logs, or plain for shares). ±inf
means that one side lies among the failures and the other does not.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

from towtank.analysis.intervals import FloatArray, as_finite, has_no_variation

EXACT_UP_TO = 16
"""Blocks up to which every one of the 2ⁿ sign patterns is looked at."""
PERMUTATION_FROM = 8
"""Blocks from which the sign-flip permutation is shown: fewer cannot reach a small p-value."""


def t_test(values: npt.ArrayLike, *, sd: float | None = None, df: int | None = None) -> float | None:
    """Two-sided p-value of "the mean difference is 0" (Student 1908; with the pilot's sd and df: Stein 1945).

    Returns
    -------
    float or None
        None with fewer than two values or without variation.
    """
    array = as_finite(values)
    if sd is None or df is None:
        if array.size < 2 or has_no_variation(array):
            return None
        sd, df = float(np.std(array, ddof=1)), array.size - 1
    if sd <= 0:
        return None
    statistic = float(np.mean(array)) / (sd / math.sqrt(array.size))
    return float(2 * stats.t.sf(abs(statistic), df))


def sign_test(signs: npt.ArrayLike) -> float | None:
    """Exact two-sided sign test; ties (0) say nothing and are left out.

    Returns
    -------
    float or None
        1 when there are only ties; None without any value.

    Notes
    -----
    2 P(B ≤ min(k₊, k₋)), at most 1, with B ~ Binomial(k₊ + k₋, ½) (Arbuthnott 1710). On 0/1 outcomes of pairs it is
    the exact McNemar test (1947).
    """
    array = np.sign(np.asarray(signs, dtype=np.float64).ravel())
    if array.size == 0:
        return None
    up, down = int(np.sum(array > 0)), int(np.sum(array < 0))
    if up + down == 0:
        return 1.0
    return float(stats.binomtest(up, up + down, 0.5).pvalue)


def sign_flip_test(
    values: npt.ArrayLike, *, rng: np.random.Generator, resamples: int = 19_999
) -> float | None:
    """Two-sided permutation p-value of the mean difference under flipped signs.

    Parameters
    ----------
    values : array_like
        Finite differences, one per block.
    rng : numpy.random.Generator
        Used beyond 16 blocks only; below, all 2ⁿ patterns are looked at.
    resamples : int, default 19 999
        Random patterns beyond 16 blocks.

    Returns
    -------
    float or None
        None without values.

    Notes
    -----
    p = share of patterns with |Σ ±d| ≥ |Σ d|; for random patterns (1 + hits) / (1 + resamples), which keeps the level
    (Phipson and Smyth 2010). Exact when differences are symmetric about 0 under the null hypothesis, which
    exchanging the treatments within each randomised block makes true (Fisher 1935).
    """
    array = as_finite(values)
    n = array.size
    if n == 0:
        return None
    observed = abs(float(array.sum()))
    slack = 1e-9 * max(float(np.abs(array).sum()), 1e-300)
    if n <= EXACT_UP_TO:
        sums = _all_signed_sums(array)
        return float(np.mean(np.abs(sums) >= observed - slack))
    hits = 0
    for start in range(0, resamples, 4096):
        size = min(4096, resamples - start)
        signs = rng.integers(0, 2, size=(size, n)) * 2 - 1
        hits += int(np.sum(np.abs(signs @ array) >= observed - slack))
    return (1 + hits) / (1 + resamples)


def _all_signed_sums(array: FloatArray) -> FloatArray:
    """Σ ±d over all 2ⁿ sign patterns, built up by doubling."""
    sums = np.zeros(1)
    for value in array:
        sums = np.concatenate((sums + value, sums - value))
    return sums
