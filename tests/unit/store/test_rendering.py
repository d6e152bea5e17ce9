"""Rows as text: every format keeps every value, and none of them lets a value become markup."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.store import rendering

NASTY = [
    "<script>alert(1)</script>",
    "[red]x[/red]",
    "a|b",
    "two\nlines",
    "\x1b[2J",
    'quo"te',
    "=1+1",
    "*b* _i_ `c`",
    "\u202e",
]


def batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def as_csv(rows):
    target = io.BytesIO()
    count = rendering.write_csv([rows], rows.schema, target)
    parsed = list(csv.reader(io.StringIO(target.getvalue().decode(), newline="")))
    assert count == rows.num_rows
    return parsed


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"])), min_size=1))
def test_csv_and_json_give_back_every_text(texts):
    rows = batch(a=texts, b=list(range(len(texts))))
    assert as_csv(rows)[1:] == [[text, str(i)] for i, text in enumerate(texts)]
    assert json.loads("\n".join(rendering.json_lines([rows]))) == [
        {"a": t, "b": i} for i, t in enumerate(texts)
    ]


@given(st.text())
def test_a_cell_is_one_printable_line(text):
    shown = rendering.cell(text)
    assert shown.isprintable()
    assert "\n" not in shown


@pytest.mark.parametrize("text", NASTY)
def test_markdown_shows_what_is_there_and_nothing_else(text):
    lines = list(rendering.markdown_lines(["c"], [batch(c=[text])]))
    assert len(lines) == 3
    inner = lines[2][2:-2]
    assert "<" not in inner
    assert "\x1b" not in inner
    unescaped = (
        inner.replace("\\|", "")
        .replace("\\[", "")
        .replace("\\]", "")
        .replace("\\`", "")
        .replace("\\*", "")
        .replace("\\_", "")
    )
    assert not set(unescaped) & set("|[]`*_")


def test_every_type_has_a_text():
    moment = dt.datetime(2026, 1, 5, 9, 0, 0, 123456)  # noqa: DTZ001 - as DuckDB's TIMESTAMP
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([None, True]),
            pa.array([1.5e7, float("nan")]),
            pa.array([decimal.Decimal(2**40), None], pa.decimal128(38, 0)),
            pa.array([moment, None]),
            pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
            pa.array([[{"x": 1}], None]),
            pa.array(["u", "v"]).dictionary_encode(),
            pa.array([b"\x00\xff", None]),
        ],
        names=list("abcdefgh"),
    )
    first, second = rendering.cells(rows)
    assert first == (
        "", "15000000", str(2**40), "2026-01-05 09:00:00.123", '{"a": 1}', '[{"x": 1}]', "u", r"b'\x00\xff'",
    )  # fmt: skip
    assert second[:2] == ("true", "nan")
    parsed = json.loads("\n".join(rendering.json_lines([rows])))
    assert parsed[0]["c"] == 2**40
    assert parsed[0]["e"] == {"a": 1}
    assert parsed[1]["b"] is None
    assert as_csv(rows)[1][2:6] == [str(2**40), "2026-01-05 09:00:00.123456", '{"a": 1}', '[{"x": 1}]']


def test_nothing_is_valid_in_every_format():
    rows = pa.RecordBatch.from_pydict({"a": pa.array([], pa.int64())})
    assert json.loads("\n".join(rendering.json_lines([]))) == []
    assert len(list(rendering.markdown_lines(["a"], [rows]))) == 2
    assert as_csv(rows) == [["a"]]


def test_a_sum_wider_than_an_integer_is_not_cut():
    rows = pa.RecordBatch.from_arrays([pa.array([decimal.Decimal(2**70)], pa.decimal128(38, 0))], names=["a"])
    assert next(rendering.cells(rows)) == (str(2**70),)
    assert json.loads("\n".join(rendering.json_lines([rows]))) == [{"a": 2**70}]
    assert as_csv(rows)[1] == [str(2**70)]
