"""Pods and nodes of a run, and CPU and memory in a cluster, each by hand."""

import json

import pytest

from support.plans import make_plan
from support.run_tables import FakeRun, Req
from towtank.analysis import pods
from towtank.analysis.pods import VARIABLES, pod_starts, read_pods, start_curves
from towtank.analysis.run_values import run_values
from towtank.analysis.summaries import summarise_run
from towtank.analysis.usage import mean_usage

S = 1_000_000
MS = 1_000
REQUESTS = (Req(1 * S, 10_000), Req(2 * S, 20_000))


def counted(t_s, **counts):
    return [(round(t_s * S), "kubernetes", "", f"replicas_{name}", float(n)) for name, n in counts.items()]


def life(pod, workload="Deployment/app", **steps_s):
    detail = json.dumps({"workload": workload})
    return [
        (round(at * S), "kubernetes", f"pod_{step}", pod, "", detail if step == "created" else "{}")
        for step, at in steps_s.items()
    ]


def values(samples=(), events=(), rises_s=(0.0,)):
    run = FakeRun(REQUESTS, samples_rows=samples, events_rows=sorted(events))
    return summarise_run(run, wanted=VARIABLES, rises_s=rises_s).summary.values


def test_counts_hold_until_the_next_one_and_only_the_window_counts():
    """The window is 1 to 4 s: 1 pod for a second, 3 for 1.5 s, 5 for 0.5 s."""
    samples = [
        *counted(0.5, ready=1, pending=2), *counted(2.0, ready=3, pending=0), *counted(3.5, ready=5, pending=1),
        *counted(4.5, ready=9, pending=0),
    ]  # fmt: skip
    found = values(samples)
    assert found["pods_ready"].value == pytest.approx((1 * 1 + 3 * 1.5 + 5 * 0.5) / 3)
    assert found["pods_pending"].value == pytest.approx((2 * 1 + 0 + 1 * 0.5) / 3)
    assert found["pods_most"].value == 5
    assert found["nodes_ready"].value is None
    assert "not counted" in found["nodes_ready"].reason


def test_node_seconds_are_nodes_times_time_ready_or_not():
    """The window is 1 to 4 s: 2 nodes for 1.5 s, 3 for 1.5 s."""
    samples = [(round(t * S), "kubernetes", "", "nodes", n) for t, n in ((0.5, 2.0), (2.5, 3.0), (5.0, 2.0))]
    assert values(samples)["node_seconds"].value == pytest.approx(2 * 1.5 + 3 * 1.5)
    assert "nodes was not counted" in values(counted(0.5, ready=1))["node_seconds"].reason


def test_without_the_source_the_reason_says_what_to_do():
    found = values()
    assert {found[name].value for name in VARIABLES} == {None}
    assert "add `kubernetes` to `observe`" in found["scale_up"].reason


def test_the_first_new_pod_after_each_rise_counts():
    """Rises at 0, 10 and 20 s; the second brings two pods (ready after 3 and 5 s), the third none in time."""
    events = [
        *life("old", created=-9, ready=-7),
        *life("a", created=1, ready=2.5),
        *life("b", created=11, ready=15), *life("c", created=12, ready=13),
        *life("never", created=21),
    ]  # fmt: skip
    found = values(events=events, rises_s=(0.0, 10.0, 20.0))
    assert found["scale_up"].value == pytest.approx((2.5 + 3.0) / 2)
    assert found["pod_start"].value == pytest.approx(
        1.5
    )  # of 1.5, 4 and 1 s; the old pod and the last do not count
    assert values(events=life("old", created=-9, ready=-7))["pod_start"].reason.startswith(
        "no pod was created"
    )
    assert "not known when" in values(events=events, rises_s=())["scale_up"].reason


@pytest.mark.parametrize(
    "begun_s", [-1, 0.4], ids=["counted before the load", "counted from just after its beginning"]
)
def test_a_pod_that_takes_the_place_of_another_is_no_scaling(begun_s):
    """Load rises at 0 s; 2 pods are wanted all the time, and one that was killed at 4 s is replaced."""
    events = life("again", created=4, ready=5)
    same = [*counted(begun_s, desired=2), *counted(2, desired=2), *counted(5, desired=2)]
    more = [*counted(begun_s, desired=2), *counted(2, desired=2), *counted(4.5, desired=3)]
    replaced = values(events=events, samples=same, rises_s=(0.0,))["scale_up"]
    assert replaced.reason == "no rise of the load brought a new pod"
    assert values(events=events, samples=more, rises_s=(0.0,))["scale_up"].value == pytest.approx(5.0)


