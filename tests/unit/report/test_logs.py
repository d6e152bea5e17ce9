"""What a report says of bytes logged: a table, and bursts in the grid over time."""

from dataclasses import replace

import pytest

from support.sample_analysis import sample_analysis
from towtank import report
from towtank.analysis.model import ExperimentAnalysis
from towtank.report import tables
from towtank.report.figures.timeseries import bursts_of, bursts_told
from towtank.report.model import ReportModel
from towtank.report.naming import Names


@pytest.fixture(scope="module")
def analysis() -> ExperimentAnalysis:
    """The sample, as if its first treatment had logged, and once far more than usual."""
    plain = sample_analysis()
    first = plain.treatments[0]
    like = first.estimates["p95"]
    logged = {
        name: replace(like, variable=name, mean=value, low=value / 2, high=value * 2)
        for name, value in (
            ("bytes_logged", 2.0**21),
            ("bytes_logged_per_s", 2.0**15),
            ("bytes_logged_per_request", 512.0),
        )
    }
    run = next(run for run in plain.runs if run.treatment_id == first.treatment_id)
    burst = {
        "treatment_id": first.treatment_id, "run_id": run.run_id, "t_s": 3.0, "instance": "web-<1>", "bytes": 2**20,
    }  # fmt: skip
    treatments = (replace(first, estimates={**first.estimates, **logged}), *plain.treatments[1:])
    return replace(plain, treatments=treatments, bursts=[burst])


@pytest.fixture(scope="module")
def model(analysis: ExperimentAnalysis) -> ReportModel:
    return report.build(analysis)


def test_a_table_says_what_was_logged(model: ReportModel) -> None:
    (table,) = [one for one in model.tables if one.id == "logs"]
    row = [cell.text for cell in table.rows[0]]
    assert row[1:] == ["2 MiB", "32 KiB/s", "512 B", "1"]
    assert table.rows[0][-1].detail.startswith("in 1 of ")
    assert table.rows[1][-1].text == "0"


def test_bursts_are_marks_in_the_grid(model: ReportModel) -> None:
    figure = next(one for one in model.figures if one.id.startswith("timeseries"))
    (mark,) = figure.datasets["bursts"]
    assert mark["t"] == 3.0
    assert mark["what"].startswith("1 MiB by web-<1> in ")
    assert "A triangle at the foot of the first row" in figure.caption


def test_without_logs_there_is_neither(analysis: ExperimentAnalysis) -> None:
    plain = sample_analysis()
    names = Names(plain)
    assert tables.logs(plain, names) is None
    assert bursts_told([]) == ""
    assert bursts_of(plain, names, names.all, 10.0) == []
    assert bursts_of(analysis, names, names.all, 2.0) == [], "what lies behind the end is not drawn"
