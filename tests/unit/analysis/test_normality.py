"""Normality tests against published values and scipy's; corner cases have words, not numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from towtank.analysis.normality import anderson_darling, judge, lilliefors, shapiro_wilk

MEN = [148, 154, 158, 160, 161, 162, 166, 170, 182, 195, 236.0]
"""Weights of eleven men in pounds: Shapiro and Wilk (1965), Biometrika 52, example; W = 0.79, p < 0.01."""


def test_shapiro_wilk_on_its_own_first_example():
    found = shapiro_wilk(np.array(MEN))
    assert found.statistic == pytest.approx(0.79, abs=0.005)
    assert found.p == pytest.approx(0.0067, abs=0.0005)  # R 4: shapiro.test gives 0.006704


def test_lilliefors_rejects_where_plain_kolmogorov_smirnov_does_not():
    """The right null: with estimated parameters the plain p-value is far too large."""
    values = np.array(MEN)
    found = lilliefors(values)
    z = (values - values.mean()) / values.std(ddof=1)
    plain = stats.kstest(z, "norm")
    assert found.statistic == pytest.approx(plain.statistic, rel=1e-9)
    assert found.p < 0.1 < plain.pvalue


def test_lilliefors_critical_values():
    """D at n = 20 is above 0.190 in 5 % of normal samples (Lilliefors 1967, as corrected: 0.192)."""
    rng = np.random.default_rng(5)
    found = [lilliefors(rng.normal(size=20)) for _ in range(400)]
    over = np.mean([f.statistic > 0.192 for f in found])
    assert 0.02 < over < 0.085
    rejected = np.mean([f.p < 0.05 for f in found])
    assert abs(rejected - over) < 0.02


def test_anderson_darling_has_the_statistic_of_scipy():
    values = np.random.default_rng(3).gamma(2, size=30)
    found = anderson_darling(values)
    z = np.sort((values - values.mean()) / values.std(ddof=1))
    i = np.arange(1, 31)
    a2 = -30 - np.mean((2 * i - 1) * (stats.norm.logcdf(z) + stats.norm.logsf(z[::-1])))
    assert found.statistic == pytest.approx(a2, rel=1e-9)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([], "too few runs"), ([1.0], "too few runs"), ([1.0, 2.0], "too few runs"), ([3.0] * 12, "constant"),
        ([0.0] * 5, "constant"), (list(stats.norm.ppf((np.arange(25) + 0.5) / 25)), "nothing against it"),
        (list(np.random.default_rng(1).lognormal(0, 1.5, size=25)), "not normal"),
    ],
)  # fmt: skip
def test_words(values, word):
    tests, found, reason = judge(values, alpha=0.05)
    assert found == word
    if word in ("constant", "too few runs"):
        assert reason
        assert all(test.p is None for test in tests.values())


def test_small_samples_have_the_tests_that_are_defined_for_them():
    tests, word, reason = judge([1.0, 2.0, 4.0], alpha=0.05)
    assert [name for name, test in tests.items() if test.p is not None] == ["shapiro_wilk"]
    assert word == "nothing against it"
    assert "3 runs show only gross departures" in reason
    tests, *_ = judge([1.0, 2.0, 4.0, 5.5, 8.0, 9.0, 11.0, 15.0], alpha=0.05)
    assert all(test.p is not None for test in tests.values())


def test_two_values_far_apart_are_no_reason_to_fail():
    tests, word, _ = judge([1.0] * 9 + [1e9], alpha=0.05)
    assert word == "not normal"
    assert all(0 <= test.p <= 1 for test in tests.values())
    assert tests["lilliefors"].bound == "≤"
