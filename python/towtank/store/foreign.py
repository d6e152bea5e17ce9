"""`requests.parquet` from another tool's requests: sorted, in bounded memory, with null where nothing is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from towtank.errors import ResultsError
from towtank.load.importers.base import ROWS
from towtank.store import schemas
from towtank.store.duck import connect
from towtank.store.files import pattern_free, replacing, spill_folder

SORT_BYTES = 384 << 20
"""Memory that sorting may take."""
_BATCH_ROWS = 1 << 18
LONGEST_US = 7 * 86_400 * 1_000_000
"""Of one run, as in experiment files."""


@dataclass(frozen=True)
class Kept:
    """What was written.

    Parameters
    ----------
    rows : int
    zero_us : int
        Zero of the run on the tool's own clock, µs.
    last_us : int
        End of the last request, on the run clock.
    longest_us : int
        Longest time of a request.
    has_bytes_in, has_bytes_out : bool
        Whether any request has a number of bytes.
    """

    rows: int
    zero_us: int
    last_us: int
    longest_us: int
    has_bytes_in: bool
    has_bytes_out: bool


def write_requests(
    batches: Iterable[pa.RecordBatch],
    target: Path,
    *,
    workload: str,
    warmup_us: int,
    zero_us: int | None = None,
) -> Kept:
    """Write another tool's requests as ours.

    Parameters
    ----------
    batches : iterable of RecordBatch
        Columns of `load.importers.base.ROWS`, in any order.
    target : Path
    workload : str
        Name of the workload that they belong to.
    warmup_us : int
        Length of the warm-up at the beginning.
    zero_us : int, optional
        Zero of the run on the tool's clock; default is the first start.

    Raises
    ------
    ResultsError
        There is no request, or they lie further apart than a run can last.
    """
    with spill_folder(target.parent) as spill:
        seen = _Seen()
        with pq.ParquetWriter(spill / "rows.parquet", ROWS, compression="lz4") as writer:
            for batch in batches:
                if batch.num_rows:
                    writer.write_batch(seen.take(batch))
        if not seen.rows:
            raise ResultsError("there is not one request in it")
        zero = seen.first_us if zero_us is None else zero_us
        if seen.last_us - zero > LONGEST_US or seen.first_us < zero - LONGEST_US:
            raise ResultsError("its requests lie more than 7 days apart: that is no single run")
        _sort(spill / "rows.parquet", target, workload=workload, warmup_us=warmup_us, zero_us=zero)
    return Kept(
        rows=seen.rows, zero_us=zero, last_us=seen.last_us - zero, longest_us=seen.longest_us,
        has_bytes_in=seen.has_bytes_in, has_bytes_out=seen.has_bytes_out,
    )  # fmt: skip


class _Seen:
    """What a pass over the rows finds out."""

    def __init__(self) -> None:
        self.rows = 0
        self.first_us = 2**62
        self.last_us = -(2**62)
        self.longest_us = 0
        self.has_bytes_in = self.has_bytes_out = False

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Note what matters of some rows, and give them all columns."""
        columns = [
            batch.column(f.name) if f.name in batch.schema.names else pa.nulls(batch.num_rows, f.type)
            for f in ROWS
        ]
        whole = pa.RecordBatch.from_arrays(columns, schema=ROWS)
        start = whole.column("start_us").to_numpy()
        took = sum(
            whole.column(name).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            for name in ("ttfb_us", "after_ttfb_us")
        )
        self.rows += batch.num_rows
        self.first_us = min(self.first_us, int(start.min()))
        self.last_us = max(self.last_us, int((start + took).max()))
        self.longest_us = max(self.longest_us, int(np.max(took)))
        self.has_bytes_in |= whole.column("bytes_in").null_count < batch.num_rows
        self.has_bytes_out |= whole.column("bytes_out").null_count < batch.num_rows
        return whole


def _sort(rows: Path, target: Path, *, workload: str, warmup_us: int, zero_us: int) -> None:
    known = {name for name in ROWS.names if name in schemas.REQUESTS.names}
    given = {
        "scheduled_us": "start_us - $zero",
        "workload": "$workload",
        "warmup": "start_us - $zero < $warmup",
    }
    columns = ", ".join(
        f'{given.get(f.name, chr(34) + f.name + chr(34) if f.name in known else "NULL")} AS "{f.name}"'
        for f in schemas.REQUESTS
    )
    query = f"SELECT {columns} FROM read_parquet($rows, hive_partitioning = false) ORDER BY start_us"  # noqa: S608
    values = {"zero": zero_us, "workload": workload, "warmup": warmup_us, "rows": pattern_free(rows)}
    with (
        connect(memory_bytes=SORT_BYTES, temporary=rows.parent) as connection,
        replacing(target) as temporary,
        pq.ParquetWriter(temporary, schemas.REQUESTS, compression="zstd") as writer,
    ):
        for batch in connection.sql(query, params=values).to_arrow_reader(_BATCH_ROWS):
            writer.write_table(pa.Table.from_batches([batch]).cast(schemas.REQUESTS))
