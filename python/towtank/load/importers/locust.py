"""Locust: the log of requests that `locust.contrib.csv_request_logger` writes (2.44 and later).

The files of ``--csv`` hold sums and rounded percentiles over ten seconds; no request can be made of them again, so they
are refused with a word on how to get the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from towtank.load.importers import base
from towtank.load.importers.base import LAG_UNKNOWN, Note, int32, micros
from towtank.load.importers.errors_said import outcomes_of
from towtank.load.importers.text import MOST_STATUS, Column, csv_batches

HEADER = "timestamp,request_type,name,response_time_ms,response_length,status_code,exception"
AGGREGATED = (
    "Timestamp,User Count,",
    "Type,Name,Request Count,",
    "Method,Name,Error,",
    "Count,Message,Traceback,",
)
"""How the files of ``--csv`` begin."""
ADVICE = (
    "let Locust log its requests: `from locust.contrib.csv_request_logger import CsvRequestLogger` in the locustfile, "
    'and `CsvRequestLogger("requests.csv").register(environment)` in a listener of events.init'
)
_COLUMNS = {
    "timestamp": Column("time"), "request_type": Column("text"), "name": Column("text"),
    "response_time_ms": Column("time", optional=True), "response_length": Column("whole", optional=True),
    "status_code": Column("whole", most=MOST_STATUS), "exception": Column("text"),
}  # fmt: skip
_PRECISION = Note("times_in_10_us", "Locust writes response times with two decimals of a millisecond")


class LocustLog:
    """A log of requests.

    Parameters
    ----------
    path : Path
    """

    tool = "locust"
    is_wall_clock = True
    timeout_s: float | None = 60.0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._timeless = 0

    @property
    def notes(self) -> tuple[Note, ...]:
        """What must be said."""
        if not self._timeless:
            return (LAG_UNKNOWN, _PRECISION)
        left_out = f"{self._timeless:,} events of the log have no response time and are no requests: they were left out"
        return (LAG_UNKNOWN, _PRECISION, Note("events_without_time", left_out))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows as `base.Reader` says."""
        for batch in csv_batches(self._path, _COLUMNS):
            timed = batch.filter(batch.column("response_time_ms").is_valid())
            self._timeless += batch.num_rows - timed.num_rows
            yield _read(timed)


def _read(batch: pa.RecordBatch) -> pa.RecordBatch:
    total = micros(batch.column("response_time_ms").to_numpy(zero_copy_only=False), per_second=1e3)
    status = batch.column("status_code").to_numpy(zero_copy_only=False)
    return base.rows(
        {
            "start_us": micros(batch.column("timestamp").to_numpy(zero_copy_only=False)),
            "after_ttfb_us": int32(total),
            "status": pa.array(status.astype(np.int32), mask=status == 0),
            "outcome": _outcomes(status, batch.column("exception")),
            "bytes_in": batch.column("response_length"),
            "step": pc.binary_join_element_wise(batch.column("request_type"), batch.column("name"), " "),
        }
    )


def _outcomes(status: np.ndarray, exception: pa.Array) -> pa.Array:
    """Locust calls a request failed when it has an exception, whatever its status."""
    failed = pc.not_equal(exception, "")
    failed_status = pa.array(status >= 400)
    no_answer = pa.array(status == 0)
    return pc.if_else(
        pc.invert(failed),
        "answered",
        pc.if_else(
            no_answer, outcomes_of(exception), pc.if_else(failed_status, "check:status", "check:script")
        ),
    )
