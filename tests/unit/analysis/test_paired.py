"""Tests within blocks, against Student, Fisher and scipy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from towtank.analysis import paired

SLEEP = np.subtract(
    [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
    [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
)
# Darwin's maize, eighths of an inch, cross- minus self-fertilised (Fisher 1935, The Design of Experiments, §17).
DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]


def test_students_sleep_data():
    """R: t.test(…, paired = TRUE), p-value = 0.002833."""
    assert paired.t_test(SLEEP) == pytest.approx(0.002833, abs=5e-7)


def test_darwins_maize_by_fisher(rng):
    """Fisher (1935, §21): 863 of 32 768 sign patterns reach the observed sum on one side."""
    assert paired.sign_flip_test(DARWIN, rng=rng) == 2 * 863 / 32_768


def test_monte_carlo_agrees_with_all_patterns(rng, monkeypatch):
    exact = paired.sign_flip_test(DARWIN, rng=rng)
    monkeypatch.setattr(paired, "EXACT_UP_TO", 5)
    drawn = paired.sign_flip_test(DARWIN, rng=rng)
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact / 20_000))


def test_many_blocks_are_drawn_and_never_zero(rng):
    assert paired.sign_flip_test(np.full(40, 3.0), rng=rng) == pytest.approx(1 / 20_000)


@settings(max_examples=40)
@given(st.lists(st.integers(-100, 100).map(float), min_size=2, max_size=9))
def test_sign_flips_are_scipys_permutation_test(values):
    def mean(x, axis):
        return np.mean(x, axis=axis)

    expected = stats.permutation_test(
        (np.array(values),), mean, permutation_type="samples", vectorized=True, n_resamples=np.inf
    )
    found = paired.sign_flip_test(values, rng=np.random.default_rng(0))
    # scipy doubles the smaller tail; with all patterns both tails are mirror images
    assert found == pytest.approx(min(1.0, float(expected.pvalue)), abs=1e-12)


def test_smallest_p_of_eight_blocks(rng):
    assert paired.sign_flip_test(np.arange(1, 9), rng=rng) == 2 / 2**8


def test_nothing_and_no_variation(rng):
    assert paired.sign_flip_test([], rng=rng) is None
    assert paired.sign_flip_test([0, 0, 0], rng=rng) == 1.0
    assert paired.t_test([1.0]) is None
    assert paired.t_test([2.0, 2.0]) is None
    assert paired.sign_test([]) is None


@pytest.mark.parametrize(
    ("signs", "p"),
    [
        ([1] * 8, 2 / 256),
        ([1] * 7 + [-1], 18 / 256),
        ([1, -1], 1.0),
        ([0, 0], 1.0),
        ([1] * 6 + [0, 0], 2 / 64),
    ],
)
def test_sign_test_leaves_ties_out(signs, p):
    assert paired.sign_test(signs) == pytest.approx(p)


def test_permutation_p_is_uniform_under_the_null():
    """P(p ≤ α) never exceeds α, and comes close to it where 2ⁿ patterns allow."""
    rng = np.random.default_rng(11)
    ps = np.array([paired.sign_flip_test(rng.standard_t(3, 9), rng=rng) for _ in range(1500)])
    for alpha in (0.05, 0.1, 0.5):
        spread = 3.5 * np.sqrt(alpha * (1 - alpha) / ps.size)
        assert abs(np.mean(ps <= alpha) - np.floor(alpha * 256) / 256) < spread
