"""Intervals of the Universal Scalability Law hold the truth as often as they say."""

import math

import numpy as np
import pytest

from towtank.analysis.scalability import fit_scalability

pytestmark = pytest.mark.statistical
N = np.array([1, 2, 4, 8, 16, 32, 48, 64], dtype=float)


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(5)
    true, rounds = (1000, 0.05, 0.0008), 60
    n = np.repeat(N, 2)
    exact = true[0] * n / (1 + true[1] * (n - 1) + true[2] * n * (n - 1))
    hit = np.zeros(3)
    for _ in range(rounds):
        found = fit_scalability(n, exact * np.exp(rng.normal(0, 0.03, n.size)))
        hit += [
            one.low <= t <= one.high
            for one, t in zip((found.rate, found.contention, found.crosstalk), true, strict=True)
        ]
    assert hit.min() >= rounds * 0.95 - 3 * math.sqrt(rounds * 0.95 * 0.05)
