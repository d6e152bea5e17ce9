"""The figure of what the experiment file names itself to be observed."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pandas as pd
from altair import load_schema
from jsonschema import Draft7Validator

from support.sample_analysis import sample_analysis
from towtank import report
from towtank.analysis.model import ExperimentAnalysis


def observing(*metrics: str, source: str = "prometheus", scale: float = 1.0) -> ExperimentAnalysis:
    """The sample with these metrics in every run: second × scale."""
    sample = sample_analysis()
    rows = [
        (run.treatment_id, run.run_id, float(t), 1.0, source, metric, scale * t)
        for run in sample.runs
        for metric in metrics
        for t in range(5)
    ]
    columns = ["treatment_id", "run_id", "t_s", "bin_s", "source", "metric", "value"]
    return replace(sample, observed=pd.DataFrame(rows, columns=columns))


def figures_of(analysis: ExperimentAnalysis) -> list:
    return [f for f in report.build(analysis).figures if f.id.startswith("observed")]


def test_a_row_a_metric_with_its_unit_and_its_spread():
    (figure,) = figures_of(observing("queue", "app_memory_bytes", "busy_ratio", "wait_s", scale=1024.0))
    assert figure.title == "What was observed over time: prometheus"
    assert "instances are added up (busy_ratio and wait_s: averaged)" in figure.caption
    bands = figure.datasets["bands"]
    assert {b["variable"] for b in bands} == {"metric-0", "metric-1", "metric-2", "metric-3"}
    assert all(b["low"] <= b["mid"] <= b["high"] for b in bands)
    memory = [b["shown"] for b in bands if b["variable"] == "metric-0"]
    assert "4 KiB" in memory
    for narrow in (False, True):
        found = next(Draft7Validator(load_schema()).iter_errors(figure.spec(narrow=narrow)), None)
        assert found is None, found and found.message
    assert "app memory" in json.dumps(figure.wide)


def test_runs_that_do_not_count_are_left_out():
    sample = observing("queue")
    wrong = {run.run_id for run in sample.runs if run.instrument == "invalid"}
    raised = sample.observed.assign(
        value=sample.observed.value.where(~sample.observed.run_id.isin(wrong), 1e9)
    )
    assert wrong
    (figure,) = figures_of(replace(sample, observed=raised))
    assert max(b["high"] for b in figure.datasets["bands"]) <= 4


def test_many_metrics_become_several_figures():
    found = figures_of(observing(*(f"metric_{n:02}" for n in range(14))))
    assert [f.id for f in found] == ["observed-1", "observed-2", "observed-3"]


def test_names_from_outside_are_never_part_of_an_expression():
    hostile = "x' || alert(1) || '<b>_ratio"
    (figure,) = figures_of(observing(hostile))
    for spec in (figure.wide, figure.narrow):
        for expression in re.findall(
            r'"(?:filter|labelExpr|expr|test)": ("[^"]*"|\{[^}]*\})', json.dumps(spec)
        ):
            assert "alert" not in expression


def test_nothing_observed_is_no_figure():
    assert figures_of(sample_analysis()) == []


def test_what_finds_no_room_is_named_and_no_source_vanishes():
    many = observing(*(f"metric_{n:02}" for n in range(40)), source="netdata")
    one = observing("queue", source="prometheus").observed
    found = figures_of(replace(many, observed=pd.concat([many.observed, one])))
    titles = [figure.title for figure in found]
    assert len(found) == 6
    assert any("prometheus" in title for title in titles)
    told = [figure.caption for figure in found if "Not drawn for want of room" in figure.caption]
    assert len(told) == 1
    assert "towtank sql" in told[0]


def test_values_below_zero_are_on_the_axis():
    (figure,) = figures_of(observing("balance", scale=-3.0))
    assert min(band["low"] for band in figure.datasets["bands"]) == -12.0
    domains = re.findall(r'"domain": \[(-?[0-9.]+), (-?[0-9.e-]+)\]', json.dumps(figure.wide))
    assert any(float(low) <= -12.0 for low, _ in domains)


def test_a_value_without_a_neighbour_is_a_point():
    """A line of one value is no line: a source that was read once in a run would be an empty plot."""
    analysis = observing("queue")
    (many,) = figures_of(analysis)
    assert not any(row["alone"] for row in many.datasets["bands"])
    single = replace(analysis, observed=analysis.observed[analysis.observed.t_s == 2])
    (figure,) = figures_of(single)
    assert figure.datasets["bands"]
    assert all(row["alone"] for row in figure.datasets["bands"])
    for narrow in (False, True):
        assert "datum.alone" in json.dumps(figure.spec(narrow=narrow))