def told(uid, **steps):
    """Events of one StatefulSet pod: when the message came, and what the object says, both in s."""
    return [
        (
            round(at * S), "kubernetes", f"pod_{step}", "web-0", "",
            json.dumps({"uid": uid, "workload": "StatefulSet/web", "object_time": f"2026-01-01T00:01:{own:02}Z"}),
        )
        for step, (at, own) in steps.items()
    ]  # fmt: skip


def test_a_pod_that_comes_back_under_its_name_is_a_new_one():
    events = [
        *told("u1", created=(-9, 1), ready=(-7, 3), gone=(10, 20)),
        *told("u2", created=(11, 21), ready=(15, 25)),
    ]
    found = values(events=events, rises_s=(10.0,))
    assert found["pod_start"].value == pytest.approx(4.0)
    assert found["scale_up"].value == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("created", "ready", "why"),
    [
        ((20, 3), (20, 9), "all at once when the watch was there again"),
        ((20, 9), (20, 9), "the same, of a pod that took less than a second"),
        ((5, 5), (20, 9), "it was away when the pod became ready"),
        ((19, 5), (20, 19), "it was away when the pod was created"),
    ],
)
def test_what_was_told_late_is_no_value(created, ready, why):
    late = told("u1", created=created, scheduled=created, ready=ready)
    for events in (late, [*late, *told("u2", created=(22, 22), ready=(24, 24))]):
        found = values(events=events)
        for name in ("pod_start", "scale_up"):
            assert found[name].value is None, why
            assert "of 1 of" in found[name].reason
            assert "disagrees with the cluster's own times" in found[name].reason
        run = FakeRun(REQUESTS, events_rows=sorted(events))
        rows = pod_starts("one", [read_pods(run.samples(), run.events())])
        assert not any(
            row.phase == "created → ready" and row.n > len(events) - len(late) for row in rows.itertuples()
        )


def test_the_clusters_times_are_in_whole_seconds():
    """Truly 1.9 s: 3.05 to 4.95 s by messages; by the object from 3 to 4, or, of another clock, from 3 to 5."""
    for own in (4, 5):
        assert values(events=told("u", created=(3.05, 3), ready=(4.95, own)))[
            "pod_start"
        ].value == pytest.approx(1.9)


def test_a_gap_is_bridged_by_no_count():
    """Window 1 to 4 s: 2 pods until 1.5 s, nothing known until 3.5 s, then 6 pods."""
    samples = [*counted(1, ready=2), *counted(1.5, ready=2), *counted(3.5, ready=6), *counted(4, ready=6)]
    run = FakeRun(REQUESTS, samples_rows=samples)
    window = run.window
    gap = {"source": "kubernetes", "from_us": 1_500_000, "to_us": 3_500_000, "reason": "not heard"}

    def mean(*gaps, gap_count=None):
        facts = {"gaps": list(gaps), "gap_count": len(gaps) if gap_count is None else gap_count}
        return pods.pod_values(read_pods(run.samples(), run.events(), facts), window, ())["pods_ready"]

    assert mean(gap).value == pytest.approx((2 * 0.5 + 6 * 0.5) / 1)
    assert mean({**gap, "source": "kubelet"}).value == pytest.approx((2 * 2.5 + 6 * 0.5) / 3)
    assert mean({**gap, "from_us": 0, "to_us": 9_000_000}).value is None
    assert "more gaps" in mean(gap, gap_count=2).reason


def test_phases_are_told_apart_by_when_a_pod_was_created():
    run = FakeRun(
        REQUESTS,
        events_rows=[
            *life("old", created=-9, scheduled=-8.9, pulled=-8.5, started=-8, ready=-7),
            *life("new", created=3, scheduled=3.1, started=4, pulled=4.2, ready=5),
        ],
    )
    found = pod_starts("one", [read_pods(run.samples(), run.events())] * 2)
    rows = {(row.under_load, row.phase): row for row in found.itertuples()}
    assert rows[False, "created → ready"].p50_s == pytest.approx(2.0)
    assert rows[True, "scheduled → pulled"].max_s == pytest.approx(1.1)
    assert rows[True, "pulled → started"].max_s == 0.0  # messages of two watches came in another order
    assert rows[True, "created → ready"].n == 2
    assert len(rows) == 2 * len(pods.PHASES)


