"""Replicas that a load demands: monotone, with bounds, never beyond what was measured."""

import math

import numpy as np
import pytest

from towtank.analysis.demand import Level, demand_curve, intended_load, judge
from towtank.analysis.step_function import StepFunction
from towtank.design.load_shape import Piece
from towtank.design.model import ClosedLoad, OpenLoad

WHOLE = (Level(1, 100, 105), Level(2, 190, 200), Level(3, 270, 285))


def test_demand_is_the_fewest_that_hold():
    curve = demand_curve(WHOLE)
    assert curve.demand([0, 1, 100, 101, 190, 270]).tolist() == [1, 1, 1, 2, 2, 3]
    assert np.isnan(curve.demand(270.5))
    assert demand_curve(WHOLE, least=0).demand([0, 1]).tolist() == [0, 1]


def test_between_holding_and_failing_demand_has_bounds():
    curve = demand_curve(WHOLE)
    loads = [99, 102, 105, 195]
    assert curve.at_least(loads).tolist() == [1, 1, 2, 2]
    assert curve.demand(loads).tolist() == [1, 2, 2, 3]
    assert curve.at_most(loads).tolist() == [1, 2, 2, 3]


def test_what_was_not_measured_is_interpolated_between_bounds_that_only_need_monotony():
    curve = demand_curve([Level(1, 100, 105), Level(4, 400, 420)])
    assert curve.holds.tolist() == pytest.approx([100, 200, 300, 400])
    load = 250
    assert (curve.at_least(load), curve.demand(load), curve.at_most(load)) == (2, 3, 4)


def test_contradictions_are_pooled_and_named():
    curve = demand_curve([Level(1, 100, 105), Level(2, 200, 210), Level(3, 180, 190), Level(4, 300, None)])
    assert curve.pooled == (2, 3)
    assert curve.holds[1] == pytest.approx(math.sqrt(200 * 180))
    assert bool(np.all(np.diff(curve.holds) >= 0))


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([], "measure 1"),
        ([Level(2, 10, 11)], "measure 1"),
        ([Level(1, 10, 11), Level(1, 10, 11)], "once"),
        ([Level(1, 10, 9)], "above the first"),
        ([Level(1, 0, 9)], "above 0"),
    ],
)
def test_a_calibration_that_is_none_is_refused(levels, words):
    with pytest.raises(ValueError, match=words):
        demand_curve(levels)


def test_intended_load_is_the_mean_of_each_second():
    ramp = OpenLoad.model_validate(
        {"model": "open", "start_rate": 0, "stages": [{"rate": 40, "ramp": "4s"}, {"rate": 10, "hold": "2s"}]}
    )
    assert intended_load(ramp).tolist() == pytest.approx([5, 15, 25, 35, 10, 10])
    users = ClosedLoad.model_validate({"model": "closed", "users": 7, "duration": "1500ms"})
    assert intended_load(users).tolist() == [7, 7]


def test_each_second_is_asked_of_few_pieces(monkeypatch):
    asked = []
    plain = Piece.area_to
    monkeypatch.setattr(
        Piece, "area_to", lambda piece, until_s: asked.append(until_s) or plain(piece, until_s)
    )
    stages = [{"rate": number % 7, "hold": "20s"} for number in range(100)]
    load = OpenLoad.model_validate({"model": "open", "stages": stages})
    assert intended_load(load).tolist() == pytest.approx(
        [number % 7 for number in range(100) for _ in range(20)]
    )
    assert len(asked) < 2 * 2000  # of every piece it would be 200,000: a week of minutes would never end


def test_a_run_is_judged_with_bounds_on_both_sides():
    loads = np.array([50.0] * 10 + [102.0] * 10)  # 102: one may do, two are shown to
    found = judge(demand_curve(WHOLE), loads, StepFunction.of({0: 1, 15: 2}, 20))
    assert found.found.timeshare_under == pytest.approx(5 / 20)
    assert (found.low.timeshare_under, found.low.timeshare_over) == (0, pytest.approx(5 / 20))
    assert found.high.timeshare_under == pytest.approx(5 / 20)
    assert found.found.timeshare_over == 0


def test_a_load_beyond_the_calibration_has_no_metric_and_says_so():
    found = judge(demand_curve(WHOLE), np.array([50.0, 500.0]), StepFunction.of({0: 1}, 2), start_s=0)
    assert found.found is None
    assert "500 at 1 s" in found.reason
    assert "3 replicas" in found.reason
