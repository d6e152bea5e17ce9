"""What is left of a campaign: repeats of spoiled attempts count, and runs that are given up are not done."""

from __future__ import annotations

import pytest

from towtank.campaign.time_left import AROUND_A_LOAD_S, Estimate


@pytest.fixture
def clock(monkeypatch):
    """Set the time of the next readings."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def attempt(estimate, clock, seconds, chances, *, usable, given_up=0):
    estimate.start(chances, given_up)
    clock[0] += seconds
    estimate.finish(usable=usable)


def test_before_the_first_attempt_it_is_the_plan():
    estimate = Estimate(total=10, done=4)
    assert estimate.left_s(8.0) == 6 * (8.0 + AROUND_A_LOAD_S)
    assert estimate.repeats == 0


def test_attempts_tell_how_long_one_takes(clock):
    estimate = Estimate(total=10, done=4)
    attempt(estimate, clock, 30.0, [3] * 6, usable=True)
    assert (estimate.done, estimate.given_up) == (5, 0)
    assert estimate.left_s(8.0) == 5 * 30.0
    attempt(estimate, clock, 10.0, [3] * 5, usable=True)
    assert estimate.left_s(8.0) == 4 * 20.0


def test_spoiled_attempts_are_expected_to_come_again(clock):
    """One of two attempts was spoiled; with the good one that is taken as seen, a third of them is."""
    estimate = Estimate(total=4)
    attempt(estimate, clock, 10.0, [3, 3, 3, 3], usable=True)
    attempt(estimate, clock, 10.0, [3, 3, 3], usable=False)
    assert estimate.done == 1
    assert estimate.chances == [2, 3, 3], "the spoiled run is still to be done"
    third = 1 / 3
    assert estimate.repeats == pytest.approx(third + 2 * (third + third**2))
    assert estimate.left_s(8.0) == pytest.approx(10.0 * (3 + estimate.repeats))


def test_a_run_without_another_attempt_is_given_up_and_not_done(clock):
    estimate = Estimate(total=2)
    attempt(estimate, clock, 10.0, [2, 2], usable=False)
    attempt(estimate, clock, 10.0, [1, 2], usable=False)
    assert (estimate.done, estimate.given_up) == (0, 1)
    assert estimate.chances == [2]
    attempt(estimate, clock, 10.0, [2], usable=True, given_up=1)
    assert (estimate.done, estimate.given_up) == (1, 1)
    assert estimate.left_s(8.0) == 0.0


def test_without_repeats_none_are_expected(clock):
    estimate = Estimate(total=3)
    attempt(estimate, clock, 10.0, [1, 1, 1], usable=False)
    assert estimate.repeats == 0
    assert estimate.left_s(8.0) == 20.0
