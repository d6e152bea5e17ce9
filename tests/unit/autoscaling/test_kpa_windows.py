"""Bucketed averages: Knative's own fixtures (aggregation/bucketing_test.go), and what must always hold."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.autoscaling.kpa.windows import Buckets


def test_average_of_a_window_through_gaps_and_late_values():
    buckets, now = Buckets(5), 100.2
    buckets.record(now, 1)
    assert buckets.average(now) == 1  # a window that is not full divides by what is known
    for second in range(1, 5):
        buckets.record(now + second, second + 1)
    assert buckets.average(now + 4) == 15 / 5
    assert buckets.average(now + 3.6) == 15 / 5  # a question that lags behind
    assert buckets.average(now + 6) == (15 - 1 - 2) / (5 - 2)
    assert buckets.average(now + 10) == 0
    buckets.record(now + 6, 91)
    assert buckets.average(now + 6) == (15 - 1 - 2 + 91) / 5

    now += 60
    buckets.record(now, 1984)
    assert buckets.average(now) == 1984
    buckets.record(now - 3, 4)
    assert buckets.average(now) == (4 + 1984) / 4
    now += 1
    buckets.record(now, 5)
    assert buckets.average(now) == (4 + 1984 + 5) / 5
    buckets.record(now - 3, 10)
    too_early = (now - 6, now - 5)
    for at in too_early:
        buckets.record(at, 10)
    assert buckets.average(now) == math.floor((4 + 10 + 1984 + 5) / 5 * 1e6) / 1e6
    buckets.record(now + 5, 10)
    assert buckets.average(now + 5) == 10  # a window without a value starts afresh


def test_weighted_average():
    buckets, now = Buckets(5, weighted=True), 50.0
    m = 1 - (1 - 0.9999) ** (1 / 5)
    buckets.record(now, 2)
    assert buckets.average(now) == pytest.approx(2 * m)
    assert buckets.average(now + 1) == pytest.approx(2 * m * (1 - m))
    buckets.record(now + 1, 2)
    assert buckets.average(now + 1) == pytest.approx(2 * m * (1 - m) + 2 * m)
    for second in range(2, 7):
        buckets.record(now + second, second)
    expected = sum(value * m * (1 - m) ** age for age, value in enumerate((6, 5, 4, 3, 2)))
    assert buckets.average(now + 6) == pytest.approx(expected)
    assert buckets.average(now + 16) == 0


def test_worked_example_of_pull_request_8106():
    """Data 1000, 0, 0, 0, 0, 1000: 333.33 over 6 s, 200 over 5 s."""
    stable, panic = Buckets(6), Buckets(5)
    for second, value in enumerate((1000, 0, 0, 0, 0, 1000)):
        stable.record(second, value)
        panic.record(second, value)
    assert stable.average(5) == pytest.approx(333.333333)
    assert panic.average(5) == 200


def test_values_of_a_second_are_added():
    """A pod and the activator report the same second."""
    buckets = Buckets(60)
    buckets.record(7.0, 1)
    buckets.record(7.9, 10)
    assert buckets.average(7.95) == 11


def test_empty_until_a_value_and_after_a_window():
    buckets = Buckets(6)
    assert buckets.empty(0)
    buckets.record(10, 0)
    assert not buckets.empty(16)
    assert buckets.empty(17)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.floats(0, 1000)), min_size=1),
    st.integers(1, 10),
    st.booleans(),
)
def test_an_average_never_exceeds_the_largest_second(values, window, weighted):
    buckets = Buckets(window, weighted=weighted)
    sums: dict[int, float] = {}
    for at, value in sorted(values, key=lambda one: one[0]):
        buckets.record(at, value)
        sums[at] = sums.get(at, 0) + value
    assert 0 <= buckets.average(max(sums)) <= max(sums.values()) + 1e-6


@given(st.floats(0.5, 100), st.integers(1, 30), st.integers(1, 100))
def test_constant_load_is_its_own_average(value, window, seconds):
    buckets = Buckets(window)
    for second in range(seconds):
        buckets.record(second, value)
    assert buckets.average(seconds - 1) == pytest.approx(value, abs=2e-6)
