"""The requests that carried a trace id: the same that the views and the engine name."""

from __future__ import annotations

import pyarrow as pa

from towtank.store import trace_ids
from towtank.store.schemas import REQUESTS
from towtank.store.traced import TRACED, traced_requests


def batch(number: int) -> pa.RecordBatch:
    rows = [
        {
            "scheduled_us": i * 1000, "lag_us": 5, "wait_us": 7, "ttfb_us": 100, "after_ttfb_us": 50, "status": 200,
            "outcome": "answered", "workload": "shop", "step": "buy" if i % 2 else "look", "user": i, "iteration": 0,
            "worker": 0, "bytes_out": 1, "bytes_in": 1, "target": "app", "attempt": 1, "reused": True, "warmup": False,
            **({"ttfb_us": None, "after_ttfb_us": None, "status": None, "outcome": "not_sent"} if i % 10 == 3 else {}),
            **({"ttfb_us": None, "status": None, "outcome": "timeout:answer"} if i % 10 == 5 else {}),
        }
        for i in range(number)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=REQUESTS)


def ids_of(rows: pa.RecordBatch) -> dict[int, tuple[str, str, float]]:
    """Scheduled → trace, parent, draw, from the columns of the whole table."""
    columns = {name: rows.column(name) for name in trace_ids.COLUMNS if name != "run_id"}
    keyed = {"run_id": pa.array(["r1"] * rows.num_rows), **columns}
    parts = (
        trace_ids.trace_ids(keyed).to_pylist(),
        trace_ids.parent_ids(keyed).to_pylist(),
        trace_ids.draws(keyed),
    )
    return dict(zip(rows.column("scheduled_us").to_pylist(), zip(*parts, strict=True), strict=True))


def test_ids_and_times_of_what_was_sent() -> None:
    rows = batch(1000)
    found = traced_requests([rows.slice(0, 300), rows.slice(300)], "r1", {("shop", "buy"): 1.0}).to_pylist()
    known = ids_of(rows)
    assert [row["scheduled_us"] for row in found] == [i * 1000 for i in range(1, 1000, 2) if i % 10 != 3]
    assert all((row["trace_id"], row["parent_id"]) == known[row["scheduled_us"]][:2] for row in found)
    assert {row["step"] for row in found} == {"buy"}
    first = found[0]
    assert (first["started_us"] - first["scheduled_us"], first["ended_us"] - first["started_us"]) == (12, 150)
    timed_out = next(row for row in found if row["scheduled_us"] == 5000)
    assert not timed_out["answered"]
    assert timed_out["ended_us"] - timed_out["started_us"] == 50


def test_only_the_share_of_each_step() -> None:
    rows = batch(4000)
    known = ids_of(rows)
    shares = {("shop", "buy"): 0.25, ("shop", "look"): 0.5, ("other", "look"): 1.0}
    found = traced_requests([rows], "r1", shares).to_pylist()
    wanted = {
        due for due, (_, _, draw) in known.items()
        if draw < (0.25 if due // 1000 % 2 else 0.5) and due // 1000 % 10 != 3
    }  # fmt: skip
    assert {row["scheduled_us"] for row in found} == wanted
    assert 700 < len(wanted) < 1700


def test_nothing_is_traced() -> None:
    assert traced_requests([batch(10)], "r1", {}).schema == TRACED
    assert traced_requests([], "r1", {("shop", "buy"): 1.0}).num_rows == 0
    assert traced_requests([batch(10)], "r1", {("shop", "pay"): 1.0}).num_rows == 0