def kubelet(t_s, instance, cores, mib):
    at = round(t_s * S)
    return [
        (at, "kubelet", instance, "cpu_cores", cores),
        (at, "kubelet", instance, "memory_bytes", mib * 2**20),
    ]


SEEN = [
    *kubelet(0.0, "a", 9.0, 900), *kubelet(2.0, "a", 1.0, 100), *kubelet(4.0, "a", 2.0, 200),
    *kubelet(1.0, "b", 9.0, 10), *kubelet(3.0, "b", 4.0, 50),
    *kubelet(0.0, "node/n1", 9.0, 10), *kubelet(4.0, "node/n1", 7.0, 4000),
    (2 * S, "metrics-server", "a", "cpu_cores", 77.0), (3 * S, "metrics-server", "a", "cpu_cores", 77.0),
    (2 * S, "kubelet", "a", "network_sent_bytes_per_s", 5.0),
]  # fmt: skip
"""Pods are read anew at other moments: a until 4 s, b until 3 s."""


def test_pods_that_are_read_at_different_times_are_added_up_all_the_same():
    found = values(SEEN)
    a, b = 1.0 * 1 + 2.0 * 2, 4.0 * 2  # core seconds within 1 to 4 s
    assert found["cpu_cores"].value == pytest.approx((a + b) / 3)
    assert (
        found["memory_bytes"].value == 250 * 2**20
    )  # at 3 s: b's 50 and what a has at its next reading, 200


def test_the_finer_source_counts_and_the_other_is_not_added():
    only = [row for row in SEEN if row[1] == "metrics-server"]
    assert values(only)["cpu_cores"].value == 77.0
    assert values(SEEN)["cpu_cores"].value < 77


def test_usage_by_workload_node_and_pod():
    events = [*life("a", created=-1), *life("b", "StatefulSet/db", created=-1)]
    run = FakeRun(REQUESTS, samples_rows=SEEN, events_rows=events)
    found = summarise_run(run).usage.set_index("name")
    assert list(found.index) == ["Deployment/app", "StatefulSet/db", "node/n1"]
    assert found.loc["Deployment/app", "cpu_cores"] == pytest.approx(5 / 3)
    assert found.loc["StatefulSet/db", "pod_memory_most"] == 50 * 2**20
    assert found.loc["node/n1", "cpu_cores"] == 7.0
    both = mean_usage("one", [summarise_run(run).usage] * 2).set_index("name")
    assert both.loc["node/n1", "runs"] == 2
    assert both.loc["Deployment/app", "cpu_cores"] == pytest.approx(5 / 3)


def test_a_local_deployment_has_no_usage_by_workload():
    local = [(t * S, "process", "app-0", "cpu_cores", 1.0) for t in range(5)]
    assert summarise_run(FakeRun(REQUESTS, samples_rows=local)).usage.empty


def test_the_share_of_pods_that_made_each_step_grows_with_time():
    """Of three pods one never became ready; the one from before the load is told apart."""
    events = sorted([
        *life("old", created=-9, scheduled=-8.5, ready=-7),
        *life("a", created=1, scheduled=1.5, ready=2.5),
        *life("b", created=11, scheduled=11.25, ready=15),
        *life("never", created=21, scheduled=22),
    ])  # fmt: skip
    run = FakeRun(REQUESTS, events_rows=events)
    curves = start_curves("t", [read_pods(run.samples(), run.events())])
    mine = curves[curves.under_load]
    ready = mine[mine.step == "ready"]
    assert list(ready.t_s) == pytest.approx([1.5, 4.0])
    assert list(ready.share) == pytest.approx([1 / 3, 2 / 3])
    scheduled = mine[mine.step == "scheduled"]
    assert list(scheduled.t_s) == pytest.approx([0.25, 0.5, 1.0])
    assert scheduled.share.iloc[-1] == 1
    before = curves[~curves.under_load]
    assert list(before[before.step == "ready"].t_s) == pytest.approx([2.0])
    assert "pulled" not in set(curves.step)


def test_comparisons_and_plans_know_when_the_load_of_the_run_rises():
    """`compare`, `history`, pilots and exports read runs without the report; this load rises at 0 s."""
    run = FakeRun(REQUESTS, events_rows=sorted(life("a", created=1, ready=2.5)))
    run.run_id = run.record.run_id
    found = run_values(None, run, make_plan(blocks=1), {}, wanted=VARIABLES)
    assert found.values["scale_up"].value == pytest.approx(2.5)
