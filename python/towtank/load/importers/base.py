"""What every reader of another tool's file gives: rows of one schema, and what must be said about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from towtank.errors import ForeignFileError
from towtank.request_columns import REQUESTS

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_GIVEN = (
    "dns_us", "connect_us", "tls_us", "ttfb_us", "after_ttfb_us", "status", "outcome", "bytes_out", "bytes_in", "step",
    "target", "user", "iteration", "http_version", "reused",
)  # fmt: skip
"""Columns that other tools may know something about; the rest is of our engine only."""
ROWS = pa.schema([("start_us", pa.int64()), *(REQUESTS.field(name) for name in _GIVEN)])
"""One row a request, as in docs/formats.md §2 but for `start_us`: the actual start, µs since the epoch or since the
tool's own start. Columns that a format does not know may be left away; they are null then."""

_BETWEEN = "\x1f"
INT32_MAX = 2**31 - 1
NO_TARGET = ""
"""Where a format does not say whom it asked."""


@dataclass(frozen=True)
class Note:
    """Something that the reader of an imported result must know.

    Parameters
    ----------
    name : str
        Stable: tests, docs and reports refer to it.
    message : str
    advice : str
    spoils : bool
        Numbers are wrong because of it, not just less precise: the run counts as suspect.
    """

    name: str
    message: str
    advice: str = ""
    spoils: bool = False


class Reader(Protocol):
    """One file of another tool, open for one pass."""

    @property
    def tool(self) -> str:
        """Name of the tool, such as k6."""

    @property
    def is_wall_clock(self) -> bool:
        """Whether `start_us` counts from the epoch; known when all batches have been read."""

    @property
    def notes(self) -> Sequence[Note]:
        """What must be said; complete when all batches have been read."""

    @property
    def timeout_s(self) -> float | None:
        """The tool's own default timeout; None when it has none."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows in the order of the file; columns are a part of `ROWS`, `start_us` and `outcome` always among them.

        Raises
        ------
        ForeignFileError
            Something else than this format, or cut off: names line and column.
        """


def refuse(path: Path, what: str, *, line: int | None = None, hint: str | None = None) -> ForeignFileError:
    """Make the error for a file that cannot be imported."""
    place = f"{path}:{line}" if line is not None else str(path)
    return ForeignFileError(f"{place}: {what}", hint=hint or "nothing was imported")


def micros(seconds: Floats, *, per_second: float = 1e6) -> npt.NDArray[np.int64]:
    """Whole microseconds of an array of times."""
    return np.rint(seconds * per_second).astype(np.int64)


def refuse_line(path: Path, tool: str, error: Exception, line: int) -> ForeignFileError:
    """Make the error about a line of JSON that is not what the tool writes: no JSON, no such key, or another value."""
    what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return refuse(path, f"is no {tool}: {what}", line=line)


def int32(values: npt.NDArray[np.int64], missing: Bools | None = None) -> pa.Array:
    """Column of times: what is longer than the column can hold is its most (36 minutes), as in the engine's files."""
    return pa.array(np.minimum(values, INT32_MAX).astype(np.int32), mask=missing)


def rows(columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Make a batch of the columns that a format has."""
    fields = [field for field in ROWS if field.name in columns]
    arrays = [_as(columns[field.name], field.type) for field in fields]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _as(values: object, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


def step_and_target(method: str, url: str, name: str = "") -> tuple[str, str]:
    """How a request is called, and whom it asks: the tool's own name where the script gave one, else method and path.

    The query is no part of a name: it would make a step of every request.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # the tool wrote what is no address
        return name or f"{method} {url[:200]}".strip(), NO_TARGET
    target = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else NO_TARGET
    if name and (name != url or target == NO_TARGET):
        return name, target
    return f"{method} {parts.path or '/'}".strip(), target


def steps_and_targets(
    methods: pa.Array, urls: pa.Array, names: pa.Array | None = None
) -> tuple[pa.Array, pa.Array]:
    """`step_and_target` of columns; each different combination is looked at once."""
    parts = [methods, urls] if names is None else [methods, urls, names]
    keys = pc.dictionary_encode(pc.binary_join_element_wise(*parts, _BETWEEN))
    found = [step_and_target(*key.split(_BETWEEN)) for key in keys.dictionary.to_pylist()]
    steps, targets = (pa.array([pair[i] for pair in found], pa.string()) for i in (0, 1))
    return (
        pa.DictionaryArray.from_arrays(keys.indices, steps).dictionary_decode(),
        pa.DictionaryArray.from_arrays(keys.indices, targets).dictionary_decode(),
    )


def status_outcomes(status: npt.NDArray[np.int64]) -> pa.Array:
    """Outcomes of complete answers, where nothing else is said about what was expected: 2xx and 3xx are."""
    expected = (status >= 200) & (status < 400)
    words = pa.array(["answered", "check:status"])
    return pa.DictionaryArray.from_arrays(pa.array((~expected).astype(np.int32)), words).dictionary_decode()


LAG_UNKNOWN = Note(
    "lag_unknown",
    "the tool keeps no schedule, so latencies count from the actual start: whether it sent late cannot be told",
    "compare runs of the same tool only, watch its own CPU use, or let Towtank's engine drive the load",
)
ANSWERS_ONLY = Note(
    "answers_only",
    "this format holds only requests that were answered: failures are missing from every number, and goodput, error "
    "shares and high percentiles are better than the truth",
    "look at the tool's own summary for its errors, or use a format that keeps them",
    spoils=True,
)
TIME_OF_DAY_UNKNOWN = Note(
    "time_of_day_unknown",
    "the format has no time of day: that of the run is taken from when the file was last written",
)
