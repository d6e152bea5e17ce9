"""Ready instances over time: counted pods, of one workload where it is named; local processes from their fates."""

import dataclasses
import json
import math

import pandas as pd
import pyarrow as pa
import pytest

from towtank.analysis.pods import Pods, read_pods
from towtank.analysis.supply import of_pods, supply_of
from towtank.store import schemas
from towtank.store.run_record import FaultWindow, RunRecord, Window

WINDOW = Window(start_us=2_000_000, end_us=20_000_000, drained_us=20_000_000)
NO_PODS = Pods(pd.DataFrame({"t_us": [], "metric": [], "value": []}), {}, {})
S = 1_000_000


def table(schema, rows):
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def counted(*workloads):
    rows = [
        (t * S, "kubernetes", name, "replicas_ready", float(n)) for name, n in workloads for t in range(21)
    ]
    return read_pods(table(schemas.SAMPLES, rows), table(schemas.EVENTS, []))


def record(platform="local", faults=(), components=("app", "app")):
    instances = [{"name": f"{of}-{n}", "component": of} for n, of in enumerate(components)]
    return RunRecord(
        state="complete", run_id="b01-one-a1", planned_id="b01-one", experiment="small", treatment_id="one",
        treatment_label="one", levels={}, block=1, position=1, attempt=1, seed=1, window=WINDOW,
        started_utc="2026-01-05T09:00:00Z", timeout_us=S, bin_us=S, faults=faults,
        deployment={"platform": platform, "instances": instances},
    )  # fmt: skip


def of_processes(events=(), scaled=None, **options):
    return supply_of(record(**options), NO_PODS, table(schemas.EVENTS, events), scaled=scaled)


def test_pods_of_the_only_workload_are_the_deployment():
    found = of_pods(counted(("", 3), ("Deployment/shop", 3)), 20)
    assert found.steps.at([0, 10]).tolist() == [3, 3]


@pytest.mark.parametrize(
    ("interval_s", "drained_s", "end_s"),
    [(0.0, 20.0, 17.0), (1.0, 20.0, 18.5), (1.0, 18.0, 20.0), (0.0, 18.0, 19.0)],
)
def test_the_last_count_holds_until_the_next_was_due(interval_s, drained_s, end_s):
    """Counted until 17 s of 20; where the last request ended at 18 s, nobody counted the 2 s after it."""
    pods = counted(("", 3))
    pods = dataclasses.replace(pods, counts=pods.counts[pods.counts["t_us"] <= 17 * S])
    telemetry = {"sources": [{"source": "kubernetes", "interval_s": interval_s}]}
    window = Window(start_us=0, end_us=20 * S, drained_us=round(drained_s * S))
    run = record("kubernetes").model_copy(update={"window": window, "telemetry": telemetry})
    assert supply_of(run, pods, table(schemas.EVENTS, [])).steps.end_s == pytest.approx(end_s)


def test_of_several_workloads_the_one_that_is_scaled_must_be_named():
    pods = counted(("", 4), ("Deployment/shop", 3), ("StatefulSet/db", 1))
    assert "Deployment/shop, StatefulSet/db" in of_pods(pods, 20).reason
    assert of_pods(pods, 20, scaled="Deployment/shop").steps.at(5) == 3
    assert "no workload 'Deployment/web'" in of_pods(pods, 20, scaled="Deployment/web").reason


def test_local_instances_are_there_until_they_end():
    crash = (5 * S, "local", "crashed", "app-0", "it ended", json.dumps({"pid": 7}))
    found = of_processes([crash]).steps
    assert found.at([0, 4.9, 5, 19]).tolist() == [2, 2, 1, 1]


def test_an_instance_that_goes_on_without_one_of_its_processes_is_still_there():
    killed = (5 * S, "local", "oom_killed", "app-0", "it goes on", json.dumps({"memory_limit_bytes": 1}))
    assert of_processes([killed]).steps.at(19) == 2


@pytest.mark.parametrize("kind", ["kill", "stop"])
def test_faults_take_instances_away_until_they_are_undone(kind):
    fault = FaultWindow(
        kind=kind, target="app", instances=("app-1",), planned_us=4 * S, began_us=4 * S, undone_us=6 * S
    )
    found = of_processes(faults=(fault,)).steps
    assert found.at([3, 4, 5.9, 6]).tolist() == [2, 1, 1, 2]
    forever = fault.model_copy(update={"undone_us": None})
    assert of_processes(faults=(forever,)).steps.at(19) == 1


def test_a_slow_cpu_takes_no_instance_away():
    fault = FaultWindow(kind="cpu", target="app", instances=("app-1",), planned_us=4 * S, began_us=4 * S)
    assert of_processes(faults=(fault,)).steps.at(5) == 2


def test_of_several_components_the_one_that_is_scaled_must_be_named():
    both = {"components": ("app", "app", "db")}
    assert "several components (app, db)" in of_processes(**both).reason
    assert of_processes(scaled="app", **both).steps.at(5) == 2
    assert "no component 'web'" in of_processes(scaled="web", **both).reason


def test_elsewhere_nothing_is_counted():
    found = of_processes(platform="external")
    assert (found.steps, "not observed" in found.reason) == (None, True)


def test_pods_that_were_not_counted_all_the_time_are_no_supply():
    gap = Pods(counted(("", 2)).counts, {}, {}, gaps_us=((5 * S, 7 * S),))
    assert math.isnan(of_pods(gap, 20).steps.at(6))
    assert of_pods(Pods(gap.counts, {}, {}, gaps_unlisted=True), 20).steps is None


def test_scaled_processes_are_counted_by_the_source_scaling_or_not_at_all():
    """Without it nobody knows how many there were: those of the beginning say nothing."""
    scaled = record().model_copy(update={"deployment": {"platform": "local", "scaling": {"app": {}}}})
    without = supply_of(scaled, NO_PODS, table(schemas.EVENTS, []))
    assert without.steps is None
    assert "`scaling`" in without.reason
    rows = [
        (t * S, "scaling", name, "replicas_ready", float(t > 5)) for name in ("", "app") for t in range(21)
    ]
    pods = read_pods(table(schemas.SAMPLES, rows), table(schemas.EVENTS, []))
    assert supply_of(scaled, pods, table(schemas.EVENTS, [])).steps.at([3, 10]).tolist() == [0, 1]
