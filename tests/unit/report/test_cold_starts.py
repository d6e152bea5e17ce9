"""Cold starts in a report: order statistics, and the phases of a start as stacked bars, in two languages."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest
from altair import load_schema
from jsonschema import Draft7Validator

from support.report_parts import part
from support.sample_analysis import sample_analysis
from towtank import report
from towtank.analysis.cold_starts import FIRST_BYTE, FORCED, NATURAL, PHASE_COLUMNS, SENT, SPREAD_COLUMNS
from towtank.report import tables
from towtank.report.language import translated
from towtank.report.naming import Names


def with_cold_starts(plain):
    one, two, *_ = (t.treatment_id for t in plain.treatments)
    spreads = [
        (one, FORCED, 5, 5, 0.9, 1.0, 1.1, 1.2, 1.5, 0.2),
        (one, NATURAL, 40, 40, 0.5, 0.6, 0.7, 0.8, 0.9, 0.1),
        (two, FORCED, 1, 1, 2.0, 2.0, 2.0, 2.0, 2.0, float("nan")),
    ]
    phases = [
        (one, FORCED, 5, SENT, "created", 0.1, 0.02), (one, FORCED, 5, "created", "ready", 0.9, 0.12),
        (one, FORCED, 5, "ready", FIRST_BYTE, 0.15, 0.1), (one, NATURAL, 40, SENT, "ready", 0.6, 0.1),
        (one, NATURAL, 40, "ready", FIRST_BYTE, 0.1, 0.1), (two, FORCED, 1, SENT, FIRST_BYTE, 2.0, 0.0),
    ]  # fmt: skip
    return replace(
        plain,
        cold_spreads=pd.DataFrame(spreads, columns=list(SPREAD_COLUMNS)),
        cold_phases=pd.DataFrame(phases, columns=list(PHASE_COLUMNS)),
    )


@pytest.fixture(scope="module")
def model():
    return report.build(with_cold_starts(sample_analysis()))


def test_forced_and_natural_ones_have_rows_of_their_own(model):
    table = part(model, "cold-starts")
    assert [column.title for column in table.columns[3:]] == ["Min", "25 %", "Median", "75 %", "Max", "Std"]
    assert [[cell.text for cell in row[1:]] for row in table.rows] == [
        ["forced", "5", "900 ms", "1 s", "1.1 s", "1.2 s", "1.5 s", "200 ms"],
        ["natural", "40", "500 ms", "600 ms", "700 ms", "800 ms", "900 ms", "100 ms"],
        ["forced", "1", "2 s", "2 s", "2 s", "2 s", "2 s", "–"],
    ]
    assert table.rows[2][-1].note == "one request: no deviation"


def test_phases_say_what_they_are_of_the_whole_and_how_exactly_they_are_known(model):
    rows = part(model, "cold-phases").rows
    assert [(row[0].text, row[4].text, row[4].detail, row[5].text) for row in rows[:3]] == [
        ("sent → created", "100 ms", "8.7 %", "± 20 ms"),
        ("created → ready", "900 ms", "78.3 %", "± 120 ms"),
        ("ready → first byte", "150 ms", "13 %", "± 100 ms"),
    ]
    assert rows[-1][5].text == "exactly"


def test_bars_add_up_and_fit_the_schema(model):
    figure = part(model, "cold-starts-figure")
    bars = {}
    for row in figure.datasets["phases"]:
        assert row["start"] == pytest.approx(bars.get(row["bar"], 0.0))
        bars[row["bar"]] = row["end"]
    assert sorted(bars.values()) == pytest.approx([0.7, 1.15, 2.0])
    assert [row["bar"] for row in figure.datasets["rows"]] == list(bars)
    schema = Draft7Validator(load_schema())
    assert all(next(schema.iter_errors(figure.spec(narrow=n)), None) is None for n in (False, True))


def test_in_portuguese_phases_are_too(model):
    other = translated(model, "pt")
    first = part(other, "cold-phases").rows[0]
    assert first[0].text == "enviado → criado"
    assert part(other, "cold-starts").rows[1][1].text == "natural"
    spec = json.dumps(part(other, "cold-starts-figure").spec(), ensure_ascii=False)
    assert "primeiro byte" in spec
    assert "first byte" not in spec


def test_without_any_there_is_nothing():
    plain = sample_analysis()
    assert tables.cold_starts(plain, Names(plain)) is None
    assert tables.cold_phases(plain, Names(plain)) is None
