"""Intervals against published values, scipy and exact coverage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from towtank.analysis.intervals import (
    bootstrap_interval,
    mean_interval,
    median_interval,
    median_ranks,
    share_interval,
)

# Student (1908), Biometrika 6, p. 20: hours of sleep gained; R's data set `sleep`.
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_paired_t_interval_of_students_sleep_data():
    """R: t.test(extra ~ group, paired = TRUE) gives −2.4598858, −0.7001142."""
    found = mean_interval(np.subtract(FIRST, SECOND), confidence=0.95)
    assert (found.low, found.high) == (
        pytest.approx(-2.4598858, abs=1e-7),
        pytest.approx(-0.7001142, abs=1e-7),
    )


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.floats(0.5, 0.999))
def test_mean_interval_is_scipys(values, confidence):
    found = mean_interval(values, confidence=confidence)
    if found is None:
        assert np.ptp(values) <= 1e-12 * max(1, np.max(np.abs(values)))
        return
    expected = stats.t.interval(confidence, len(values) - 1, np.mean(values), stats.sem(values))
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_no_interval_without_variation_or_with_one_value():
    assert mean_interval([2.0, 2.0, 2.0], confidence=0.95) is None
    assert mean_interval([2.0], confidence=0.95) is None
    assert mean_interval([], confidence=0.95) is None


def test_sd_and_df_belong_together():
    with pytest.raises(ValueError, match="belong together"):
        mean_interval([1, 2], confidence=0.95, sd=1.0)


@pytest.mark.parametrize(
    ("n", "ranks", "coverage"),
    [
        (50, (18, 33), 0.9672),
        (100, (40, 61), 0.9648),
        (6, (1, 6), 0.96875),
        (8, (1, 8), 0.9922),
        (9, (2, 8), 0.9609),
    ],
)
def test_median_ranks_are_one_based(n, ranks, coverage):
    """A known slip takes 1-based ranks into a 0-based list: 19 and 34 of 50, and beyond the end for n ≤ 10."""
    first, last, found = median_ranks(n, confidence=0.95)
    assert (first, last) == ranks
    assert found == pytest.approx(coverage, abs=5e-5)


def test_median_interval_takes_these_order_statistics():
    found = median_interval(np.arange(1, 51)[::-1], confidence=0.95)
    assert (found.low, found.high) == (18, 33)


@pytest.mark.parametrize("n", range(6))
def test_up_to_five_values_have_no_95_percent_interval_of_the_median(n):
    assert median_ranks(n, confidence=0.95) is None
    assert median_interval(np.arange(n), confidence=0.95) is None


@given(st.integers(6, 300), st.sampled_from([0.9, 0.95, 0.975, 0.99]))
def test_median_ranks_are_the_narrowest_that_cover(n, confidence):
    found = median_ranks(n, confidence=confidence)
    if found is None:
        assert 1 - 2 * 0.5**n < confidence
        return
    first, last, coverage = found
    covered = stats.binom.cdf(last - 1, n, 0.5) - stats.binom.cdf(first - 1, n, 0.5)
    assert coverage == pytest.approx(covered)
    assert covered >= confidence - 1e-12
    narrower = stats.binom.cdf(last - 2, n, 0.5) - stats.binom.cdf(first, n, 0.5)
    assert narrower < confidence


def test_median_interval_of_censored_values_is_one_sided():
    values = [1, 2, 3, 4, 5, 6, math.inf, math.inf]
    found = median_interval(values, confidence=0.95)
    assert found.low == 1
    assert math.isinf(found.high)


def test_shares_are_clopper_pearson():
    none = share_interval(0, 8, confidence=0.95)
    assert none.low == 0
    assert none.high == pytest.approx(1 - 0.025 ** (1 / 8))  # the closed form at 0 hits
    assert share_interval(0, 0, confidence=0.95) is None


def test_bootstrap_needs_twenty_values(rng):
    assert bootstrap_interval(np.arange(19), confidence=0.95, rng=rng) is None
    assert bootstrap_interval(np.ones(30), confidence=0.95, rng=rng) is None
    values = np.random.default_rng(3).normal(10, 1, 40)
    found = bootstrap_interval(values, confidence=0.95, rng=rng)
    t = mean_interval(values, confidence=0.95)
    assert (found.low, found.high) == pytest.approx((t.low, t.high), abs=0.12)


def test_bootstrap_follows_skewness(rng):
    values = np.exp(np.random.default_rng(5).normal(0, 1.2, 60))
    found, t = bootstrap_interval(values, confidence=0.95, rng=rng), mean_interval(values, confidence=0.95)
    assert found.high - values.mean() > values.mean() - found.low  # longer to the right
    assert found.high > t.high


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1])
def test_confidence_outside_0_1_is_refused(confidence):
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_interval([1, 2], confidence=confidence)


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        mean_interval([1, math.inf], confidence=0.95)
