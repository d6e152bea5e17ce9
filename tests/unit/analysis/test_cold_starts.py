"""Cold starts: which requests were cold, what their instances did meanwhile, and what is merged for not being known."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from towtank.analysis import activations, cold_starts
from towtank.analysis.cold_starts import FIRST_BYTE, FORCED, NATURAL, SENT, boundaries, merged
from towtank.analysis.pods import read_pods
from towtank.store.schemas import EVENTS, REQUESTS, SAMPLES

MS = 1_000


@dataclass
class Folder:
    """As much of a run folder as is read."""

    rows: list[dict]
    run_id: str = "b01-one-a1"

    def requests(self):
        return ds.dataset(pa.Table.from_pylist(self.rows, schema=REQUESTS))


def request(sent_ms, ttfb_ms, instance="app-1", *, cold=None, wait_ms=0):
    return {
        "scheduled_us": (sent_ms - wait_ms) * MS, "lag_us": None, "wait_us": wait_ms * MS,
        "ttfb_us": None if ttfb_ms is None else ttfb_ms * MS, "instance": instance, "cold": cold,
    }  # fmt: skip


def lives(*told, source="scaling", ready_at_zero=None, workload="app"):
    """Pods of (name, step, ms) or (name, step, ms, detail)."""
    events = [
        (at * MS, source if not rest else rest[0].pop("source", source), f"pod_{step}", name, "",
         json.dumps({"workload": workload, **(rest[0] if rest else {})}))
        for name, step, at, *rest in told
    ]  # fmt: skip
    samples = [] if ready_at_zero is None else [(-MS, source, "", "replicas_ready", float(ready_at_zero))]
    table = [
        pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
        for rows, schema in ((samples, SAMPLES), (events, EVENTS))
    ]
    return read_pods(*table)


LOCAL = (("app-1", "created", 102), ("app-1", "started", 110), ("app-1", "ready", 300))


def of_run(rows, pods, settled="zero"):
    return cold_starts.of_run(Folder(rows), pods, settled)


def test_phases_of_a_local_cold_start_add_up_to_its_first_byte():
    found = of_run([request(100, 210, cold=True), request(900, 5, cold=False)], lives(*LOCAL))
    phases = cold_starts.anatomy({"one": [found]})
    assert phases[["begin", "end"]].to_numpy().tolist() == [
        [SENT, "created"], ["created", "started"], ["started", "ready"], ["ready", FIRST_BYTE],
    ]  # fmt: skip
    assert phases["mean_s"].tolist() == pytest.approx([0.002, 0.008, 0.19, 0.01])
    assert set(phases["kind"]) == {FORCED}
    assert phases["mean_s"].sum() == pytest.approx(0.21)


def test_what_an_instance_had_behind_it_took_nothing_of_a_later_request():
    found = of_run([request(200, 120, cold=True)], lives(*LOCAL))
    phases = cold_starts.anatomy({"one": [found]})
    assert [(row.begin, row.end) for row in phases.itertuples()] == [(SENT, "ready"), ("ready", FIRST_BYTE)]
    assert phases["mean_s"].tolist() == pytest.approx([0.1, 0.02])


def test_where_nothing_says_what_is_cold_it_is_what_was_surely_sent_before():
    """Between its start and its readiness an instance may have answered before anybody heard that it was ready."""
    rows = [
        request(105, 200),
        request(120, 5),
        request(105, None),
        request(105, 9, "other"),
        request(105, 9, None),
    ]
    found = of_run(rows, lives(*LOCAL))
    assert found.requests["ttfb_s"].tolist() == pytest.approx([0.2])
    assert of_run([request(105, 200, cold=False)], lives(*LOCAL)) is None


def test_time_before_it_was_sent_is_the_generators():
    found = of_run([request(100, 210, cold=True, wait_ms=50)], lives(*LOCAL))
    assert found.requests["created"].tolist() == pytest.approx([0.002])


@pytest.mark.parametrize(
    ("settled", "ready_at_zero", "kinds"),
    [
        ("zero", None, [FORCED, NATURAL]),
        ("baseline", 0, [FORCED, NATURAL]),
        ("baseline", 1, [NATURAL, NATURAL]),
        (None, 0, [NATURAL, NATURAL]),
    ],
)
def test_forced_is_only_what_was_sent_to_none_that_was_made_sure_of(settled, ready_at_zero, kinds):
    again = (("app-2", "created", 5000), ("app-2", "started", 5010), ("app-2", "ready", 5200))
    pods = lives(*LOCAL, *again, ready_at_zero=ready_at_zero)
    found = of_run([request(100, 210, cold=True), request(4999, 210, "app-2", cold=True)], pods, settled)
    assert found.requests["kind"].tolist() == kinds


def cluster(started_detail=None, *, agent_ms=None):
    """A pod as messages tell of it; with an agent, when its container really started."""
    uid = {"uid": "u1"}
    told = [("p", "created", 1010), ("p", "scheduled", 1200), ("p", "pulled", 2000), ("p", "started", 3100),
            ("p", "ready", 3150)]  # fmt: skip
    events = [(name, step, at, dict(uid)) for name, step, at in told]
    if agent_ms is not None:
        detail = {**uid, "source": "agent", "uncertainty_us": 400}
        events.append(("p", "container_started", agent_ms, detail))
    return lives(*events, source="kubernetes")


def ends(phases):
    return [SENT, *phases["end"]]


def test_in_a_cluster_a_late_message_of_a_start_tells_no_phases_apart():
    found = of_run([request(1000, 2300, "p", cold=True)], cluster())
    assert ends(cold_starts.anatomy({"one": [found]})) == [
        SENT, "scheduled", "pulled", "ready", FIRST_BYTE,
    ], "created came 10 ms after it was sent, started 50 ms before ready: neither can be told apart"  # fmt: skip


def test_an_agent_knows_when_a_container_started():
    found = of_run([request(1000, 2300, "p", cold=True)], cluster(agent_ms=2500))
    phases = cold_starts.anatomy({"one": [found]})
    assert ends(phases) == [SENT, "scheduled", "pulled", "started", "ready", FIRST_BYTE]
    took = dict(zip(phases["end"], phases["mean_s"], strict=True))
    assert took["started"] == pytest.approx(0.5)
    assert took["ready"] == pytest.approx(0.65)
    assert phases["mean_s"].sum() == pytest.approx(2.3)


def test_the_first_byte_may_come_before_the_message_that_its_pod_is_ready():
    found = of_run([request(1000, 2120, "p", cold=True)], cluster())
    phases = cold_starts.anatomy({"one": [found]})
    assert ends(phases)[-1] == FIRST_BYTE
    assert "ready" not in ends(phases)
    assert phases["mean_s"].sum() == pytest.approx(2.12)


def test_a_step_that_one_of_many_lacks_leaves_that_one_out():
    whole = [
        (f"p{n}", step, at)
        for n in range(20)
        for step, at in (("created", 102), ("started", 150), ("ready", 300))
    ]
    pods = lives(*[told for told in whole if told != ("p7", "started", 150)])
    found = of_run([request(100, 210, f"p{n}", cold=True) for n in range(20)], pods)
    phases = cold_starts.anatomy({"one": [found]})
    assert ends(phases) == [SENT, "created", "started", "ready", FIRST_BYTE]
    assert set(phases["n"]) == {19}


def test_a_step_that_many_lack_is_not_told_apart():
    pods = lives(*LOCAL, ("app-2", "created", 102), ("app-2", "ready", 300))
    found = of_run([request(100, 210, name, cold=True) for name in ("app-1", "app-2")], pods)
    assert ends(cold_starts.anatomy({"one": [found]})) == [SENT, "created", "ready", FIRST_BYTE]


def test_a_cold_request_of_an_unknown_instance_counts_and_has_no_phases():
    found = of_run([request(100, 210, "elsewhere", cold=True)], lives(), None)
    spread = cold_starts.spreads({"one": [found]})
    assert spread[["n", "joined"]].to_numpy().tolist() == [[1, 0]]
    assert np.isnan(spread["std_s"].iloc[0])
    assert cold_starts.anatomy({"one": [found]}).empty


def test_order_statistics_pool_the_requests_of_all_runs():
    runs = [
        of_run([request(100, ms, cold=True) for ms in part], lives(*LOCAL))
        for part in ((200, 400), (300, 500))
    ]
    (row,) = cold_starts.spreads({"one": runs}).to_dict("records")
    assert [row[key] for key in ("n", "min_s", "p25_s", "median_s", "p75_s", "max_s")] == pytest.approx(
        [4, 0.2, 0.275, 0.35, 0.425, 0.5]
    )
    assert row["std_s"] == pytest.approx(np.std([0.2, 0.3, 0.4, 0.5], ddof=1))


def test_without_cold_requests_there_is_nothing():
    assert of_run([request(900, 5, cold=False)], lives(*LOCAL)) is None
    assert cold_starts.spreads({}).empty
    assert cold_starts.anatomy({}).empty


@given(
    arrays(float, (5, 3), elements=st.floats(-10, 10)),
    arrays(float, 5, elements=st.floats(0, 10)),
    st.lists(st.floats(0, 2), min_size=3, max_size=3),
)
def test_phases_never_fall_always_add_up_and_none_is_shorter_than_it_is_known(steps, ttfb, within):
    instants = boundaries(steps, ttfb)
    assert (np.diff(instants, axis=1) >= 0).all()
    assert (instants[:, 0] == 0).all()
    assert (instants[:, -1] == ttfb).all()
    exact = [0.0, *within, 0.0]
    kept = merged(instants, exact)
    assert (kept[0], kept[-1]) == (0, 4)
    means = instants.mean(axis=0)[kept]
    if len(kept) > 2:
        known = np.array(exact)[kept]
        assert (np.diff(means) >= known[:-1] + known[1:]).all()


def told_by_openwhisk(*cold):
    """Events of cold activations: (id, wait ms, init ms)."""
    rows = [
        {"t_us": MS, "source": "openwhisk", "kind": "cold_start", "instance": "hello", "message": "",
         "detail": json.dumps({"activation": name, "wait_ms": wait, "init_ms": init, "run_ms": 5})}
        for name, wait, init in cold
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=EVENTS)


def test_activations_are_joined_to_the_requests_whose_answers_name_them():
    rows = [request(100, 250, "a1"), request(200, 40, "a2"), request(300, None, "a3"), request(400, 90, "a4")]
    events = told_by_openwhisk(("a1", 20, 180), ("a3", 1, 1), ("a4", None, 60), ("elsewhere", 5, 5))
    found = activations.of_run(Folder(rows), events)
    assert found.requests["instance"].tolist() == ["a1", "a4"]
    assert found.requests["ttfb_s"].tolist() == pytest.approx([0.25, 0.09])
    phases = cold_starts.anatomy({"one": [found]})
    assert [(row.begin, row.end) for row in phases.itertuples()] == [
        (SENT, "started"), ("started", "ready"), ("ready", FIRST_BYTE),
    ]  # fmt: skip
    assert phases["mean_s"].tolist() == pytest.approx([0.01, 0.12, 0.04])
    assert phases["within_s"].tolist() == pytest.approx([0.001, 0.002, 0.001])


def test_answers_that_name_no_activation_are_joined_to_none():
    assert (
        activations.of_run(Folder([request(100, 250, "app-0")]), told_by_openwhisk(("a1", 20, 180))) is None
    )
    assert activations.of_run(Folder([request(100, 250, "a1")]), told_by_openwhisk()) is None
