"""k6: what ``--out csv=FILE`` and ``--out json=FILE`` write, plain or as .gz.

k6 writes a line a metric, so about nine lines a request. The lines of one request stand together, begin with
`http_reqs` and carry the same tags and the same instant, that of its end; `pivot` joins them and refuses what
does not fit. `blocked` runs from when the request was asked for until it had a connection, connect and TLS
included; `duration` is sending + waiting + receiving. So start = end − blocked − duration.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pjson

from towtank.load.importers.base import LAG_UNKNOWN, Note, refuse, refuse_line
from towtank.load.importers.k6_pivot import NEEDED, TAGS, Pivot
from towtank.load.importers.text import Column, blocks, csv_batches

CSV_BEGINS = "metric_name,timestamp,metric_value,"
_NAMES = ("metric_name", "timestamp", "metric_value", *TAGS)
_DATA = pa.struct(
    [
        ("time", pa.string()),
        ("value", pa.float64()),
        ("tags", pa.struct([(tag, pa.string()) for tag in TAGS])),
    ]
)
_LINE = pa.schema([("metric", pa.string()), ("type", pa.string()), ("data", _DATA)])
"""Of a line of JSON, what is read."""
_BEGINS = re.compile(rb'"type":"Metric","data":\{"name":"http_reqs"')
"""How k6 introduces a metric, once in a run."""


class _K6:
    tool = "k6"
    is_wall_clock = True
    timeout_s: float | None = 60.0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pivot = Pivot(path)

    def _tables(self) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows as `base.Reader` says."""
        for table in self._tables():
            yield from self._pivot.take(table)
        yield from self._pivot.finish()

    @property
    def notes(self) -> tuple[Note, ...]:
        """What must be said."""
        pivot = self._pivot
        found = [LAG_UNKNOWN]
        if pivot.precision_us > 1:
            found.append(
                Note(
                    "times_of_day_coarse",
                    f"the time of each request is known to {pivot.precision_us / 1e6:g} s only; its latency is exact",
                    "set K6_CSV_TIME_FORMAT=unix_micro, or write JSON, for figures over time finer than that",
                )
            )
        if pivot.dropped_iterations:
            found.append(
                Note(
                    "iterations_dropped",
                    f"k6 dropped {pivot.dropped_iterations:,} iterations: less load was made than the script asks for, "
                    "and what was dropped is in no number",
                    "raise preAllocatedVUs and maxVUs, or lower the rate",
                    spoils=True,
                )
            )
        if pivot.failed_checks:
            found.append(
                Note(
                    "checks_not_joined",
                    f"{pivot.failed_checks:,} checks of the script failed; the format does not say of which "
                    "request, so outcomes follow what k6 expected of the status",
                )
            )
        return tuple(found)


class K6Csv(_K6):
    """``k6 run --out csv=FILE``.

    Parameters
    ----------
    path : Path
    header : sequence of str
        Names of its columns: tags that are switched off have none.
    """

    def __init__(self, path: Path, header: tuple[str, ...]) -> None:
        super().__init__(path)
        missing = [name for name in NEEDED if name not in header]
        if missing:
            raise refuse(
                path,
                f"k6's CSV has no column {missing[0]!r}",
                line=1,
                hint="do not switch this tag off (--system-tags), then run k6 again; nothing was imported",
            )
        self._columns = {
            name: Column("number" if name == "metric_value" else "text") for name in _NAMES if name in header
        }

    def _tables(self) -> Iterator[pa.RecordBatch]:
        return csv_batches(self._path, self._columns)


class K6Json(_K6):
    """``k6 run --out json=FILE``: an object a line.

    Parameters
    ----------
    path : Path
    """

    def _tables(self) -> Iterator[pa.RecordBatch]:
        begun = False
        for first, block in blocks(self._path):
            for found in _BEGINS.finditer(block):
                if begun:
                    raise refuse(
                        self._path,
                        "says a second time what `http_reqs` is, which k6 says once: several files were glued together",
                        line=first + block.count(b"\n", 0, found.start()),
                        hint="give each file alone, it is a run of its own; nothing was imported",
                    )
                begun = True
            yield _at_once(block) or self._line_by_line(first, block)

    def _line_by_line(self, first: int, block: bytes) -> pa.RecordBatch:
        """Read what cannot be read at once, or find the line that cannot be read at all."""
        points = [self._point(first + n, line) for n, line in enumerate(block.splitlines())]
        return _table([point for point in points if point is not None])

    def _point(self, number: int, line: bytes) -> tuple[Any, ...] | None:
        """Take what is needed of a line; None of one that is no measured value, or none of a request."""
        if b'"Metric"' in line[:400] and b'"Point"' not in line[:400]:
            return None
        try:
            said = json.loads(line)
            if said["type"] != "Point":
                return None
            data = said["data"]
            tags = data.get("tags") or {}
            return (
                _text(said, "metric"),
                _text(data, "time"),
                float(data["value"]),
                *(str(tags.get(tag, "")) for tag in TAGS),
            )
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise refuse_line(self._path, "line of k6", error, number) from error


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said[key]
    if not isinstance(value, str):
        raise ValueError(f"`{key}` is {str(value)[:40]}; allowed is a text")
    return value


def _at_once(block: bytes) -> pa.RecordBatch | None:
    """Read many lines, three times as fast as one by one; None when any of them is not as k6 writes it."""
    try:
        table = pjson.read_json(
            io.BytesIO(block),
            read_options=pjson.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pjson.ParseOptions(explicit_schema=_LINE, unexpected_field_behavior="ignore"),
        )
        points = table.filter(pc.equal(table["type"], "Point"))
        data = points["data"].combine_chunks()
        tags = pc.struct_field(data, "tags")
        values = [
            points["metric"].combine_chunks(),
            pc.struct_field(data, "time"),
            pc.struct_field(data, "value"),
        ]
        texts = [pc.fill_null(pc.struct_field(tags, tag), "") for tag in TAGS]
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    whole = table.num_rows == block.count(b"\n") and table["type"].null_count == 0
    if not whole or any(column.null_count for column in values):
        return None
    return pa.RecordBatch.from_arrays([*values, *texts], names=list(_NAMES))


def _table(found: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*found, strict=True)) or [()] * len(_NAMES)
    kinds = [pa.float64() if name == "metric_value" else pa.string() for name in _NAMES]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], names=list(_NAMES)
    )


def first_is_line(line: str) -> bool:
    """Whether a line is one of k6's JSON output."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("type") in ("Metric", "Point") and "metric" in said
