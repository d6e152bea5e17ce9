"""Changes of level in short series: found where they are, seldom where there are none, whatever the values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from towtank.analysis.change_points import LEAST, change_points, fewest


def found(values, *, level=0.05, seed=1, **options):
    return change_points(values, level=level, rng=np.random.default_rng(seed), **options)


def test_changes_are_found_where_they_are():
    changes = found(three_levels(1))
    assert [change.index for change in changes] == [15, 30]
    assert all(change.p_value <= 0.01 for change in changes)


def three_levels(seed):
    values = np.random.default_rng(seed).normal(0, 1, 40)
    values[15:] += 5
    values[30:] += 5
    return values


def test_between_real_changes_others_are_seldom_seen():
    wrong = sum(len(found(three_levels(i), seed=i, permutations=399)) > 2 for i in range(300))
    assert wrong / 300 <= 0.05 + 3.3 * math.sqrt(0.05 * 0.95 / 300)


@pytest.mark.parametrize("draw", ["normal", "heavy", "skewed"])
@pytest.mark.parametrize("n", [8, 25])
def test_a_series_without_a_change_seldom_shows_one(n, draw):
    """5 % of 400 series, and 3.3 standard errors of such a share at most."""
    rng = np.random.default_rng(3)
    series = {
        "normal": lambda: rng.normal(size=n), "heavy": lambda: rng.standard_t(2, n),
        "skewed": lambda: rng.lognormal(0, 1.5, n),
    }[draw]  # fmt: skip
    wrong = sum(bool(found(series(), seed=i, permutations=199)) for i in range(400))
    assert wrong / 400 <= 0.05 + 3.3 * math.sqrt(0.05 * 0.95 / 400)


def test_the_p_value_is_the_share_of_orders_as_extreme():
    """Of the 70 orders of four low and four high values, two keep them apart."""
    [change] = found([1, 1, 1, 1, 2, 2, 2, 2], permutations=20_000)
    assert change.index == 4
    assert change.p_value == pytest.approx(2 / 70, rel=0.15)


def test_one_odd_value_is_no_level_and_neither_is_a_constant():
    values = np.random.default_rng(4).normal(0, 1, 30)
    values[12] += 40
    assert found(values) == ()
    assert found(np.ones(30)) == ()
    assert found([]) == ()


def test_a_change_is_seen_as_soon_as_enough_values_lie_behind_it():
    values = np.random.default_rng(5).normal(0, 1, 20)
    values[-LEAST:] += 6
    assert [change.index for change in found(values)] == [17]
    assert found(values[: -LEAST + 1]) == ()  # one of them is none


def test_infinite_values_are_ranked():
    values = [1.0, 1.1, 0.9, 1.05, 1.02, 0.97, *[math.inf] * 6]
    assert [change.index for change in found(values)] == [6]
    with pytest.raises(ValueError, match="gaps"):
        found([1.0, math.nan, 2.0])


def test_fewest_values_that_could_show_anything():
    assert [fewest(level) for level in (0.05, 0.025, 0.0125)] == [8, 9, 10]
    best = [0.0] * 4 + [1.0] * 4
    assert found(best, level=0.05)
    assert not found(best, level=0.025)


def test_the_same_seed_finds_the_same():
    values = np.random.default_rng(6).normal(0, 1, 20)
    values[9:] += 1.2
    assert found(values, level=1.0) == found(values, level=1.0)


def test_a_level_of_many_series_can_be_reached():
    """4,999 orders have no share below 1/5,000: at the level of 250 series and more, nothing would ever be found."""
    values = np.r_[np.zeros(20), np.full(20, 5.0)] + np.random.default_rng(2).normal(0, 0.1, 40)
    for level in (1e-4, 1e-5):
        assert fewest(level) <= 40
        [change] = found(values, level=level)
        assert change.index == 20
        assert change.p_value <= level
    assert fewest(1e-7) == 0
    assert found(values, level=1e-7) == ()
