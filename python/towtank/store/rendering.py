"""Rows of a query as text: CSV, JSON, Markdown, and plain cells for tables; streamed, and safe to show.

What a server under test sent can end up in these cells. Nothing in them becomes markup, an escape sequence of the
terminal, or another line.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pa_csv


def flat_schema(schema: pa.Schema) -> pa.Schema:
    """Columns of `flat` batches: numbers, text, booleans, moments; what is nested is text (JSON)."""
    return pa.schema([(field.name, _flat_type(field.type)) for field in schema])


def flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Turn what is nested, or has no text of its own, into text."""
    schema = flat_schema(batch.schema)
    columns = [_flat_column(batch.column(i), field.type) for i, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write_csv(batches: Iterable[pa.RecordBatch], schema: pa.Schema, target: IO[bytes]) -> int:
    """Write CSV with a header (RFC 4180 quoting, line feeds at line ends); null is an empty field.

    Returns
    -------
    int
        Rows written.
    """
    rows = 0
    with pa_csv.CSVWriter(target, flat_schema(schema)) as writer:
        for batch in batches:
            writer.write_batch(flat(batch))
            rows += batch.num_rows
    return rows


def json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Lines of one JSON array of objects; what JSON has no number for (NaN, infinity) becomes null."""
    yield "["
    before: str | None = None
    for row in _rows(batches):
        if before is not None:
            yield f"{before},"
        before = json.dumps({name: _json_value(value) for name, value in row.items()}, ensure_ascii=False)
    if before is not None:
        yield before
    yield "]"


def markdown_lines(columns: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """Lines of a Markdown table; numbers are set to the right by nobody, as types may differ by row."""
    yield "| " + " | ".join(_markdown(name) for name in columns) + " |"
    yield "|" + " --- |" * len(columns)
    for batch in batches:
        for values in _tuples(batch):
            yield "| " + " | ".join(_markdown(cell(value)) for value in values) + " |"


def cell(value: object) -> str:
    """One value as one line of plain text; null is empty."""
    match value:
        case None:
            text = ""
        case bool():
            text = "true" if value else "false"
        case float():
            text = f"{value:.10g}"
        case dt.datetime():
            text = value.isoformat(sep=" ", timespec="milliseconds")
        case list() | dict():
            text = json.dumps(_json_value(value), ensure_ascii=False)
        case _:
            text = str(value)
    return visible(text)


def visible(text: str) -> str:
    """Replace control characters, which could move the cursor or break a line, by their escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cells(batch: pa.RecordBatch) -> Iterator[tuple[str, ...]]:
    """Rows of a batch as cells."""
    for values in _tuples(batch):
        yield tuple(cell(value) for value in values)


def _flat_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _flat_type(kind.storage_type)
    if pa.types.is_nested(kind):
        return pa.string()
    if pa.types.is_decimal(kind):
        return kind
    if pa.types.is_dictionary(kind):
        return _flat_type(kind.value_type)
    if (
        pa.types.is_time(kind)
        or pa.types.is_duration(kind)
        or pa.types.is_interval(kind)
        or pa.types.is_binary(kind)
    ):
        return pa.string()
    return kind


def _flat_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if column.type == kind:
        return column
    if kind == pa.string():
        return pa.array([None if v is None else _text(v) for v in _plain(column)], pa.string())
    return column.cast(kind)


def _text(value: object) -> str:
    return (
        json.dumps(_json_value(value), ensure_ascii=False) if isinstance(value, list | dict) else cell(value)
    )


def _plain(column: pa.Array) -> list[Any]:
    return list(column.to_pylist(maps_as_pydicts="lossy"))


def _tuples(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(_plain(_storage(column)) for column in batch.columns), strict=True)


def _storage(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column.type, pa.BaseExtensionType) else column


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for values in _tuples(batch):
            yield dict(zip(batch.schema.names, values, strict=True))


def _json_value(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | str):
        return value
    return cell(value)


def _markdown(text: str) -> str:
    """Text that Markdown shows as it is: no table cell, link, emphasis or HTML begins in it."""
    escaped = (
        visible(text).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
    for sign in "|`*_[]":
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped
