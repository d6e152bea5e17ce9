"""The requests of a run that carried a trace id, with their ids: what spans are joined to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from towtank.store import trace_ids
from towtank.store.schemas import REQUESTS

TRACED = pa.schema(
    [
        ("trace_id", pa.string()),
        ("parent_id", pa.string()),
        ("workload", pa.string()),
        ("step", pa.string()),
        ("scheduled_us", pa.int64()),
        ("started_us", pa.int64()),
        ("ended_us", pa.int64()),
        ("answered", pa.bool_()),
    ]
)
"""`started_us` is when the request was sent; `answered`: with any status, so that somebody must have served it."""

Shares = Mapping[tuple[str, str], float]
"""Workload and step → share of its requests that carry a trace id."""


def traced_requests(batches: Iterable[pa.RecordBatch], run_id: str, shares: Shares) -> pa.Table:
    """Sent requests that carried a trace id.

    Parameters
    ----------
    batches : iterable of RecordBatch
        All requests of the run, as `RunFolder.request_batches` streams them.
    run_id : str
    shares : mapping

    Returns
    -------
    pyarrow.Table
        Columns of `TRACED`; empty when no request was to be traced.
    """
    found = list(_traced(batches, run_id, shares)) if shares else []
    return pa.concat_tables(found) if found else TRACED.empty_table()


def _traced(batches: Iterable[pa.RecordBatch], run_id: str, shares: Shares) -> Iterator[pa.Table]:
    for batch in batches:
        rows = pa.Table.from_batches([batch]).cast(REQUESTS)
        mask = _was_traced(rows, run_id, shares)
        if mask.any():
            yield _with_ids(rows.filter(pa.array(mask)), run_id)


def _was_traced(rows: pa.Table, run_id: str, shares: Shares) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Where the request was sent, and its draw is under the share of its step."""
    sent = pc.is_valid(rows["after_ttfb_us"]).to_numpy(zero_copy_only=False)
    asked = np.zeros(rows.num_rows)
    for (workload, step), share in shares.items():
        mine = pc.and_(pc.equal(rows["workload"], workload), pc.equal(rows["step"], step))
        asked[pc.fill_null(mine, fill_value=False).to_numpy(zero_copy_only=False)] = share
    chosen = np.asarray(sent & (asked > 0), dtype=bool)
    if chosen.any():
        chosen[chosen] = trace_ids.draws(_keyed(rows.filter(pa.array(chosen)), run_id)) < asked[chosen]
    return chosen


def _with_ids(rows: pa.Table, run_id: str) -> pa.Table:
    keyed = _keyed(rows, run_id)
    started = pc.add(rows["scheduled_us"], pc.add(_number(rows, "lag_us"), _number(rows, "wait_us")))
    total = pc.add(_number(rows, "ttfb_us"), _number(rows, "after_ttfb_us"))
    columns = {
        "trace_id": trace_ids.trace_ids(keyed),
        "parent_id": trace_ids.parent_ids(keyed),
        "workload": rows["workload"],
        "step": rows["step"],
        "scheduled_us": rows["scheduled_us"],
        "started_us": started,
        "ended_us": pc.add(started, total),
        "answered": pc.is_valid(rows["status"]),
    }
    return pa.table(columns).cast(TRACED)


def _number(rows: pa.Table, name: str) -> pa.ChunkedArray:
    return pc.fill_null(rows[name].cast(pa.int64()), 0)


def _keyed(rows: pa.Table, run_id: str) -> dict[str, pa.Array | pa.ChunkedArray]:
    """What ids follow from: columns of the rows, and the run."""
    run = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows.num_rows, dtype=np.int32)), pa.array([run_id])
    )
    return {name: run if name == "run_id" else rows[name] for name in trace_ids.COLUMNS}
