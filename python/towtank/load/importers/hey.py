"""hey: what `hey -o csv` prints.

A row is an answer that arrived; requests that failed are in no row. Times have four decimals of a second.
`DNS+dialup` holds the name resolution, the connect and the TLS handshake; it reads 0 on a connection that
served before, and also when it took less than half of the last decimal.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from towtank.load.importers import base
from towtank.load.importers.base import ANSWERS_ONLY, LAG_UNKNOWN, TIME_OF_DAY_UNKNOWN, Note, int32, micros
from towtank.load.importers.text import MOST_STATUS, Column, csv_batches

HEADER = "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset"
MOST_ROWS = 1_000_000
"""hey keeps the first million answers of a run and forgets the others."""
_COLUMNS = {
    "response-time": Column("time"), "DNS+dialup": Column("number"), "DNS": Column("number"),
    "Request-write": Column("number"), "Response-delay": Column("number"), "Response-read": Column("time"),
    "status-code": Column("whole", most=MOST_STATUS), "offset": Column("time"),
}  # fmt: skip


class HeyCsv:
    """`hey -o csv`.

    Parameters
    ----------
    path : Path
    """

    tool = "hey"
    is_wall_clock = False
    timeout_s: float | None = 20.0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = 0
        self._impossible = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows as `base.Reader` says."""
        for batch in csv_batches(self._path, _COLUMNS):
            self._rows += batch.num_rows
            yield self._read(batch)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What must be said."""
        found = [
            ANSWERS_ONLY,
            LAG_UNKNOWN,
            TIME_OF_DAY_UNKNOWN,
            Note(
                "times_in_100_us", "hey writes times with four decimals of a second: they are exact to 50 µs"
            ),
        ]
        if self._impossible:
            found.append(
                Note(
                    "impossible_phases",
                    f"{self._impossible} values of DNS+dialup were longer than their request, and left out",
                    "a known fault of hey's with HTTP/2; the response times are not touched by it",
                )
            )
        if self._rows >= MOST_ROWS:
            found.append(
                Note(
                    "rows_capped",
                    f"hey keeps {MOST_ROWS:,} answers of a run: what came later is missing",
                    "make shorter runs",
                    spoils=True,
                )
            )
        return tuple(found)

    def _read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        def numbers(name: str) -> base.Floats:
            found: base.Floats = batch.column(name).to_numpy(zero_copy_only=False)
            return found

        total, read, dial, dns = (
            numbers(name) for name in ("response-time", "Response-read", "DNS+dialup", "DNS")
        )
        impossible = (dial > total) | (dial < 0) | (dns > dial) | (dns < 0)
        self._impossible += int(impossible.sum())
        after = np.minimum(read, total)
        no_dial, no_dns = impossible | (dial == 0), impossible | (dns == 0)
        return base.rows(
            {
                "start_us": micros(numbers("offset")),
                "dns_us": int32(micros(np.where(no_dns, 0, dns)), no_dns),
                "connect_us": int32(micros(np.where(no_dial, 0, dial - dns)), no_dial),
                "ttfb_us": int32(micros(total) - micros(after)),
                "after_ttfb_us": int32(micros(after)),
                "status": batch.column("status-code"),
                "outcome": base.status_outcomes(numbers("status-code").astype(np.int64)),
                "step": pa.repeat("request", batch.num_rows),
            }
        )
