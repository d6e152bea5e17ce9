"""Pods that use more than they request on busy nodes: told, unless a pod waits, or there is room, or it is known."""

import pandas as pd
import pytest

from support.run_tables import FakeRun, Req
from towtank.analysis.requested import crowded, read_requested, request_findings
from towtank.analysis.summaries import summarise_run
from towtank.analysis.usage import COLUMNS

S = 1_000_000
REQUESTS = (Req(1 * S, 10_000), Req(2 * S, 20_000))


def watched(requested=0.1, offered=2.0, unscheduled=0.0):
    """Samples of three readings; the size of the node was told before the load. The window is 1 to 4 s."""
    rows = [(-5 * S, "kubernetes", "node/n1", "cpu_allocatable_cores", offered)]
    for t_s in (0, 2, 3):
        rows += [
            (t_s * S, "kubernetes", "Deployment/app", "cpu_requested_cores", requested if t_s else 99.0),
            (t_s * S, "kubernetes", "", "cpu_requested_cores", requested),
            (t_s * S, "kubernetes", "", "replicas_unscheduled", unscheduled if t_s == 2 else 0.0),
        ]
    return rows


def used(app=1.2, node=1.9):
    rest = {name: float("nan") for name in COLUMNS if name not in ("name", "cpu_cores")}
    cores = {"Deployment/app": app, "node/n1": node}
    return pd.DataFrame([{"name": name, "cpu_cores": value, **rest} for name, value in cores.items()])


def found(usage=None, **keys):
    run = FakeRun(REQUESTS, samples_rows=watched(**keys))
    requested = read_requested(run.samples(), run.record.window)
    usage = used() if usage is None else usage
    return list(crowded(requested, usage, run_id="r1", treatment="small"))


def test_what_is_used_and_requested_is_told():
    (one,) = found()
    assert (one.workload, one.used, one.requested, one.node) == ("Deployment/app", 1.2, 0.1, "n1")
    assert one.busy_ratio == pytest.approx(0.95)
    (told,) = request_findings([one, one])
    assert told.name == "requests_below_use"
    assert told.severity == "warning"
    assert "small: Deployment/app used 1.2 cores and requests 0.1, while node n1 was at 95 %" in told.message
    assert told.runs == ("r1", "r1")


@pytest.mark.parametrize(
    ("keys", "usage"),
    [
        ({"unscheduled": 1.0}, None),
        ({"requested": 0.81}, None),
        ({"offered": 4.0}, None),
        ({"requested": 0.0}, used(app=0.05)),
        ({}, pd.DataFrame()),
    ],
    ids=["a pod waits for a node", "a little more", "the node has room", "hardly any", "nobody measured"],
)
def test_what_is_no_reason(keys, usage):
    assert found(usage, **keys) == []


def test_pods_without_any_request():
    (one,) = found(requested=0.0)
    assert one.requested == 0.0


def test_it_is_read_with_the_run():
    cpu = [
        (t * S, "kubelet", who, "cpu_cores", c) for t in (0, 5) for who, c in (("p", 1.5), ("node/n1", 1.9))
    ]
    events = [(-S, "kubernetes", "pod_created", "p", "", '{"workload": "Deployment/app"}')]
    run = FakeRun(REQUESTS, samples_rows=sorted([*watched(), *cpu]), events_rows=events)
    data = summarise_run(run)
    (one,) = crowded(data.requested, data.usage, run_id="r", treatment="t")
    assert (one.workload, one.used) == ("Deployment/app", 1.5)


def test_without_the_source_nothing_is_known():
    run = FakeRun(REQUESTS)
    assert read_requested(run.samples(), run.record.window).unscheduled is None
    assert read_requested(run.samples(), None).cores == {}
