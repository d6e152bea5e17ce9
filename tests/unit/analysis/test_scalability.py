"""The Universal Scalability Law: coefficients that are known are found, and what it cannot say is said."""

import math

import numpy as np
import pytest

from towtank.analysis.scalability import CannotFitError, fit_scalability

N = np.array([1, 2, 4, 8, 16, 32, 48, 64], dtype=float)


def law(n, rate, contention, crosstalk):
    return rate * n / (1 + contention * (n - 1) + crosstalk * n * (n - 1))


def test_exact_data_give_the_coefficients_back():
    found = fit_scalability(N, law(N, 1000, 0.02, 0.0005))
    assert found.rate.value == pytest.approx(1000, rel=1e-4)
    assert found.contention.value == pytest.approx(0.02, rel=1e-3)
    assert found.crosstalk.value == pytest.approx(0.0005, rel=1e-3)
    assert found.peak_at == pytest.approx(math.sqrt(0.98 / 0.0005), rel=1e-3)
    assert found.throughput(N) == pytest.approx(law(N, 1000, 0.02, 0.0005), rel=1e-4)
    assert [one for one in found.cautions if "extrapolation" in one] == [
        "above 64 the curve is an extrapolation"
    ]


def test_without_crosstalk_no_peak_is_claimed():
    rng = np.random.default_rng(2)
    found = fit_scalability(N, law(N, 500, 0.1, 0.0) * np.exp(rng.normal(0, 0.02, N.size)))
    assert found.crosstalk.low == 0
    assert found.peak_at is None
    assert any("nothing is said about a peak" in one for one in found.cautions)


def test_a_peak_that_was_not_seen_is_called_an_extrapolation():
    n = np.arange(1.0, 9.0)
    found = fit_scalability(n, law(n, 1000, 0.02, 0.002))
    assert found.peak_at == pytest.approx(math.sqrt(0.98 / 0.002), rel=1e-3)
    assert any("beyond the highest level" in one for one in found.cautions)


def test_few_levels_and_a_short_span_are_cautions():
    n = np.array([10.0, 12, 15, 20])
    found = fit_scalability(n, law(n, 1000, 0.02, 0.002))
    assert any("4 levels are few" in one for one in found.cautions)
    assert any("factor of 2 only" in one for one in found.cautions)


@pytest.mark.parametrize(
    ("levels", "throughputs", "words"),
    [
        ([1, 2, 3, 3], [1, 2, 3, 3], "3 different levels"),
        ([0, 2, 3, 4], [1, 2, 3, 4], "begin at 1"),
        ([1, 2, 3, 4], [1, 2, 3, 0], "above 0"),
    ],
)
def test_what_cannot_be_fitted_is_refused(levels, throughputs, words):
    with pytest.raises(CannotFitError, match=words):
        fit_scalability(levels, throughputs)


def test_levels_without_their_throughput_are_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="each run") as raised:
        fit_scalability([1, 2, 3, 4], [1, 2, 3])
    assert not isinstance(raised.value, CannotFitError)
