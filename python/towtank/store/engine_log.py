"""Reading the engine's logs of requests (docs/formats.md, 2), torn tails included.

A log grows while the engine runs. Whatever ends it early (a kill, a full disk, a damaged block) costs what comes
after that place and nothing before it.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from towtank.errors import NewerVersionError, ResultsError
from towtank.store import schemas
from towtank.store.duck import connect
from towtank.store.files import replacing

MAGIC = b"TTLG"
VERSION = 1
HEADER = struct.Struct("<4sHHIIII8s")
"""magic, version, kind, sequence, count, payload bytes, crc32 of the payload, zeros."""
ROWS, NAMES, END = 0, 1, 2
MAX_PAYLOAD_BYTES = 16 << 20

NONE_U32 = 2**32 - 1
"""This phase did not happen."""
NONE_INSTANCE = 2**16 - 1
REUSED, WARMUP, COLD_KNOWN, COLD, HTTP2 = 1, 2, 4, 8, 16
REDIRECTS_SHIFT = 5

ROW = np.dtype(
    [
        ("scheduled_us", "<i8"),
        ("lag_us", "<u4"),
        ("wait_us", "<u4"),
        ("dns_us", "<u4"),
        ("connect_us", "<u4"),
        ("tls_us", "<u4"),
        ("ttfb_us", "<u4"),
        ("after_ttfb_us", "<u4"),
        ("bytes_out", "<u4"),
        ("bytes_in", "<u4"),
        ("iteration", "<u4"),
        ("user", "<u4"),
        ("status", "<u2"),
        ("step", "<u2"),
        ("instance", "<u2"),
        ("outcome", "u1"),
        ("workload", "u1"),
        ("target", "u1"),
        ("worker", "u1"),
        ("attempt", "u1"),
        ("flags", "u1"),
    ]
)
"""One request, 64 bytes, little-endian."""

_NAMED = ("workload", "step", "target", "instance", "outcome")
_PHASES = ("dns_us", "connect_us", "tls_us", "ttfb_us", "after_ttfb_us")
_INT32_MAX = 2**31 - 1
_ROWS_AT_ONCE = 1 << 16
SORT_BYTES = 512 << 20
"""Memory that sorting logs may take."""

Rows = npt.NDArray[np.void]


@dataclass
class LogEnd:
    """How a log ends; filled in while it is read.

    Parameters
    ----------
    path : Path
    rows : int
        Good rows.
    whole : bool
        The engine finished it: its `end` batch is there and agrees with the number of rows.
    reason : str
        Why it is not whole; empty when it is.
    run : dict
        Facts of the run that the engine wrote at its start (log 0).
    """

    path: Path
    rows: int = 0
    whole: bool = False
    reason: str = ""
    run: dict[str, Any] = field(default_factory=dict)


def read_log(path: Path, end: LogEnd | None = None) -> Iterator[pa.RecordBatch]:
    """Rows of one log in the order in which they were written, as batches of `schemas.REQUESTS`.

    Parameters
    ----------
    path : Path
    end : LogEnd, optional
        Learns how the log ends.

    Raises
    ------
    NewerVersionError
        The log's format is a newer one.
    ResultsError
        The file cannot be read at all.
    """
    end = end if end is not None else LogEnd(path)
    names: dict[str, dict[int, str]] = {kind: {} for kind in _NAMED}
    gathered: list[Rows] = []
    waiting = 0
    for kind, payload in _batches(path, end):
        if kind == NAMES:
            if gathered:  # names may be given anew; what waits was written under the old ones
                yield _resolve(np.concatenate(gathered), names)
                gathered, waiting = [], 0
            if not _learn(payload, names, end):
                end.reason = f"damaged names after {end.rows} rows"
                return
            continue
        rows = np.frombuffer(payload, dtype=ROW)
        gathered.append(rows)
        waiting += len(rows)
        if waiting >= _ROWS_AT_ONCE:
            yield _resolve(np.concatenate(gathered), names)
            gathered, waiting = [], 0
    if gathered:
        yield _resolve(np.concatenate(gathered), names)


def read_logs(paths: Sequence[Path], ends: list[LogEnd] | None = None) -> Iterator[pa.RecordBatch]:
    """Rows of several logs, one log after the other."""
    for path in paths:
        end = LogEnd(path)
        if ends is not None:
            ends.append(end)
        yield from read_log(path, end)


def compact(paths: Sequence[Path], target: Path, *, temporary: Path) -> list[LogEnd]:
    """Merge logs into one Parquet file sorted by `scheduled_us`, as the engine does after a run.

    The logs stay; memory is bounded (larger sorts spill to `temporary`). Repeating it is harmless.

    Parameters
    ----------
    paths : sequence of Path
        The logs of one run.
    target : Path
        The Parquet file; replaced atomically.
    temporary : Path
        An existing folder for spilled data.

    Returns
    -------
    list of LogEnd
        How each log ended.
    """
    ends: list[LogEnd] = []
    reader = pa.RecordBatchReader.from_batches(schemas.REQUESTS, read_logs(paths, ends))
    with connect(memory_bytes=SORT_BYTES, temporary=temporary) as connection, replacing(target) as file:
        connection.register("log_rows", reader)
        quoted = str(file).replace("'", "''")
        connection.execute(
            'COPY (SELECT * FROM log_rows ORDER BY scheduled_us, worker, "user", iteration, attempt) '  # noqa: S608
            f"TO '{quoted}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 1048576)"
        )
    return ends


def _batches(path: Path, end: LogEnd) -> Iterator[tuple[int, memoryview]]:
    """Good batches of rows and names; says in `end` where and why it stopped."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size == 0:
                end.reason = "empty"
                return
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as mapped:
                content = memoryview(mapped)
                try:
                    yield from _walk(content, end)
                finally:
                    content.release()
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror}") from error


