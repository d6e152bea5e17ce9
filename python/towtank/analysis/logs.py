"""Bytes that a deployment logged: response variables of a run, and bursts for figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.distribution import MICROSECOND_S
from towtank.analysis.model import Quantity
from towtank.store.run_record import LOGGED_IN_WINDOW, RunRecord

VARIABLES = ("bytes_logged", "bytes_logged_per_s", "bytes_logged_per_request")
_NOTHING = "no output of the deployment was followed"
SOURCE = "logs"
BURST = "log_burst"
MOST_BURSTS = 200
"""Of a run in figures; more would be a colour, not marks."""


def logged_values(record: RunRecord, due: int) -> dict[str, Quantity]:
    """What was logged in the measured window, from the facts of the run's logs.

    Parameters
    ----------
    record : RunRecord
        With a window.
    due : int
        Requests due in it.

    Notes
    -----
    Logs of hooks and of Towtank's own programs are not among the facts.
    """
    window, total = record.window, logged_bytes(record, LOGGED_IN_WINDOW)
    if window is None or total.value is None:
        return dict.fromkeys(VARIABLES, total if total.value is None else Quantity(None, reason=_NOTHING))
    window_s = (window.end_us - window.start_us) * MICROSECOND_S
    return {
        "bytes_logged": total,
        "bytes_logged_per_s": Quantity(total.value / window_s)
        if window_s > 0
        else Quantity(None, reason="the measured window is empty"),
        "bytes_logged_per_request": Quantity(total.value / due)
        if due
        else Quantity(None, reason="no requests were due"),
    }


def logged_bytes(record: RunRecord, fact: str) -> Quantity:
    """Bytes of all logs of a run together in a stretch of it; None with the reason where they are not known to be all.

    Parameters
    ----------
    record : RunRecord
    fact : str
        `LOGGED_IN_WINDOW` or `LOGGED_IN_DRIVE`.

    Notes
    -----
    A log of which more may have been written than was counted, or of which nobody knows when it was written, leaves
    nothing to be said: a number that is too small would look like thrift.
    """
    if not any(LOGGED_IN_WINDOW in log or log.get("incomplete") for log in record.logs):
        return Quantity(None, reason=_NOTHING)
    for log in record.logs:
        if log.get("incomplete"):
            return _unknown(log, f"is not known to be whole: {log['incomplete']}")
        if fact not in log and LOGGED_IN_WINDOW in log:
            return _unknown(log, "was counted by an older Towtank, which left out what came in the warm-up")
        if fact not in log and log.get("bytes_written") != 0:
            return _unknown(log, "has no times: how much of it came in the run is not known")
    return Quantity(float(sum(int(log.get(fact, 0)) for log in record.logs)))


def _unknown(log: Mapping[str, Any], why: str) -> Quantity:
    return Quantity(None, reason=f"the log of {log['instance']} {why}")


def bursts(events: pa.Table, *, treatment_id: str, run_id: str) -> list[dict[str, Any]]:
    """Bursts of a run for figures: treatment_id, run_id, t_s, instance, bytes."""
    mine = pc.and_(
        pc.equal(events["source"].cast(pa.string()), SOURCE),
        pc.equal(events["kind"].cast(pa.string()), BURST),
    )
    rows: Sequence[dict[str, Any]] = events.filter(mine).to_pylist()[:MOST_BURSTS]
    return [
        {
            "treatment_id": treatment_id,
            "run_id": run_id,
            "t_s": row["t_us"] * MICROSECOND_S,
            "instance": row["instance"],
            "bytes": int(json.loads(row["detail"] or "{}").get("bytes", 0)),
        }
        for row in rows
    ]
