"""Bytes that a deployment logged: response variables of a run, and bursts for figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.distribution import MICROSECOND_S
from towtank.analysis.model import Quantity
from towtank.store.run_record import RunRecord

VARIABLES = ("bytes_logged", "bytes_logged_per_s", "bytes_logged_per_request")
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
    Logs of hooks and of Towtank's own programs are not among the facts. A log of which more may have been written than
    was counted leaves nothing to be said: a number that is too small would look like thrift.
    """
    window = record.window
    counted = [log for log in record.logs if "bytes_in_window" in log]
    unknown = next((log for log in record.logs if log.get("incomplete")), None)
    if unknown is not None:
        reason = f"the log of {unknown['instance']} is not known to be whole: {unknown['incomplete']}"
        return dict.fromkeys(VARIABLES, Quantity(None, reason=reason))
    if window is None or not counted:
        return dict.fromkeys(VARIABLES, Quantity(None, reason="no output of the deployment was followed"))
    total = float(sum(int(log["bytes_in_window"]) for log in counted))
    window_s = (window.end_us - window.start_us) * MICROSECOND_S
    return {
        "bytes_logged": Quantity(total),
        "bytes_logged_per_s": Quantity(total / window_s)
        if window_s > 0
        else Quantity(None, reason="the measured window is empty"),
        "bytes_logged_per_request": Quantity(total / due)
        if due
        else Quantity(None, reason="no requests were due"),
    }


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
