"""Columns of the tables of a run, and the words that all of them share (docs/formats.md, 2 and 4)."""

from __future__ import annotations

import pyarrow as pa

from towtank.request_columns import REQUESTS

__all__ = [
    "COUNTS",
    "EVENTS",
    "OUTCOME_CLASSES",
    "OUTCOME_CLASS_SQL",
    "REQUESTS",
    "SAMPLES",
    "SPANS",
    "TOTALS",
    "VARIABLES",
    "dictionary_encoded",
    "outcome_class",
]

SAMPLES = pa.schema(
    [
        ("t_us", pa.int64()),
        ("source", pa.string()),
        ("instance", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
    ]
)

EVENTS = pa.schema(
    [
        ("t_us", pa.int64()),
        ("source", pa.string()),
        ("kind", pa.string()),
        ("instance", pa.string()),
        ("message", pa.string()),
        ("detail", pa.string()),
    ]
)

SPANS = pa.schema(
    [
        ("trace_id", pa.string()),
        ("span_id", pa.string()),
        ("parent_id", pa.string()),
        ("service", pa.string()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("start_us", pa.int64()),
        ("duration_us", pa.int64()),
        ("status", pa.string()),
        ("instance", pa.string()),
        ("attributes", pa.string()),
    ]
)

COUNTS = pa.schema(
    [
        ("workload", pa.string()),
        ("step", pa.string()),
        ("outcome_class", pa.string()),
        ("in_window", pa.bool_()),
        ("bin", pa.int32()),
        ("variable", pa.string()),
        ("value", pa.int64()),
        ("count", pa.int64()),
    ]
)
"""`value` in exact µs; one row per distinct combination of the other columns."""

TOTALS = pa.schema(
    [
        ("workload", pa.string()),
        ("step", pa.string()),
        ("outcome", pa.string()),
        ("status", pa.int32()),
        ("instance", pa.string()),
        ("in_window", pa.bool_()),
        ("second", pa.int32()),
        ("end_second", pa.int32()),
        ("count", pa.int64()),
        ("bytes_out", pa.int64()),
        ("bytes_in", pa.int64()),
    ]
)
"""`end_second` is null where nothing was completed: `not_sent`."""


def dictionary_encoded(schema: pa.Schema) -> pa.Schema:
    """Give the schema's texts as dictionaries: a table of few distinct texts then takes a fraction of the memory."""
    texts = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([(f.name, texts if f.type == pa.string() else f.type) for f in schema])


VARIABLES = ("latency", "total", "ttfb", "connect", "lag", "wait")
"""What the count tables hold; latency = lag + wait + total, and lag + wait where nothing was sent."""

OUTCOME_CLASSES = ("ok", "check", "timeout", "error", "not_sent", "interrupted")


def outcome_class(outcome: str) -> str:
    """Class of an outcome: ok, check, timeout, error, not_sent or interrupted.

    Any outcome that is none of the documented ones counts as `error`, so that a newer engine's
    word for a failure never turns into a success.
    """
    if outcome == "answered":
        return "ok"
    if outcome in ("not_sent", "interrupted"):
        return outcome
    if outcome in ("template", "capture_missing"):  # the journey had nothing to send
        return "not_sent"
    prefix = outcome.partition(":")[0]
    if prefix in ("check", "capture", "redirect"):  # a whole answer, and not the expected one
        return "check"
    return "timeout" if prefix == "timeout" else "error"


OUTCOME_CLASS_SQL = """CASE
    WHEN outcome = 'answered' THEN 'ok'
    WHEN outcome IN ('not_sent', 'interrupted') THEN outcome
    WHEN outcome IN ('template', 'capture_missing') THEN 'not_sent'
    WHEN split_part(outcome, ':', 1) IN ('check', 'capture', 'redirect') THEN 'check'
    WHEN split_part(outcome, ':', 1) = 'timeout' THEN 'timeout'
    ELSE 'error'
END"""
"""`outcome_class` for DuckDB; a test holds the two together."""
