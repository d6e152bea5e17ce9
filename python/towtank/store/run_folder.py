"""One attempt of a run as its folder holds it: requests, samples, events, spans, counts and logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from towtank.errors import ResultsError
from towtank.store import engine_log, schemas
from towtank.store.kept_tables import check_parquet, inside, read_table, table_or_stream
from towtank.store.layout import RunLayout
from towtank.store.run_record import RunRecord

if TYPE_CHECKING:  # takes long to import, and `towtank sql` needs none
    import pyarrow.dataset as ds

_SECOND_US = 1_000_000


@dataclass(frozen=True)
class RunFolder:
    """One attempt of one planned run.

    Parameters
    ----------
    layout : RunLayout
    record : RunRecord
    later_us : int, optional
        Where the measured window begins if that is later than what its tables were made for; see `later`.
    """

    layout: RunLayout
    record: RunRecord
    later_us: int | None = None

    def later(self, record: RunRecord, start_us: int) -> RunFolder:
        """Take the same attempt with a window that begins later, which `record` says too.

        Parameters
        ----------
        record : RunRecord
        start_us : int
            On an edge of a time bin and of a second: count tables know nothing finer.
        """
        if start_us % self.record.bin_us or start_us % _SECOND_US:
            raise ValueError(f"{start_us} µs is no edge of a second and of bins of {self.record.bin_us} µs")
        return replace(self, record=record, later_us=start_us)

    @property
    def run_id(self) -> str:
        """Name of the folder."""
        return self.layout.run_id

    @property
    def path(self) -> Path:
        """The folder."""
        return self.layout.path

    def requests(self) -> ds.Dataset:
        """One row a request: from Parquet, or from the engine's logs if the run was killed.

        Parquet is streamed. Logs are read into memory; `request_batches` streams both.
        """
        import pyarrow.dataset as ds  # noqa: PLC0415

        if self.layout.requests.exists():
            check_parquet(self.layout.requests, schemas.REQUESTS)
            return ds.dataset(self.layout.requests, format="parquet")
        return ds.dataset(pa.Table.from_batches(self.request_batches(), schema=schemas.REQUESTS))

    def request_batches(self) -> Iterator[pa.RecordBatch]:
        """Stream the requests: sorted by `scheduled_us` from Parquet, as written by the threads from logs."""
        path = self.layout.requests
        if not path.exists():
            for log in self.layout.thread_logs():
                inside(log, self.path)
            yield from engine_log.read_logs(self.layout.thread_logs())
            return
        check_parquet(path, schemas.REQUESTS)
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=schemas.REQUESTS.names):
                    yield from pa.Table.from_batches([batch]).cast(schemas.REQUESTS).to_batches()
        except (pa.ArrowException, OSError) as error:
            raise ResultsError(f"{path} is damaged: {error}") from error

    def samples(self) -> pa.Table:
        """Numbers observed, in the order of their times; empty when nothing was observed."""
        return table_or_stream(self.layout.samples, self.layout.samples_stream, schemas.SAMPLES)

    def events(self) -> pa.Table:
        """What happened, in the order of its times."""
        return table_or_stream(self.layout.events, self.layout.events_stream, schemas.EVENTS)

    def spans(self) -> pa.Table:
        """Spans by their start; empty where no source kept any."""
        return read_table(self.layout.spans, schemas.SPANS)

    def counts(self, variables: Sequence[str] | None = None) -> pa.Table:
        """Exact count tables; empty when no load was driven.

        Parameters
        ----------
        variables : sequence of str, optional
            Only these of `schemas.VARIABLES`; a long run has millions of rows.

        Returns
        -------
        pyarrow.Table
            Columns of `schemas.COUNTS`; texts are dictionary-encoded, 4 bytes a row.
        """
        self._require(self.layout.counts)
        filters = None if variables is None else [("variable", "in", list(variables))]
        table = read_table(self.layout.counts, schemas.dictionary_encoded(schemas.COUNTS), filters)
        return self._in_later_window(table, "bin", self.record.bin_us)

    def fault_counts(self) -> pa.Table:
        """Exact counts of latency in bins of `count_tables.FAULT_BIN_US`; empty where no fault was planned."""
        if self.record.faults:
            self._require(self.layout.fault_counts)
        return read_table(self.layout.fault_counts, schemas.dictionary_encoded(schemas.COUNTS))

    def totals(self) -> pa.Table:
        """Exact sums; empty when no load was driven."""
        self._require(self.layout.totals)
        return self._in_later_window(read_table(self.layout.totals, schemas.TOTALS), "second", _SECOND_US)

    def _in_later_window(self, table: pa.Table, column: str, width_us: int) -> pa.Table:
        """The table with what was due before a later start out of the window."""
        if self.later_us is None:
            return table
        import pyarrow.compute as pc  # noqa: PLC0415 - as above

        behind = pc.greater_equal(table[column], self.later_us // width_us)
        index = table.schema.get_field_index("in_window")
        return table.set_column(index, table.schema.field(index), pc.and_(table["in_window"], behind))

    def _require(self, path: Path) -> None:
        """Refuse a complete run whose requests are there and whose sums are not: it would seem to have had no load."""
        if self.record.state == "complete" and self.layout.requests.exists() and not path.exists():
            raise ResultsError(
                f"{path} is missing: it was written when the run was complete",
                hint="restore it, or move the folder of this run away and repeat the run",
            )

    @property
    def logs(self) -> dict[str, Path]:
        """Instance → the file with its output."""
        if not self.layout.logs.is_dir():
            return {}
        return {
            p.stem: p for p in sorted(self.layout.logs.glob("*.log")) if p.is_file() and not p.is_symlink()
        }
