"""Percentiles from value → count tables are those of the requests one by one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.analysis import Distribution, merge

VALUES = st.lists(st.integers(0, 10**9), min_size=1, max_size=60)
PERCENTILE = st.one_of(st.sampled_from([0, 50, 90, 95, 99, 99.9, 100]), st.floats(0, 100))


def counted(values: list[int], failures: int = 0) -> Distribution:
    found = np.unique(values, return_counts=True)
    return Distribution.of(*found, failures=failures)


@given(VALUES, PERCENTILE)
def test_percentile_is_numpys_of_the_expanded_values(values, percentile):
    expected = float(np.percentile(values, percentile)) * 1e-6
    assert counted(values).percentile(percentile) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@given(VALUES, st.integers(0, 60), st.integers(0, 10_000).map(lambda p: p / 100))
def test_failures_rank_above_every_success(values, failures, percentile):
    """Against a reference that puts failures at the end of the sorted list and never interpolates into them."""
    ordered = [*sorted(values), *[math.inf] * failures]
    position = percentile / 100 * (len(ordered) - 1)
    lower = math.floor(position + 1e-9)
    found = counted(values, failures).percentile(percentile)
    if abs(position - round(position)) < 1e-9:
        expected = ordered[round(position)]
    elif math.isinf(ordered[lower + 1]):
        expected = math.inf
    else:
        share = position - lower
        expected = ordered[lower] + share * (ordered[lower + 1] - ordered[lower])
    assert found == pytest.approx(expected * 1e-6, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    ("percentile", "above"),
    [
        (89, False),
        (90, True),
        (95, True),
    ],  # n = 100, 10 failures: rank 89.1 lies between success 90 and failure 1
)
def test_where_it_falls_between_last_success_and_first_failure_it_is_above(percentile, above):
    quantity = counted(list(range(1, 91)), failures=10).quantity(percentile, limit_s=5.0)
    assert quantity.above is above
    if above:
        assert quantity.value == 5.0
        assert "10 of 100 requests failed" in quantity.reason


def test_a_percentile_exactly_on_the_slowest_success_is_a_value():
    # n = 101: p95 is order statistic 95 exactly; 5 failures leave successes 0 … 95.
    assert counted(list(range(96)), failures=5).percentile(95) == pytest.approx(95e-6)


def test_nothing_is_none_and_only_failures_are_above():
    assert Distribution.of([]).percentile(50) is None
    assert Distribution.of([]).quantity(50, limit_s=1).value is None
    assert Distribution.of([], failures=3).quantity(50, limit_s=1).above
    assert Distribution.of([], failures=3).mean() is None


@given(st.lists(VALUES, min_size=1, max_size=4), st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_merging_is_pooling(parts, failures):
    merged = merge(counted(part, f) for part, f in zip(parts, failures, strict=False))
    pooled = counted([v for part in parts for v in part], sum(failures[: len(parts)]))
    assert np.array_equal(merged.values, pooled.values)
    assert np.array_equal(merged.counts, pooled.counts)
    assert merged.failures == pooled.failures


@given(VALUES)
def test_mean_is_of_successes(values):
    assert counted(values, failures=7).mean() == pytest.approx(np.mean(values) * 1e-6)


@pytest.mark.parametrize("percentile", [-1, 100.1, math.nan])
def test_impossible_percentiles_are_refused(percentile):
    with pytest.raises(ValueError, match="percentile"):
        counted([1]).percentile(percentile)


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="negative"):
        Distribution.of([1], [-1])
    with pytest.raises(ValueError, match="each value needs its count"):
        Distribution.of([1, 2], [1])
