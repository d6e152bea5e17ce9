"""Descriptive tables as studies publish them: changes beside cells, lost runs in words, timeouts as a code."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from support.make_results import TreatmentModel, make_results
from towtank.analysis import analyse
from towtank.report import tables
from towtank.report.assemble import build
from towtank.report.csv_tables import render, write_tables
from towtank.report.naming import Names
from towtank.report.tables.published import _change
from towtank.store import Results


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = make_results(
        tmp_path_factory.mktemp("published") / "results",
        treatments={
            "one": TreatmentModel(median_ms=5),
            "two": TreatmentModel(median_ms=10, errors=0.1, timeouts=0.1, refused=0.05, unfinished=(2,)),
        },
        blocks=3, rate_per_s=20.0, duration_s=3.0,
    )  # fmt: skip
    return analyse(Results.open(path))


def row(table, *heads):
    return next(r for r in table.rows if [c.text for c in r[: len(heads)]] == list(heads))


@pytest.mark.parametrize(
    ("value", "base", "text"),
    [
        (50, 25, " (+100 %)"), (52.15, 28.435, " (+83.4 %)"), (25, 50, " (−50 %)"), (1, 1, " (±0 %)"),
        (1, 0, ""), (1, None, ""), (1e308, 1e-308, ""),
    ],
)  # fmt: skip
def test_changes_in_the_published_form(value, base, text):
    assert _change(value, base) == text


def test_each_cell_has_its_change_beside_it(found):
    table = tables.latencies(found, Names(found))
    assert [c.title for c in table.columns] == ["Treatment", "AVG", "MIN", "MED", "MAX", "p(90)", "p(95)"]
    one, two = row(table, "one"), row(table, "two")
    assert "%" not in one[1].text
    average = two[1]
    assert "(+" in average.text
    assert average.text.endswith(" %)")
    assert average.detail == "lost 1 of 3"
    assert average.sort > 1.5 * one[1].sort


def test_failed_total_and_goodput_agree(found):
    table = tables.volumes(found, Names(found))
    treatment = found.treatments[1]
    failed, total, goodput = row(table, "two")[1:]
    assert total.sort == sum(treatment.outcomes.values())
    assert failed.sort == total.sort - treatment.outcomes["answered"]
    assert goodput.sort == pytest.approx(1 - failed.sort / total.sort)


def test_statuses_in_percent_with_timeouts_as_asked_for(found):
    plain = tables.statuses(found, Names(found))
    assert [c.title for c in plain.columns][:3] == ["Treatment", "200", "503"]
    assert {"timeout", "refused"} <= {c.title for c in plain.columns}
    assert sum(cell.sort for cell in row(plain, "two")[1:]) == pytest.approx(1)
    answer = found.meta["answer"] | {"timeout_as": 408}
    asked = tables.statuses(replace(found, meta=found.meta | {"answer": answer}), Names(found))
    titles = [c.title for c in asked.columns]
    assert "408" in titles
    assert "timeout" not in titles
    assert "refused" in titles
    at = [c.title for c in plain.columns].index("timeout")
    assert row(asked, "two")[titles.index("408")].sort == row(plain, "two")[at].sort > 0
    assert "408" in asked.remark


def test_a_treatment_that_lost_everything_says_so(tmp_path):
    path = make_results(
        tmp_path / "results",
        treatments={"one": TreatmentModel(), "two": TreatmentModel(unfinished=(1, 2))},
        blocks=2, rate_per_s=20.0, duration_s=2.0,
    )  # fmt: skip
    analysis = analyse(Results.open(path))
    names = Names(analysis)
    for made in (
        tables.latencies(analysis, names),
        tables.volumes(analysis, names),
        tables.statuses(analysis, names),
    ):
        assert {cell.text for cell in row(made, "two")[1:]} == {"lost 2 of 2"}
    spread = tables.spreads(analysis, names)
    lost = next(r for r in spread.rows if r[1].text == "two")
    assert [c.text for c in lost[2:8]] == ["lost 2 of 2"] * 6


def test_normality_is_told_by_variable_and_treatment(found):
    table = tables.normality(found, Names(found))
    words = {r[-1].text for r in table.rows}
    assert words <= {"not normal", "nothing against it", "constant", "too few runs", "cannot be said"}
    two = next(r for r in table.rows if r[0].text == "p95 latency" and r[1].text == "two")
    assert two[2].text == "2"
    assert two[-1].text in ("too few runs", "cannot be said")


def test_tables_as_csv_have_the_numbers_behind_the_texts(found, tmp_path):
    model = build(found, figures=False)
    written = write_tables(model, tmp_path / "tables")
    assert {p.stem for p in written} == {t.id for t in model.tables}
    assert {"latency-published", "volumes", "statuses", "spread", "normality"} <= {p.stem for p in written}
    table = tables.latencies(found, Names(found))
    rows = list(csv.DictReader(io.StringIO(render(table))))
    assert float(rows[1]["AVG (number)"]) == pytest.approx(table.rows[1][1].sort, rel=1e-10)
    assert rows[1]["AVG"].startswith(table.rows[1][1].text)
