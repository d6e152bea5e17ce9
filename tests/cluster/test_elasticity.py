"""Supply against demand in a cluster: pods that were counted there, judged by a calibration, down to the page."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from support.capacities import capacity
from support.cluster import Cluster
from support.troubled_study import Study, carried_out
from towtank import report
from towtank.analysis import analyse
from towtank.analysis.scaling import METRICS
from towtank.design.capacity_file import FILE_NAME, CapacityFile
from towtank.store import Results

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
SLO = {"p95": 1.0}
ATTEMPTS = 3
RISES_S, FALLS_S, ENDS_S = 4, 11, 14
LOAD = {
    "model": "open",
    "stages": [
        {"rate": "5/s", "hold": f"{RISES_S}s"},
        {"rate": "20/s", "hold": f"{FALLS_S - RISES_S}s"},
        {"rate": "5/s", "hold": f"{ENDS_S - FALLS_S}s"},
    ],
}
DEMANDED = np.repeat([1, 2, 1], [RISES_S, FALLS_S - RISES_S, ENDS_S - FALLS_S])
"""One pod holds at 10/s, two at 30/s."""


def study_of(cluster: Cluster, folder: Path) -> Study:
    """One pod that nothing scales, and a load that asks for two of them for a while."""
    workload = {
        "timeout": "5s", "connections": "new", "load": LOAD,
        "journey": {"steps": [{"name": "read", "path": "/"}]},
    }  # fmt: skip
    more = {
        "slo": {"p95": "1s"}, "observe": [{"kubernetes": {"interval": "500ms"}}],
        "demand": {"calibration": FILE_NAME, "scaled": "Deployment/app"}, "workloads": {"reads": workload},
        "generator": {"where": "local", "nice": -10},
    }  # fmt: skip
    found = [
        capacity(deployment="app", levels={"replicas": pods}, holds=holds, fails=1.1 * holds, slo=SLO)
        for pods, holds in ((1, 10.0), (2, 30.0))
    ]
    file = CapacityFile(experiment="pods", digest="d", capacities=tuple(found))
    (folder / FILE_NAME).write_text(file.to_json(), encoding="utf-8")
    return Study(cluster, folder, more=more)


def add_a_pod_too_late(study: Study) -> None:
    """What an autoscaler does: when demand has risen, and never down again."""
    time.sleep(RISES_S + 0.5)
    study.cluster.kubectl("--namespace", study.namespace(), "scale", "deployment", "app", "--replicas=2")


def measured(cluster: Cluster, folder: Path) -> Results:
    """Results of one run that counts: what other programs spoiled is made again."""
    for attempt in range(ATTEMPTS):
        mine = folder / str(attempt)
        mine.mkdir()
        study = study_of(cluster, mine)
        verdicts = carried_out(study, add_a_pod_too_late)["verdicts"]
        if verdicts["instrument"] != "invalid":
            return Results.open(study.results)
    raise AssertionError(f"{ATTEMPTS} runs were spoiled, the last one so: {verdicts['instrument_reasons']}")


def ready_throughout(results: Results) -> np.ndarray:
    """Ready pods over the load on a grid of 10 ms, from what was counted: another way than that of the analysis."""
    samples = results.runs("all")[0].samples().to_pandas()
    mine = samples[(samples.metric == "replicas_ready") & (samples.instance == "")].sort_values("t_us")
    at_us = np.arange(0, ENDS_S * 1e6, 10_000)
    held = mine.t_us.searchsorted(at_us, side="right") - 1
    return np.asarray(mine.value.to_numpy()[np.maximum(held, 0)], dtype=float)


def test_pods_that_come_late_are_missing_for_that_long(cluster: Cluster, tmp_path: Path) -> None:
    results = measured(cluster, tmp_path)
    analysis = analyse(results)
    found = analysis.elasticity.set_index("metric")
    assert set(found.index) >= set(METRICS)
    supply, demand = ready_throughout(results), np.repeat(DEMANDED, 100)
    near = {"abs": 0.05}  # counts come each half second, the steps of supply when they were seen
    assert found.value["timeshare_under"] == pytest.approx((supply < demand).mean(), **near)
    assert found.value["timeshare_over"] == pytest.approx((supply > demand).mean(), **near)
    assert found.value["accuracy_under"] == pytest.approx(np.maximum(demand - supply, 0).mean(), **near)
    assert found.value["timeshare_under"] > 0.02
    if supply[FALLS_S * 100 - 100] == 2:  # on a busy machine a pod may take longer than the load wants it
        assert 0.5 < found.value["follow_up"] < FALLS_S - RISES_S
        assert "its only change was not followed" in found.reason["follow_down"]
    page = report.build(analysis)
    (table,) = (one for one in page.tables if one.id == "elasticity")
    assert len(table.columns) > 10, "numbers, and no reasons in their place"
    assert "supply-figure" in {figure.id for figure in page.figures}
