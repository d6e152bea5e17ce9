"""Elasticity of runs: counted pods against a calibration; without one, the figure and the reason."""

import dataclasses
import math
from types import SimpleNamespace

import pandas as pd
import pytest

from support.plans import make_plan
from support.run_tables import FakeRun, ReadOnce, Req
from towtank.analysis.pods import Pods
from towtank.analysis.run_values import run_values
from towtank.analysis.scaling import COLUMNS, compared, demanded, means, speedups, table, values_of
from towtank.analysis.supply import Supply, of_pods
from towtank.design.capacity_file import Demand
from towtank.design.model import OpenLoad
from towtank.store.run_record import Window

SLO = {"p95": 0.3}
WINDOW = Window(start_us=0, end_us=60_000_000, drained_us=60_000_000)


def spec(*, calibrated=True, slo=SLO):
    known = make_plan(("gke",), blocks=1, slo=SLO, answered=False).treatments[0].spec
    stages = [{"rate": 50, "hold": "20s"}, {"rate": 150, "hold": "20s"}, {"rate": 50, "hold": "20s"}]
    load = OpenLoad.model_validate({"model": "open", "stages": stages})
    levels = [{"replicas": 1, "holds": 100, "fails": 160}, {"replicas": 2, "holds": 190, "fails": 200}]
    demand = Demand.model_validate(
        {"calibration": "c.json", "deployment": "fixed", "model": "open", "slo": slo, "levels": levels}
    )
    workload = known.workload.model_copy(update={"load": load})
    return known.model_copy(update={"workload": workload, "demand": demand if calibrated else None})


def pods(ready, gaps=(), last=60):
    """Count pods each second."""
    times = range(last + 1)
    values = [float(ready(t)) for t in times]
    counts = pd.DataFrame({"t_us": [1_000_000 * t for t in times], "metric": "pods_ready", "value": values})
    return Pods(counts, {}, {}, gaps_us=gaps)


def late(t):
    return 2 if 26 <= t < 49 else 1


def judged(of=late, spec_=None, window=WINDOW, gaps=()):
    return compared(
        of_pods(pods(of, gaps), 60),
        window,
        demanded(spec_ or spec()),
        treatment_id="gke",
        run_id="b01-gke-a1",
    )


def value(found, metric):
    (row,) = table([found]).query(f"metric == '{metric}'").to_dict("records")
    return row


def test_a_run_is_measured_with_the_bounds_of_its_calibration():
    found = judged()
    under = value(found, "timeshare_under")
    assert under["value"] == pytest.approx(6 / 60)  # from 20 s to 26 s
    assert (under["low"], under["high"]) == (0, pytest.approx(6 / 60))  # one may carry 150, two surely do
    over = value(found, "timeshare_over")
    assert over["value"] == pytest.approx(9 / 60)  # from 40 s to 49 s
    assert (over["low"], over["high"]) == (pytest.approx(9 / 60), pytest.approx(23 / 60))
    assert value(found, "follow_up")["value"] == 6
    assert value(found, "follow_down")["value"] == 9


def test_supply_that_never_comes_has_no_time():
    found = judged(lambda t: 1)
    row = value(found, "follow_up")
    assert math.isnan(row["value"])
    assert row["reason"] == "its only change was not followed before the next, or the end"
    assert value(found, "follow_down")["value"] == 0


def test_the_warm_up_is_left_out():
    found = judged(window=Window(start_us=20_000_000, end_us=60_000_000, drained_us=60_000_000))
    assert found.judged.found.duration_s == 40
    assert value(found, "timeshare_under")["value"] == pytest.approx(6 / 40)


def test_without_a_calibration_there_is_the_figure_and_the_reason():
    found = judged(spec_=spec(calibrated=False))
    assert found.judged.found is None
    assert "no calibration" in value(found, "accuracy_under")["reason"]
    assert set(found.series["metric"]) == {"supply"}
    assert found.series["value"].tolist() == [1, 2, 1, 1]


@pytest.mark.parametrize(
    "supply", [lambda _t: 2, lambda t: 1 if 30 < t < 35 else 2], ids=["fixed", "one was replaced"]
)
def test_where_nothing_is_scaled_no_calibration_is_missed(supply):
    assert judged(supply, spec_=spec(calibrated=False)) is None


