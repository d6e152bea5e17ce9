"""Tests of independent samples, against R and scipy, and where scipy gives nan."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from towtank.analysis import independent

FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
# Brunner and Munzel (2000), pain scores after surgery; W = 3.1374674823 in R's brunnermunzel and in scipy.
PAIN_Y = [1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 1, 1]
PAIN_N = [3, 3, 4, 3, 1, 2, 3, 1, 1, 5, 4]


def test_welch_of_students_sleep_data():
    """R: t.test(extra ~ group): p-value = 0.07939, −3.3654832 to 0.2054832."""
    p, interval = independent.welch(FIRST, SECOND, confidence=0.95)
    assert p == pytest.approx(0.07939, abs=5e-6)
    assert (interval.low, interval.high) == pytest.approx((-3.3654832, 0.2054832), abs=1e-7)


def test_brunner_munzel_statistic_is_the_published_one():
    a, b = independent._ranks(PAIN_Y, PAIN_N)
    pooled = np.concatenate((a, b))
    found = independent._brunner_munzel_statistics(pooled, np.arange(len(PAIN_Y))[None, :])
    assert found[0] == pytest.approx(3.1374674823)


def test_brunner_munzel_by_permutation_is_near_the_t_approximation(rng):
    found = independent.brunner_munzel(PAIN_Y, PAIN_N, rng=rng)
    assert 0.002 < found < 0.02  # the approximation gives 0.0058


def test_complete_separation_is_the_most_extreme_split(rng):
    """scipy gives nan here."""
    assert independent.brunner_munzel([1, 2, 3, 4], [5, 6, 7, 8], rng=rng) == pytest.approx(2 / 70)
    assert independent.mann_whitney([1, 2, 3, 4], [5, 6, 7, 8]) == pytest.approx(2 / 70)


def test_failures_are_ranks_above(rng):
    a, b = [1.0, 2.0, 3.0, 4.0, 5.0], [math.inf] * 5
    assert independent.brunner_munzel(a, b, rng=rng) == pytest.approx(2 / 252)
    assert independent.superiority(a, b) == 1.0


def test_all_equal_says_nothing(rng):
    assert independent.brunner_munzel([1, 1, 1], [1, 1, 1], rng=rng) == 1.0
    assert independent.mann_whitney([math.inf] * 3, [math.inf] * 3) == 1.0
    assert independent.welch([1, 1], [1, 1], confidence=0.95) is None


def test_too_few(rng):
    assert independent.brunner_munzel([1], [2, 3], rng=rng) is None
    assert independent.mann_whitney([], [2, 3]) is None
    assert independent.welch([1], [2, 3], confidence=0.95) is None


def test_nan_is_refused(rng):
    with pytest.raises(ValueError, match="nan"):
        independent.mann_whitney([math.nan], [1])


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 20), min_size=4, max_size=12),
    st.lists(st.integers(0, 20), min_size=4, max_size=12),
)
def test_brunner_munzel_statistic_is_scipys(a, b):
    first, second = independent._ranks(a, b)
    found = independent._brunner_munzel_statistics(
        np.concatenate((first, second)), np.arange(len(a))[None, :]
    )[0]
    with np.errstate(all="ignore"):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = stats.brunnermunzel(a, b).statistic
    if np.isfinite(expected):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    else:
        assert np.isinf(found) or found == 0


def test_monte_carlo_agrees_with_all_splits(rng, monkeypatch):
    a, b = rng.normal(0, 1, 7), rng.normal(1, 2, 7)
    exact = independent.brunner_munzel(a, b, rng=rng)
    monkeypatch.setattr(independent, "EXACT_SPLITS", 10)
    assert independent.brunner_munzel(a, b, rng=rng) == pytest.approx(exact, abs=0.02)


@given(
    st.lists(st.floats(-100, 100), min_size=2, max_size=12),
    st.lists(st.floats(-100, 100), min_size=2, max_size=12),
)
def test_welch_is_scipys(a, b):
    found = independent.welch(a, b, confidence=0.9)
    if min(np.ptp(a), np.ptp(b)) < 1e-6:
        return
    expected = stats.ttest_ind(a, b, equal_var=False)
    bounds = expected.confidence_interval(0.9)
    assert found[0] == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    assert (found[1].low, found[1].high) == pytest.approx((bounds.low, bounds.high), rel=1e-6, abs=1e-9)


def test_one_side_without_variation_is_one_sample():
    p, interval = independent.welch([1.0, 2.0, 4.0], [4.09434456] * 6, confidence=0.95)
    assert p == pytest.approx(stats.ttest_1samp([1.0, 2.0, 4.0], 4.09434456).pvalue)
    assert interval.low < 7 / 3 - 4.09434456 < interval.high
