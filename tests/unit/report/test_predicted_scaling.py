"""What an autoscaler should have done, in a report: how often both agree, and both over time."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from altair import load_schema
from jsonschema import Draft7Validator

from support.sample_analysis import sample_analysis
from towtank.analysis.predicted_scaling import COLUMNS, SERIES_COLUMNS
from towtank.analysis.scaling_agreement import DESIRED, LOAD, PREDICTED, READY
from towtank.report import tables
from towtank.report.figures.predicted_scaling import predicted_scaling
from towtank.report.naming import Names


@pytest.fixture(scope="module")
def plain():
    return sample_analysis()


@pytest.fixture(scope="module")
def predicted(plain):
    one, two, *_ = (t.treatment_id for t in plain.treatments)
    rows = [
        (one, "r1", "app", "KPA", LOAD, 30, 1.0, 0, ""), (one, "r2", "app", "KPA", LOAD, 10, 0.5, 2, ""),
        (two, "r3", "app", "HPA", "", 0, None, 0, "it scales by memory"),
    ]  # fmt: skip
    lines = [
        (one, run, "app", t_s, metric, value)
        for run in ("r1", "r2")
        for metric, value in ((PREDICTED, 3.0), (DESIRED, 2.0), (READY, 1.0))
        for t_s in (0.0, 60.0)
    ]
    return replace(
        plain,
        predictions=pd.DataFrame(rows, columns=list(COLUMNS)),
        predicted_scaling=pd.DataFrame(lines, columns=list(SERIES_COLUMNS)),
    )


def test_agreement_is_over_all_decisions_and_what_has_none_says_why(predicted):
    table = tables.predicted_scaling(predicted, Names(predicted))
    shown = [[cell.text for cell in row[1:]] for row in table.rows]
    assert shown == [["KPA · app", "40", "87.5 %", "2", LOAD], ["HPA · app", "–", "–", "–", "–"]]
    assert table.rows[1][2].note == "it scales by memory"


def test_the_figure_draws_one_run_of_each_treatment(predicted):
    figure = predicted_scaling(predicted, Names(predicted))
    assert len(figure.datasets["predicted_scaling"]) == 6
    assert {row["metric"] for row in figure.datasets["predicted_scaling"]} == {
        "should have been wanted",
        "wanted",
        "ready",
    }
    assert "87.5 %" in figure.alt
    schema = Draft7Validator(load_schema())
    assert all(next(schema.iter_errors(figure.spec(narrow=n)), None) is None for n in (False, True))


def test_several_autoscalers_of_a_treatment_have_a_plot_each(predicted):
    more = predicted.predicted_scaling.assign(autoscaler="db")
    both = replace(predicted, predicted_scaling=pd.concat([predicted.predicted_scaling, more]))
    figure = predicted_scaling(both, Names(both))
    assert {row["treatment"].rpartition(" · ")[2] for row in figure.datasets["predicted_scaling"]} == {
        "app",
        "db",
    }


def test_without_an_autoscaler_there_is_nothing(plain):
    assert tables.predicted_scaling(plain, Names(plain)) is None
    assert predicted_scaling(plain, Names(plain)) is None
