"""Supply against demand: the published fixture, corner cases, and how long scaling takes."""

import math

import pytest

from towtank.analysis.elasticity import adaptations, elasticity
from towtank.analysis.elasticity import elastic_speedup as speedup_of
from towtank.analysis.step_function import StepFunction

# BUNGEE, AbstractMetricTest.java
DEMAND = {0: 1, 7: 5, 16: 3, 17: 2, 19: 4}
SUPPLY = {0: 1, 2: 2, 3: 1, 5: 3, 9: 7, 11: 6, 12: 8, 14: 2, 20: 2}


@pytest.fixture
def bungee():
    return elasticity(StepFunction.of(DEMAND, 20), StepFunction.of(SUPPLY, 20))


def elastic_speedup(without, scaled):
    return speedup_of(vars(without), vars(scaled))


def test_the_fixture_of_bungee(bungee):
    assert bungee.accuracy_under == pytest.approx(13 / 20, rel=1e-12)
    assert bungee.accuracy_over == pytest.approx(16 / 20, rel=1e-12)
    assert bungee.timeshare_under == pytest.approx(6 / 20, rel=1e-12)
    assert bungee.timeshare_over == pytest.approx(8 / 20, rel=1e-12)
    assert bungee.jitter_per_min == pytest.approx(60 * (17 - 9) / 20, rel=1e-12)


def test_the_fixture_normalised(bungee):
    assert 100 * bungee.accuracy_under_ratio == pytest.approx(14.1667, abs=5e-5)
    assert 100 * bungee.accuracy_over_ratio == pytest.approx(36.0, abs=1e-9)


def test_instability_counts_seconds_in_which_only_one_moves_or_both_apart(bungee):
    # supply moves at 2 3 5 9 11 12 14, demand at 7 16 17 19; never both: 11 of the 19 steps of the grid
    assert bungee.instability == pytest.approx(11 / 19)
    together_ = StepFunction.of({0: 1, 3: 2, 6: 1}, 10)
    assert elasticity(together_, together_).instability == 0


def test_only_the_time_that_both_cover_counts():
    found = elasticity(StepFunction.of({0: 2}, 10), StepFunction.of({4: 1, 6: 2}, 12))
    assert found.duration_s == 6
    assert found.timeshare_under == pytest.approx(2 / 6)
    assert found.jitter_per_min == pytest.approx(60 / 6)


def test_where_nothing_is_in_demand_an_instance_is_a_whole_one_too_many():
    found = elasticity(StepFunction.of({0: 0}, 10), StepFunction.of({0: 2, 5: 0}, 10))
    assert (found.accuracy_over_ratio, found.accuracy_under_ratio) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("demand", "supply", "words"),
    [
        ({0: math.nan, 5: 1}, {0: 1}, "not known for 5 s"),
        ({0: -1}, {0: 1}, "negative"),
        ({0: 1}, {10: 1}, "no time in common"),
    ],
)
def test_what_cannot_be_compared_is_said(demand, supply, words):
    with pytest.raises(ValueError, match=words):
        elasticity(StepFunction.of(demand, 10), StepFunction.of(supply, 20))


def test_a_step_function_that_is_none_is_refused():
    with pytest.raises(ValueError, match="one is the least"):
        StepFunction.of({5: 1}, 5)


def test_speedup_is_the_geometric_mean_and_zero_by_zero_is_one():
    demand = StepFunction.of({0: 2, 10: 4}, 20)
    fixed = elasticity(demand, StepFunction.of({0: 2}, 20))  # 2 missing for 10 s, never too many
    slow = elasticity(demand, StepFunction.of({0: 2, 15: 4}, 20))  # the same for 5 s
    assert elastic_speedup(fixed, slow).value == pytest.approx((2 * 1 * 2 * 1) ** 0.25)
    assert elastic_speedup(slow, slow).value == 1
    perfect = elasticity(demand, demand)
    assert elastic_speedup(perfect, perfect).value == 1


def test_a_speedup_without_a_value_says_why():
    demand = StepFunction.of({0: 2, 10: 4}, 20)
    fixed, perfect = elasticity(demand, StepFunction.of({0: 2}, 20)), elasticity(demand, demand)
    found = elastic_speedup(fixed, perfect)
    assert found.value is None
    assert "missing" in found.reason
    eager = elasticity(demand, StepFunction.of({0: 2, 11: 5}, 20))  # also too many, which fixed never was
    assert elastic_speedup(fixed, eager).value == 0
    assert "too many" in elastic_speedup(fixed, eager).reason


def test_times_to_scale_up_and_down():
    demand = StepFunction.of({0: 1, 10: 3, 40: 1, 60: 4}, 70)
    supply = StepFunction.of({0: 1, 14: 2, 17: 3, 55: 2, 58: 1, 65: 2}, 70)
    up, down, late = adaptations(demand, supply)
    assert (up.is_up, up.took_s) == (True, 7)
    assert (down.is_up, down.took_s) == (False, 18)
    assert (late.took_s, late.watched_s) == (None, 10)


def test_supply_that_is_there_already_took_no_time():
    (found,) = adaptations(StepFunction.of({0: 1, 10: 3}, 20), StepFunction.of({0: 5}, 20))
    assert found.took_s == 0
