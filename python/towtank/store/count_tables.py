"""Exact count tables and totals of a run, in one pass with bounded memory.

Counts are per (workload, step, outcome class, in window, time bin, variable, value in µs). Requests are sorted by
`scheduled_us`, so bins come one after the other: only the rows of one batch and the counts of one bin are in
memory at a time. Tables of any number of runs are merged by union and sum: nothing is rounded, so percentiles,
ECDFs and heat maps from merged counts are those of the pooled requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from towtank.errors import ResultsError
from towtank.store import schemas
from towtank.store.duck import connect
from towtank.store.files import pattern_free, replacing, spill_folder
from towtank.store.run_record import Window

Int64s = npt.NDArray[np.int64]

LONGEST_BIN_US = 10_000_000
"""Bins of a long run; short runs get finer ones."""
SHORTEST_BIN_US = 100_000
FEWEST_BINS, MOST_BINS = 40, 60
FAULT_BIN_US = 100_000
"""Bins in which recovery from a fault is looked for."""

_NICE_MS = (100, 200, 500, 1000, 2000, 5000)
_FAIR_MS = (150, 250, 300, 400, 600, 800, 1500, 2500, 3000, 4000, 6000, 8000)
_BATCH_ROWS = 1 << 18
SUM_BYTES = 384 << 20
"""Memory that summing may take."""
_ROWS_PER_GROUP = 1 << 19

# A key is [cell | value]: cell = [workload 8 | step 16 | outcome class 3 | in window 1], value < 2**35 µs (9 hours).
_VALUE_BITS = 35
_VALUE_MASK = (1 << _VALUE_BITS) - 1
_MOST_WORKLOADS, _MOST_STEPS = 1 << 8, 1 << 16

_READ = (
    "scheduled_us", "lag_us", "wait_us", "connect_us", "ttfb_us", "after_ttfb_us", "outcome", "workload", "step",
    "warmup",
)  # fmt: skip


def choose_bin_us(duration_us: int) -> int:
    """Choose the bin width of a run: 10 s, or a rounder, shorter step that gives 40–60 bins.

    Parameters
    ----------
    duration_us : int
        Length of the schedule, warm-up included, µs.

    Returns
    -------
    int
        µs, from 100 ms to 10 s.
    """
    if duration_us > MOST_BINS * _FAIR_MS[-1] * 1000:
        return LONGEST_BIN_US
    for steps in (_NICE_MS, _FAIR_MS):
        for step_ms in steps:
            if FEWEST_BINS <= duration_us / (step_ms * 1000) <= MOST_BINS:
                return step_ms * 1000
    return SHORTEST_BIN_US


def write_counts(
    requests: Path,
    target: Path,
    *,
    bin_us: int,
    window: Window | None,
    variables: Sequence[str] = schemas.VARIABLES,
) -> int:
    """Write `counts.parquet` of a run from its `requests.parquet`.

    Parameters
    ----------
    requests, target : Path
    bin_us : int
        Width of a time bin, µs, > 0.
    window : Window, optional
        The measured window; without one, what is not warm-up counts as inside.
    variables : sequence of str
        Only these of `schemas.VARIABLES`.

    Returns
    -------
    int
        Rows written.

    Raises
    ------
    ResultsError
        `requests` is damaged or not sorted by `scheduled_us`.
    """
    if bin_us <= 0:
        raise ValueError(f"bin_us must be > 0, found {bin_us}")
    table = _CountTable(requests, bin_us, window, variables)
    rows = 0
    with replacing(target) as temporary:
        writer_schema = schemas.dictionary_encoded(schemas.COUNTS)
        with pq.ParquetWriter(
            temporary, writer_schema, compression="zstd", store_schema=False,
            use_dictionary=["workload", "step", "outcome_class", "variable"],
            column_encoding={"value": "DELTA_BINARY_PACKED", "count": "DELTA_BINARY_PACKED"},
        ) as writer:  # fmt: skip
            for chunk in table.chunks():
                writer.write_table(chunk)
                rows += chunk.num_rows
    return rows


def write_totals(requests: Path, target: Path, *, window: Window | None) -> int:
    """Write `totals.parquet` of a run: exact sums per second of arrival and of completion.

    Returns
    -------
    int
        Rows written.
    """
    inside, parameters = window_sql(window)
    query = f"""
        SELECT workload, step, outcome, status, instance, {inside} AS in_window,
            floor(scheduled_us / 1e6)::INTEGER AS second,
            floor((scheduled_us + coalesce(lag_us, 0) + coalesce(wait_us, 0) + coalesce(ttfb_us, 0) + after_ttfb_us)
                / 1e6)::INTEGER
                AS end_second,
            count(*)::BIGINT AS count, sum(bytes_out)::BIGINT AS bytes_out, sum(bytes_in)::BIGINT AS bytes_in
        FROM read_parquet(?, hive_partitioning = false) GROUP BY ALL ORDER BY ALL"""  # noqa: S608 - fixed text
    rows = 0
    with (
        spill_folder(target.parent) as spill,
        connect(memory_bytes=SUM_BYTES, temporary=spill) as connection,
        replacing(target) as temporary,
        pq.ParquetWriter(temporary, schemas.TOTALS, compression="zstd") as writer,
    ):
        try:
            answer = connection.sql(query, params=[*parameters, pattern_free(requests)])
            for batch in answer.to_arrow_reader(_BATCH_ROWS):
                writer.write_table(pa.Table.from_batches([batch]).cast(schemas.TOTALS))
                rows += batch.num_rows
        except duckdb.Error as error:
            raise ResultsError(f"{requests} is damaged: {error}") from error
    return rows


def window_sql(window: Window | None) -> tuple[str, list[int]]:
    """SQL expression, with its parameters, that says whether a request belongs to the measured window."""
    if window is None:
        return "NOT warmup", []
    return "(scheduled_us >= ? AND scheduled_us < ?)", [window.start_us, window.end_us]


@dataclass
class _Codes:
    """Names → small integers, in order of appearance."""

    limit: int
    what: str
    names: list[str] = field(default_factory=list)

    def of(self, column: pa.DictionaryArray) -> Int64s:
        """Codes of a dictionary-encoded column."""
        local = [str(name) for name in column.dictionary.to_pylist()]
        for name in local:
            if name not in self.names:
                self.names.append(name)
        if len(self.names) > self.limit:
            raise ResultsError(f"more than {self.limit} different {self.what}s in one run")
        codes: Int64s = np.array([self.names.index(name) for name in local], dtype=np.int64)
        taken: Int64s = codes[column.indices.to_numpy()]
        return taken


class _CountTable:
    """Counts requests bin by bin."""

    def __init__(self, path: Path, bin_us: int, window: Window | None, variables: Sequence[str]) -> None:
        self._path = path
        self._bin_us = bin_us
        self._window = window
        self._workloads = _Codes(_MOST_WORKLOADS, "workload")
        self._steps = _Codes(_MOST_STEPS, "step")
        self._pending: dict[str, list[tuple[Int64s, Int64s]]] = {name: [] for name in variables}
        self._bin: int | None = None

    def chunks(self) -> Iterator[pa.Table]:
        """Tables of counts, each of about `_ROWS_PER_GROUP` rows."""
        finished: list[pa.Table] = []
        rows = 0
        for table in self._bins():
            finished.append(table)
            rows += table.num_rows
            if rows >= _ROWS_PER_GROUP:
                yield pa.concat_tables(finished).combine_chunks()
                finished, rows = [], 0
        if finished:
            yield pa.concat_tables(finished).combine_chunks()

    def _bins(self) -> Iterator[pa.Table]:
        for batch in _batches(self._path):
            scheduled = batch.column("scheduled_us").to_numpy()
            bins = scheduled // self._bin_us
            if np.any(bins[1:] < bins[:-1]) or (self._bin is not None and len(bins) and bins[0] < self._bin):
                raise ResultsError(f"{self._path} is damaged: it is not sorted by scheduled_us")
            cells = self._cells(batch, scheduled)
            values = _values(batch)
            starts = (
                np.concatenate(([0], np.flatnonzero(np.diff(bins)) + 1)) if len(bins) else np.empty(0, int)
            )
            for start, end in zip(starts, [*starts[1:], len(bins)], strict=True):
                if self._bin is not None and bins[start] != self._bin:
                    yield from self._finish()
                self._bin = int(bins[start])
                self._add(
                    cells[start:end],
                    {n: (v[start:end], m[start:end]) for n, (v, m) in values.items() if n in self._pending},
                )
        if self._bin is not None:
            yield from self._finish()

    def _cells(self, batch: pa.RecordBatch, scheduled: Int64s) -> Int64s:
        """Everything of a key but the value, as one integer a row."""
        outcome = batch.column("outcome")
        class_of = np.array(
            [
                schemas.OUTCOME_CLASSES.index(schemas.outcome_class(str(o)))
                for o in outcome.dictionary.to_pylist()
            ],
            dtype=np.int64,
        )
        if self._window is None:
            inside = ~batch.column("warmup").to_numpy(zero_copy_only=False).astype(bool)
        else:
            inside = (scheduled >= self._window.start_us) & (scheduled < self._window.end_us)
        cells = self._workloads.of(batch.column("workload"))
        cells = cells << 16 | self._steps.of(batch.column("step"))
        cells = cells << 3 | class_of[outcome.indices.to_numpy()]
        packed: Int64s = cells << 1 | inside
        return packed

    def _add(self, cells: Int64s, values: dict[str, tuple[Int64s, npt.NDArray[np.bool_]]]) -> None:
        for name, (value, present) in values.items():
            keys = (cells[present] << _VALUE_BITS) | value[present]
            if len(keys):
                self._pending[name].append(np.unique(keys, return_counts=True))

    def _finish(self) -> Iterator[pa.Table]:
        """Counts of the bin that is complete."""
        for name, parts in self._pending.items():
            if parts:
                keys, counts = parts[0] if len(parts) == 1 else _merge(parts)
                yield self._decode(schemas.VARIABLES.index(name), keys, counts)
            self._pending[name] = []

    def _decode(self, variable: int, keys: Int64s, counts: Int64s) -> pa.Table:
        cells = keys >> _VALUE_BITS
        n = len(keys)
        return pa.Table.from_arrays(
            [
                _named(cells >> 20, self._workloads.names),
                _named((cells >> 4) & 0xFFFF, self._steps.names),
                _named((cells >> 1) & 7, schemas.OUTCOME_CLASSES),
                pa.array((cells & 1).astype(bool)),
                pa.array(np.full(n, self._bin, dtype=np.int32)),
                _named(np.full(n, variable), schemas.VARIABLES),
                pa.array(keys & _VALUE_MASK),
                pa.array(counts.astype(np.int64)),
            ],
            names=schemas.COUNTS.names,
        ).cast(schemas.dictionary_encoded(schemas.COUNTS))


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(path, read_dictionary=["outcome", "workload", "step"]) as file:
            yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=list(_READ), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise ResultsError(f"{path} is damaged: {error}") from error


def _values(batch: pa.RecordBatch) -> dict[str, tuple[Int64s, npt.NDArray[np.bool_]]]:
    """Each variable of each row in µs, and whether it has one."""

    def column(name: str) -> tuple[Int64s, npt.NDArray[np.bool_]]:
        values = batch.column(name)
        present = values.is_valid().to_numpy(zero_copy_only=False)
        return values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), present

    lag, has_lag = column("lag_us")
    wait, has_wait = column("wait_us")
    ttfb, has_ttfb = column("ttfb_us")
    after, has_total = column("after_ttfb_us")
    total = ttfb + after  # without a first byte `after` is the whole total, and ttfb is null, here 0
    latency = lag + wait + np.where(has_total, total, 0)
    return {
        # Every request has one, also where no schedule is known (another tool's requests: from the actual start), and
        # where a failure has no time at all: it ranks above every success, whatever its value.
        "latency": (latency, np.ones(len(latency), dtype=bool)),
        "total": (total, has_total),
        "ttfb": (ttfb, has_ttfb),
        "connect": column("connect_us"),
        "lag": (lag, has_lag),
        "wait": (wait, has_wait),
    }


def _merge(parts: list[tuple[Int64s, Int64s]]) -> tuple[Int64s, Int64s]:
    """Union and sum."""
    keys = np.concatenate([k for k, _ in parts])
    counts = np.concatenate([c for _, c in parts])
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(keys)) + 1))
    return keys[starts], np.add.reduceat(counts, starts)


def _named(codes: Int64s, names: list[str] | tuple[str, ...]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(codes.astype(np.int32), pa.array(list(names), pa.string()))
