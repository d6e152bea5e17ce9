"""Phases of requests in a report: a table and a curve for each that was asked for, in two languages."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from altair import load_schema
from jsonschema import Draft7Validator

from support.report_parts import part
from support.sample_analysis import sample_analysis
from towtank import report
from towtank.analysis.request_phases import CURVE_COLUMNS, SPREAD_COLUMNS
from towtank.report import tables
from towtank.report.computed import COMPUTED, computed
from towtank.report.language import translated
from towtank.report.naming import Names


def with_phases(plain):
    one, two, *_ = (t.treatment_id for t in plain.treatments)
    spreads = [
        (one, "ttfb", 400, 0.001, 0.002, 0.003, 0.004, 0.02, 0.002),
        (two, "ttfb", 1, 0.005, 0.005, 0.005, 0.005, 0.005, float("nan")),
        (one, "dns", 4, 0.1, 0.2, 0.3, 0.4, 0.5, 0.1),
    ]
    curves = [
        (one, "ttfb", 0.001, 0.5), (one, "ttfb", 0.02, 1.0), (two, "ttfb", 0.005, 1.0), (one, "dns", 0.0, 0.5),
        (one, "dns", 0.5, 1.0),
    ]  # fmt: skip
    return replace(
        plain,
        phase_spreads=pd.DataFrame(spreads, columns=list(SPREAD_COLUMNS)),
        phase_curves=pd.DataFrame(curves, columns=list(CURVE_COLUMNS)),
    )


@pytest.fixture(scope="module")
def model():
    return report.build(with_phases(sample_analysis()))


def test_each_phase_has_a_table_with_the_usual_columns(model):
    table = part(model, "request-phase-ttfb")
    assert [column.title for column in table.columns[2:]] == ["Min", "25 %", "Median", "75 %", "Max", "Std"]
    assert [[cell.text for cell in row[1:]] for row in table.rows] == [
        ["400", "1 ms", "2 ms", "3 ms", "4 ms", "20 ms", "2 ms"],
        ["1", "5 ms", "5 ms", "5 ms", "5 ms", "5 ms", "–"],
    ]
    assert "new connections" not in table.remark
    assert "new connections" in part(model, "request-phase-dns").remark


def test_each_phase_has_a_curve_that_vega_can_draw(model):
    figure = part(model, "request-phase-dns-figure")
    assert figure.title == "Time to resolve the name: distribution"
    drawn = {(r["latency_s"], r["share"]) for r in figure.datasets["request-phase-dns-figure"]}
    assert (0.5, 1.0) in drawn, drawn
    for name in ("ttfb", "dns"):
        spec = part(model, f"request-phase-{name}-figure").spec()
        Draft7Validator(load_schema()).validate(spec)


def test_how_they_are_computed_is_said_of_each(model):
    for name, of in (
        ("request-phase-dns", "request-phase"),
        ("request-phase-dns-figure", "request-phase-figure"),
    ):
        assert computed(part(model, name)) == COMPUTED[of]


def test_they_are_translated(model):
    other = translated(model, "pt")
    table, figure = part(other, "request-phase-dns"), part(other, "request-phase-dns-figure")
    assert table.caption == "Tempo para resolver o nome"
    assert figure.title == "Tempo para resolver o nome: distribuição"


def test_without_them_there_is_nothing():
    plain = sample_analysis()
    assert list(tables.request_phases(plain, Names(plain))) == []
