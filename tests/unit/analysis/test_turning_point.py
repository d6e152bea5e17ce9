"""Loads at which a response turns are found with their interval; where there is none, that is said."""

import numpy as np
import pytest

from towtank.analysis.turning_point import turning_point

LOADS = np.repeat(np.arange(400.0, 4001, 400), 5)


def latencies(rng, turns_at, bend=0.002, noise=0.05):
    return np.exp(
        -3 + 1e-5 * LOADS + bend * np.maximum(LOADS - turns_at, 0) + rng.normal(0, noise, LOADS.size)
    )


def test_a_turning_point_is_found_with_its_interval():
    found = turning_point(LOADS, latencies(np.random.default_rng(1), 2000), rng=np.random.default_rng(2))
    assert found.low <= 2000 <= found.high
    assert found.at == pytest.approx(2000, rel=0.05)
    assert found.high - found.low < 400
    assert found.slope_after - found.slope_before == pytest.approx(0.002, rel=0.1)
    assert (found.p, found.reason) == (0.001, "")


def test_intervals_hold_the_place_and_lines_that_do_not_turn_are_rarely_said_to():
    rng = np.random.default_rng(3)
    right = wrong = 0
    rounds = 60
    for _ in range(rounds):
        found = turning_point(LOADS, latencies(rng, 2500), rng=rng, resamples=99)
        right += found.at is not None and found.low <= 2500 <= found.high
        wrong += turning_point(LOADS, latencies(rng, 9999), rng=rng, resamples=99).at is not None
    assert right >= 51  # 95 % less three standard errors
    assert wrong <= 9  # 5 % and as many


def test_without_a_turn_that_is_the_answer():
    found = turning_point(LOADS, latencies(np.random.default_rng(1), 9999), rng=np.random.default_rng(2))
    assert found.at is None
    assert "no turning point was shown" in found.reason
    straight = turning_point(LOADS, np.exp(LOADS / 1000), rng=np.random.default_rng(2))
    assert "fits exactly" in straight.reason


def test_a_bend_that_could_be_anywhere_has_no_place():
    """Latency that rises ever more steeply has no single load from which on it does."""
    rng = np.random.default_rng(0)
    bent = np.exp(-3 + 6e-8 * LOADS**2 + rng.normal(0, 0.25, LOADS.size))
    found = turning_point(LOADS, bent, rng=np.random.default_rng(2))
    assert (found.at, found.low, found.high) == (None, None, None)
    assert found.p <= 0.05
    assert "no single load can be named" in found.reason


def test_two_exact_lines_turn_where_they_meet():
    found = turning_point(LOADS, np.maximum(LOADS, 2200), rng=np.random.default_rng(2), log=False)
    assert found.at == pytest.approx(2200, abs=20)


@pytest.mark.parametrize("loads", [[1, 2, 3, 4], [1, 1, 2, 2, 3, 3, 4, 4], [1, 2, 3, 4, 5]])
def test_too_few_loads_say_so(loads):
    found = turning_point(loads, np.ones(len(loads)), rng=np.random.default_rng(2))
    assert found.at is None
    assert f"{len(loads)} runs at {len(set(loads))} loads are too few" in found.reason


def test_what_has_no_logarithm_is_refused():
    with pytest.raises(ValueError, match="no logarithm"):
        turning_point([1, 2], [0, 1], rng=np.random.default_rng(2))