def test_a_calibration_for_other_objectives_says_nothing():
    assert "another question" in judged(spec_=spec(slo={"p95": 0.5})).judged.reason


def test_a_gap_in_the_observation_is_no_supply():
    gap = ((30_000_000, 33_000_000),)
    assert judged(gaps=gap).judged.reason == "there is a gap in the observation of pods"
    supply = of_pods(pods(late, gap), 60).steps
    assert math.isnan(supply.at(31.5))
    assert supply.at(34) == 2


def test_the_reason_of_a_mean_is_that_of_the_runs_without_a_value():
    rows = [("gke", "r1", "follow_up", 6.0, None, None, "1 of 3 changes were not followed before the next, or the end"),
            ("gke", "r2", "follow_up", None, None, None, "there is a gap in the observation of pods")]  # fmt: skip
    (row,) = means(pd.DataFrame(rows, columns=list(COLUMNS)), confidence=0.95).to_dict("records")
    assert (row["n"], row["runs"], row["reason"]) == (1, 2, "there is a gap in the observation of pods")


def test_counts_that_end_within_the_window_are_no_supply_of_all_of_it():
    supply = of_pods(pods(late, ((20_000_000, 63_000_000),), last=20), 60)
    assert math.isnan(supply.steps.at(40))
    found = compared(supply, WINDOW, demanded(spec()), treatment_id="gke", run_id="b01-gke-a1")
    assert found.judged.reason == "there is a gap in the observation of pods"
    assert of_pods(pods(late, ((60_000_000, 63_000_000),)), 60).steps.at(59.5) == 1


def test_without_supply_there_is_nothing_but_the_reason_where_a_demand_is_known():
    nothing, of_it = Supply(None, "pods were not observed"), {"treatment_id": "a", "run_id": "b"}
    assert compared(nothing, WINDOW, demanded(spec(calibrated=False)), **of_it) is None
    found = compared(nothing, WINDOW, demanded(spec()), **of_it)
    assert values_of(found)["timeshare_under"].reason == "pods were not observed"


def test_the_response_variables_of_a_run_are_those_of_the_table():
    values = values_of(judged())
    assert values["timeshare_under"].value == pytest.approx(0.1)
    assert values["follow_up"].value == 6
    assert values_of(None)["follow_up"].reason == "the run has no measured window"


def test_means_have_intervals_and_speedup_is_of_the_means():
    plan = make_plan(("gke", "whisk"), blocks=2, slo=SLO)
    runs = [
        dataclasses.replace(judged(of), treatment_id=name, run_id=f"{name}-{number}")
        for name, of in (("gke", lambda t: 1), ("whisk", late))
        for number in (1, 2)
    ]
    found = means(table(runs), confidence=0.95)
    short = found[found.metric == "timeshare_under"].set_index("treatment_id")
    assert short.loc["gke", "mean"] == pytest.approx(20 / 60)
    assert (short.loc["gke", "n"], short.loc["gke", "runs"]) == (2, 2)
    assert pd.isna(short.loc["gke", "low"]), "both runs are the same"
    (row,) = speedups(plan, found).to_dict("records")
    assert (row["treatment_id"], row["baseline_id"], row["value"]) == ("whisk", "gke", 0), (
        "gke is never too many"
    )
    assert "too many" in row["reason"]


def test_a_run_is_read_once_for_its_demand_and_all_else():
    """Of 60 s the load asks for two pods from 20 s to 40 s; only one is ever there."""
    counted = [(t * 1_000_000, "kubernetes", "", "replicas_ready", 1.0) for t in range(61)]
    run = ReadOnce(FakeRun([Req(1_000_000, 1000)], samples_rows=counted, window=WINDOW))
    treatment = SimpleNamespace(id="one", spec=spec())
    plan = SimpleNamespace(experiment=SimpleNamespace(answer=None), treatments=(treatment,))
    wanted = ("timeshare_under", "requests", "storage_read_bytes_per_s")
    values = run_values(None, run, plan, {}, wanted=wanted).values
    assert values["timeshare_under"].value == pytest.approx(20 / 60)
    assert values["requests"].value == 1
    assert run.read == {"samples": 1, "events": 1, "totals": 1}
