"""oha: what `oha --output-format csv` prints (1.x).

A row is a request that got an answer; the others are in no row. `DNS+dialup` runs from the request's start until the
connection stood, name resolution and TLS included; it is 0 on a connection that served before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from towtank.load.importers import base
from towtank.load.importers.base import ANSWERS_ONLY, LAG_UNKNOWN, TIME_OF_DAY_UNKNOWN, Note, int32, micros
from towtank.load.importers.text import MOST_STATUS, Column, csv_batches

HEADER = "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status"
_COLUMNS = {
    "request-start": Column("time"), "DNS": Column("time"), "DNS+dialup": Column("time"),
    "Response-delay": Column("time"), "request-duration": Column("time"), "bytes": Column("whole"),
    "status": Column("whole", most=MOST_STATUS),
}  # fmt: skip
_CORRECTED = Note(
    "latency_correction_unknown",
    "made with --latency-correction, request-duration counts from when the request was due; the format does not say so",
)


class OhaCsv:
    """`oha --output-format csv`.

    Parameters
    ----------
    path : Path
    """

    tool = "oha"
    is_wall_clock = False
    timeout_s: float | None = None
    notes = (ANSWERS_ONLY, LAG_UNKNOWN, TIME_OF_DAY_UNKNOWN, _CORRECTED)

    def __init__(self, path: Path) -> None:
        self._path = path

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows as `base.Reader` says."""
        for batch in csv_batches(self._path, _COLUMNS):
            yield _read(batch)


def _read(batch: pa.RecordBatch) -> pa.RecordBatch:
    def numbers(name: str) -> base.Floats:
        found: base.Floats = batch.column(name).to_numpy(zero_copy_only=False)
        return found

    total, first = micros(numbers("request-duration")), micros(numbers("Response-delay"))
    dns, dial = micros(numbers("DNS")), micros(numbers("DNS+dialup"))
    reused = dial == 0
    no_first = (first == 0) | (first > total)
    return base.rows(
        {
            "start_us": micros(numbers("request-start")),
            "dns_us": int32(dns, reused),
            "connect_us": int32(np.maximum(dial - dns, 0), reused),
            "ttfb_us": int32(first, no_first),
            "after_ttfb_us": int32(np.where(no_first, total, total - first)),
            "status": batch.column("status"),
            "outcome": base.status_outcomes(batch.column("status").to_numpy(zero_copy_only=False)),
            "bytes_in": batch.column("bytes"),
            "step": pa.repeat("request", batch.num_rows),
            "reused": reused,
        }
    )