def _walk(content: memoryview, end: LogEnd) -> Iterator[tuple[int, memoryview]]:
    at, sequence = 0, 0
    while at + HEADER.size <= len(content):
        magic, version, kind, number, count, payload_bytes, crc32, zeros = HEADER.unpack_from(content, at)
        # Damage may hit the version too; only a log that begins with it is a newer one's.
        if at == 0 and magic == MAGIC and version > VERSION:
            raise NewerVersionError(
                f"{end.path} has log format {version}; this Towtank reads up to {VERSION}",
                hint="read it with the version that wrote it, or a newer one",
            )
        start, stop = at + HEADER.size, at + HEADER.size + payload_bytes
        known = magic == MAGIC and version == VERSION and kind <= END and zeros == bytes(8)
        if not known or payload_bytes > MAX_PAYLOAD_BYTES:
            end.reason = f"damaged at byte {at}"
            return
        if stop > len(content):
            break
        # A copy: what is yielded must not keep the mapping alive.
        payload = bytes(content[start:stop])
        wrong_size = kind == ROWS and payload_bytes != count * ROW.itemsize
        if zlib.crc32(payload) != crc32 or number != sequence or wrong_size:
            end.reason = f"damaged at byte {at}"
            return
        if kind == END:
            said = int.from_bytes(payload[:8], "little")
            end.whole = said == end.rows
            end.reason = "" if end.whole else f"its end says {said} rows, {end.rows} were found"
            return
        if kind == ROWS:
            end.rows += count
        yield kind, memoryview(payload)
        at, sequence = stop, sequence + 1
    end.reason = f"cut off at byte {at}"


def _learn(payload: memoryview, names: dict[str, dict[int, str]], end: LogEnd) -> bool:
    """Take in a names batch; False when it makes no sense. One of an unknown kind needs no reader."""
    try:
        content = json.loads(bytes(payload))
        kind = content["kind"]
        if kind == "run":
            end.run.update(content["run"])
        elif kind in names:
            names[kind].update({int(number): str(name) for number, name in content["names"].items()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False
    return True


def _resolve(rows: Rows, names: dict[str, dict[int, str]]) -> pa.RecordBatch:
    """Rows of the log → rows of the Parquet schema."""
    columns: dict[str, Any] = {"scheduled_us": rows["scheduled_us"]}
    for column in ("lag_us", "wait_us"):
        columns[column] = np.minimum(rows[column], _INT32_MAX).astype(np.int32)
    for column in _PHASES:
        columns[column] = _nullable(np.minimum(rows[column], _INT32_MAX), rows[column] == NONE_U32)
    columns["status"] = _nullable(rows["status"], rows["status"] == 0)
    for column in ("bytes_out", "bytes_in"):
        columns[column] = rows[column].astype(np.int64)
    for column in _NAMED:
        none = rows["instance"] == NONE_INSTANCE if column == "instance" else None
        columns[column] = _texts(rows[column], names[column], none)
    for column in ("user", "iteration", "worker", "attempt"):
        columns[column] = rows[column].astype(np.int32)
    flags = rows["flags"]
    columns["http_version"] = _texts((flags & HTTP2) != 0, {0: "1.1", 1: "2"}, None)
    columns["redirects"] = (flags >> REDIRECTS_SHIFT).astype(np.int32)
    columns["reused"] = (flags & REUSED) != 0
    columns["warmup"] = (flags & WARMUP) != 0
    columns["cold"] = pa.array((flags & COLD) != 0, mask=(flags & COLD_KNOWN) == 0)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(columns[f.name], type=f.type) if f.name != "cold" else columns[f.name]
            for f in schemas.REQUESTS
        ],
        schema=schemas.REQUESTS,
    )


def _nullable(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(values.astype(np.int32), mask=missing)


def _texts(ids: npt.NDArray[Any], names: dict[int, str], missing: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Names of ids; an id that the log never named shows as ``#7``, so that its rows are not lost."""
    distinct, codes = np.unique(ids, return_inverse=True)
    texts = pa.array([names.get(int(number), f"#{int(number)}") for number in distinct], pa.string())
    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=missing), texts
    ).dictionary_decode()
