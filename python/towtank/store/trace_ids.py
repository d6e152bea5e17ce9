"""Ids of traced requests, recomputed from the columns of a row: they are not stored (docs/job.md, *Trace ids*).

A request was traced when its draw is under the share that the experiment asked for (`generator.traceparent`, or the
step's own). Then its `traceparent` header was ``00-<trace_id>-<parent_id>-01``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from duckdb.func import PythonUDFType

Words = npt.NDArray[np.uint64]
Columns = Mapping[str, pa.Array | pa.ChunkedArray]

COLUMNS = ("run_id", "workload", "worker", "user", "iteration", "step", "scheduled_us")
"""What the ids follow from."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = 2**64 - 1


def fnv1a64(text: str) -> int:
    """Hash a text by FNV-1a with 64 bits."""
    state = _FNV_OFFSET
    for byte in text.encode():
        state = (state ^ byte) * _FNV_PRIME & _MASK
    return state


def mix(words: Words) -> Words:
    """Finalise as splitmix64 does, after adding the golden ratio."""
    with np.errstate(over="ignore"):
        word = words + _GOLDEN
        word = (word ^ (word >> np.uint64(30))) * _FIRST
        word = (word ^ (word >> np.uint64(27))) * _SECOND
        mixed: Words = word ^ (word >> np.uint64(31))
        return mixed


def hashes(columns: Columns, number: int) -> Words:
    """h(n) of every row; `number` is n."""
    size = len(columns["scheduled_us"])
    words = np.full(size, number, dtype=np.uint64)
    for name in COLUMNS:
        words = mix(words ^ _words(columns[name]))
    return words


def draws(columns: Columns) -> npt.NDArray[np.float64]:
    """Number in [0, 1) of every row: it was traced when that is under the share."""
    drawn: npt.NDArray[np.float64] = (hashes(columns, 0) >> np.uint64(11)).astype(np.float64) / 2.0**53
    return drawn


def trace_ids(columns: Columns) -> pa.Array:
    """Trace id of every row, 32 hex digits."""
    return _hex(hashes(columns, 1), hashes(columns, 2))


def parent_ids(columns: Columns) -> pa.Array:
    """Parent id of every row, 16 hex digits: the span of the request itself."""
    return _hex(hashes(columns, 3))


def _words(column: pa.Array | pa.ChunkedArray) -> Words:
    """A column as 64-bit words: texts hashed, each distinct one once."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        table = np.array([fnv1a64(str(name)) for name in coded.dictionary.to_pylist()], dtype=np.uint64)
        indices = pc.fill_null(coded.indices, 0).to_numpy(zero_copy_only=False)
        return table[indices] if table.size else np.zeros(len(column), dtype=np.uint64)
    numbers = pc.fill_null(column, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(numbers).view(np.uint64)


def _hex(*parts: Words) -> pa.Array:
    """Words as hex digits, most significant first."""
    width = 8 * len(parts)
    raw = np.stack(parts, axis=1).astype(">u8").tobytes().hex()
    return pa.array([raw[i : i + 2 * width] for i in range(0, len(raw), 2 * width)], pa.string())


_SQL_TYPES = ("VARCHAR", "VARCHAR", "INTEGER", "INTEGER", "INTEGER", "VARCHAR", "BIGINT")
_SQL: dict[str, tuple[Callable[[Columns], pa.Array], str]] = {
    "towtank_trace_id": (trace_ids, "VARCHAR"),
    "towtank_parent_id": (parent_ids, "VARCHAR"),
    "towtank_trace_draw": (lambda columns: pa.array(draws(columns)), "DOUBLE"),
}
"""Function of the views → what it works out, and its type."""


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions known to SQL; each takes `COLUMNS`, and is null where one of them is."""
    types: list[Any] = [duckdb.sqltype(name) for name in _SQL_TYPES]
    for name, (work, returned) in _SQL.items():
        connection.create_function(
            name, _of_columns(work), types, duckdb.sqltype(returned), type=PythonUDFType.ARROW
        )


def unregister(connection: duckdb.DuckDBPyConnection) -> None:
    """Let go of the functions: DuckDB counts what is left of them when the program ends as leaks, and says so."""
    for name in _SQL:
        with contextlib.suppress(duckdb.Error):
            connection.remove_function(name)


def _of_columns(work: Callable[[Columns], pa.Array]) -> Callable[..., pa.Array]:
    def called(  # noqa: PLR0917 - DuckDB counts the parameters
        run_id: pa.Array, workload: pa.Array, worker: pa.Array, user: pa.Array, iteration: pa.Array, step: pa.Array,
        scheduled_us: pa.Array,
    ) -> pa.Array:  # fmt: skip
        given = (run_id, workload, worker, user, iteration, step, scheduled_us)
        return work(dict(zip(COLUMNS, given, strict=True)))

    return called
