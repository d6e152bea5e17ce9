"""The table and the figure of where time went."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
from altair import load_schema
from jsonschema import Draft7Validator

from support.sample_analysis import sample_analysis
from towtank import report
from towtank.analysis import hops
from towtank.analysis.model import ExperimentAnalysis
from towtank.report.style import HOPS_LIGHT

HOSTILE = "<b>x' || alert(1)"


def tracing(*names: str, percentile: int = 95, steps: tuple[str, ...] = ("buy",)) -> ExperimentAnalysis:
    """The sample with these hops in every treatment: ten times as long in slow requests."""
    sample = sample_analysis()
    rows = []
    for treatment in sample.treatments:
        for step in steps:
            for group, at, number, factor in (("median", 50, 40, 1), ("slow", percentile, 25, 10)):
                parts = [("before", "", "", 0.001), *(("span", "shop", name, 0.002) for name in names),
                         ("outside", "", "", 0.003)]  # fmt: skip
                whole = sum(part[3] for part in parts) * factor
                rows += [
                    (
                        treatment.treatment_id,
                        step,
                        group,
                        at,
                        number,
                        whole,
                        kind,
                        service,
                        name,
                        own * factor,
                        1.0,
                        0.0,
                    )
                    for kind, service, name, own in parts
                ]
    return replace(sample, hops=pd.DataFrame(rows, columns=list(hops.COLUMNS)))


def shown(analysis: ExperimentAnalysis):
    model = report.build(analysis)
    (figure,) = [f for f in model.figures if f.id == "hops"]
    (table,) = [t for t in model.tables if t.id == "hops-table"]
    return figure, table


def test_parts_of_a_bar_add_up_and_the_table_says_the_same() -> None:
    analysis = tracing("GET /", HOSTILE)
    figure, table = shown(analysis)
    first = analysis.treatments[0]
    mine = [row for row in figure.datasets["hops"] if row["bar"].endswith(": slow")]
    bar = [row for row in mine if row["bar"] == mine[0]["bar"]]
    assert [row["hop"] for row in bar] == [
        "before it was sent",
        "shop · GET /",
        f"shop · {HOSTILE}",
        "outside all spans",
    ]
    assert [row["start"] for row in bar[1:]] == [row["end"] for row in bar[:-1]]
    assert bar[-1]["end"] == 0.08
    assert len(figure.datasets["rows"]) == 2 * len(analysis.treatments)
    rows = [row for row in table.rows if row[1].text == first.label]
    assert [row[0].text for row in rows] == [
        "latency", "before it was sent", "shop · GET /", f"shop · {HOSTILE}", "outside all spans",
    ]  # fmt: skip
    assert [(cell.text, cell.detail) for cell in rows[2][3:]] == [
        ("2 ms", "25 %"),
        ("20 ms", "25 %"),
        ("1", ""),
    ]
    assert (rows[0][3].text, rows[0][3].detail) == ("8 ms", "40 requests")
    assert "at or above the 95th percentile (fewer than 20 lie above the 99th)" in table.remark
    assert "40 median and 25 slow ones" in table.remark
    for narrow in (False, True):
        found = next(Draft7Validator(load_schema()).iter_errors(figure.spec(narrow=narrow)), None)
        assert found is None, found and found.message


def test_names_from_outside_are_data_and_never_markup() -> None:
    page = report.html.render(report.build(tracing(HOSTILE)))
    assert "alert(1)" in page
    assert "<b>x" not in page
    figure, _ = shown(tracing(HOSTILE))
    assert "alert" not in json.dumps(list(_expressions(figure.wide)))


def _expressions(found):
    if isinstance(found, dict):
        for key, value in found.items():
            if key in ("filter", "labelExpr", "expr", "test"):
                yield value
            yield from _expressions(value)
    elif isinstance(found, list):
        for item in found:
            yield from _expressions(item)


def test_more_hops_than_colours_are_other_spans() -> None:
    figure, table = shown(tracing(*(f"hop {i}" for i in range(12))))
    colors = {row["hop"] for row in figure.datasets["hops"]}
    assert len([hop for hop in colors if hop.startswith("shop")]) == len(HOPS_LIGHT)
    assert "other spans" in colors
    assert len([row for row in table.rows if row[0].text == "shop · hop 11"]) > 0


def test_steps_are_named_where_there_are_several() -> None:
    figure, table = shown(tracing("a", percentile=99, steps=("buy", "pay")))
    assert any(" · pay: slow" in row["bar"] for row in figure.datasets["rows"])
    assert "at or above the 99th percentile. Means" in table.remark


def test_without_spans_there_is_neither() -> None:
    model = report.build(sample_analysis())
    assert not [f for f in model.figures if f.id == "hops"]
    assert not [t for t in model.tables if t.id == "hops-table"]
