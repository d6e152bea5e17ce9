"""Where latency turns while a load rises within a run."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from support.plans import make_plan
from towtank.analysis.model import RunSummary
from towtank.analysis.ramp_turns import ramp_turns
from towtank.design.model import OpenLoad


def ramped(**stages):
    """A plan whose load rises from 0 to 200 in 100 s."""
    plan = make_plan(("gke",), blocks=3, answered=False)
    load = OpenLoad.model_validate({"model": "open", "stages": [stages or {"rate": 200, "ramp": "100s"}]})
    (one,) = plan.treatments
    workload = one.spec.workload.model_copy(update={"load": load})
    return replace(plan, treatments=(replace(one, spec=one.spec.model_copy(update={"workload": workload})),))


def summary(number):
    return RunSummary(
        run_id=f"r{number}", treatment_id="gke", block=number, position=1, attempt=1, instrument="valid",
        system="intact", reasons=(), values={}, outcomes={}, statuses={}, instances={}, window_s=100.0, due=10,
    )  # fmt: skip


def bins(turns_at, number, rng):
    load = 2 * np.arange(100) + 1
    p95 = 0.05 * np.exp(0.03 * np.maximum(0, load - turns_at)) * rng.lognormal(0, 0.05, 100)
    return pd.DataFrame({
        "treatment_id": "gke", "run_id": f"r{number}", "t_s": np.arange(100.0), "bin_s": 1.0, "due": load,
        "p95_s": np.where(p95 < 1.5, p95, np.nan),
    })  # fmt: skip


def found(places, plan=None):
    rng = np.random.default_rng(4)
    series = pd.concat([bins(place, number, rng) for number, place in enumerate(places)])
    runs = {"gke": [summary(number) for number in range(len(places))]}
    return ramp_turns(plan or ramped(), runs, series, confidence=0.95)


def test_the_places_of_the_runs_have_a_mean_with_its_interval():
    (curve,) = found([110, 120, 130])
    assert curve.turning.low < 120 < curve.turning.high
    assert curve.turning.high - curve.turning.low > 30, (
        "runs lie 10 apart: the bins of one know nothing of that"
    )
    assert "in 3 of 3 runs" in curve.turning.reason
    assert (curve.unit, curve.left_out) == ("bins", 0)
    assert curve.family.label == "gke"


def test_where_most_runs_do_not_turn_there_is_no_place():
    (curve,) = found([120, 900, 900])
    assert curve.turning.at is None
    assert "it turns in 1 of 3 runs only" in curve.turning.reason


def test_one_run_says_that_it_is_one():
    (curve,) = found([120])
    assert curve.turning.at == pytest.approx(120, rel=0.1)
    assert "not independent" in curve.turning.reason


def test_bins_among_failures_are_counted():
    (curve,) = found([60, 62, 64])
    assert curve.left_out > 10


def test_a_load_that_does_not_rise_is_not_looked_at():
    assert found([120, 120], plan=ramped(rate=50, hold="100s")) == ()
    assert found([120, 120], plan=make_plan(("gke",), answered=False)) == ()
