"""What a report says of a deployment in a cluster: pods in the grid over time, and three tables."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from support.sample_analysis import sample_analysis
from towtank import report
from towtank.analysis.each import COLUMNS as EACH_COLUMNS
from towtank.analysis.model import ExperimentAnalysis
from towtank.analysis.pods import CURVE_COLUMNS, CURVE_STEPS, FIGURE_COLUMNS, START_COLUMNS
from towtank.analysis.usage import USAGE_COLUMNS
from towtank.report import series
from towtank.report.naming import Names


@pytest.fixture(scope="module")
def analysis() -> ExperimentAnalysis:
    """The sample, as if its deployments had scaled from 1 to 3 pods."""
    plain = sample_analysis()
    rows = []
    for run in plain.runs:
        for t_s in range(-2, 8):
            wanted = 3 if t_s >= 3 else 1
            ready = 3 if t_s >= 5 else 1
            counts = {
                "pods_desired": wanted,
                "pods_ready": ready,
                "pods_pending": wanted - ready,
                "nodes_ready": 1,
            }
            rows += [(run.treatment_id, run.run_id, float(t_s), name, n) for name, n in counts.items()]
    treatment = plain.treatments[0]
    scale_up = replace(treatment.estimates["p95"], variable="scale_up", mean=2.0, low=1.5, high=2.5)
    first = replace(treatment, estimates={**treatment.estimates, "scale_up": scale_up})
    starts = [(treatment.treatment_id, True, "created → ready", 40, 1.5, 2.0, 2.2, 2.5)]
    curves = [
        (treatment.treatment_id, True, step, 0.1 * number + later, number / 10)
        for later, step in enumerate(CURVE_STEPS)
        for number in range(1, 11)
    ]
    nothing = float("nan")
    usage = [
        (treatment.treatment_id, 3, "Deployment/<b>", 0.5, 2.0**27, 3.0, 0.1, 0.3, 2.0**25, 2.0**26),
        (treatment.treatment_id, 3, "node/n1", 1.5, 2.0**30, nothing, nothing, nothing, nothing, nothing),
    ]
    return replace(
        plain,
        treatments=(first, *plain.treatments[1:]),
        replicas=pd.DataFrame(rows, columns=list(FIGURE_COLUMNS)),
        pod_starts=pd.DataFrame(starts, columns=list(START_COLUMNS)),
        pod_curves=pd.DataFrame(curves, columns=list(CURVE_COLUMNS)),
        usage=pd.DataFrame(usage, columns=list(USAGE_COLUMNS)),
    )


def test_pods_share_the_clock_of_the_load(analysis: ExperimentAnalysis) -> None:
    frame = series.bands(analysis)
    ready = frame[frame.variable == "pods_ready"]
    assert ready.t_s.min() >= 0
    assert (ready[ready.t_s < 3].mid.max(), ready[ready.t_s >= 5].mid.min()) == (1.0, 3.0)
    assert set(frame.variable) >= {"pods_desired", "pods_pending"}


def test_what_never_changes_has_no_row(analysis: ExperimentAnalysis) -> None:
    assert "nodes_ready" not in set(series.bands(analysis).variable)
    calm = analysis.replicas[analysis.replicas.metric != "pods_pending"]
    assert "pods_pending" not in set(series.bands(replace(analysis, replicas=calm)).variable)


def test_nodes_that_come_are_drawn_with_those_that_are_not_ready_behind(analysis: ExperimentAnalysis) -> None:
    rows = [
        (run.treatment_id, run.run_id, float(t_s), name, count)
        for run in analysis.runs
        for t_s in range(8)
        for name, count in (("nodes", 1 + (t_s >= 2)), ("nodes_ready", 1 + (t_s >= 4)))
    ]
    scaled = replace(analysis, replicas=pd.DataFrame(rows, columns=list(FIGURE_COLUMNS)))
    figure = next(one for one in report.build(scaled).figures if one.id.startswith("timeseries"))
    assert {"nodes", "nodes_ready"} <= {record["variable"] for record in figure.datasets["bands"]}
    assert "the grey line is all that are there, Ready or not" in figure.caption


def test_the_report_shows_them(analysis: ExperimentAnalysis) -> None:
    model = report.build(analysis)
    figure = next(one for one in model.figures if one.id.startswith("timeseries"))
    drawn = {record["variable"] for record in figure.datasets["bands"]}
    assert {"pods_ready", "pods_desired", "pods_pending"} <= drawn
    assert "pods ready" in figure.alt
    assert "the grey line is the number that was wanted" in figure.caption
    tables = {one.id: one for one in model.tables}
    assert [cell.text for cell in tables["pod-starts"].rows[0]][1:] == [
        "under load", "created → ready", "40", "1.5 s", "2 s", "2.2 s", "2.5 s",
    ]  # fmt: skip
    usage = tables["usage"].rows
    assert [cell.text for cell in usage[0]][1:6] == [
        "Deployment/<b>",
        "0.5 cores",
        "128 MiB",
        "3",
        "0.1 cores",
    ]
    assert usage[0][5].detail == "most 0.3 cores"
    assert usage[1][4].text == "–"
    assert "scale" in tables["pods"].columns[1].title.lower()
    assert "<b>" not in report.html.render(model).split("Deployment/", 1)[1][:20]


def test_a_report_without_clusters_has_none_of_it(model: report.ReportModel) -> None:
    assert not {"pods", "pod-starts", "usage"} & {one.id for one in model.tables}


def test_how_pods_came_up_is_drawn_step_by_step(analysis: ExperimentAnalysis) -> None:
    (figure,) = (one for one in report.build(analysis).figures if one.id == "pod-starts-figure")
    rows = figure.datasets["pod_starts"]
    assert {row["step"] for row in rows} == set(CURVE_STEPS)
    assert len({row["treatment"] for row in rows}) == 1, "the other treatment saw no pod come up"
    assert "half are ready within 3.5 s" in figure.alt
    few = analysis.pod_curves[analysis.pod_curves.share <= 0.4]
    assert not [
        one
        for one in report.build(replace(analysis, pod_curves=few)).figures
        if one.id == "pod-starts-figure"
    ], "four pods are a table"


def lines_of(analysis: ExperimentAnalysis, *instances: str, of: int) -> ExperimentAnalysis:
    run = analysis.runs[0]
    rows = [
        (run.treatment_id, run.run_id, row, name, float(t_s), 1.0, value, of)
        for row, value in (("pod_cpu", 0.5), ("node_memory", 2.0**30))
        for name in instances
        for t_s in range(4)
    ]
    return replace(analysis, each=pd.DataFrame(rows, columns=list(EACH_COLUMNS)))


def test_single_pods_and_nodes_are_lines(analysis: ExperimentAnalysis) -> None:
    (figure,) = [
        one for one in report.build(lines_of(analysis, "a", "<b>", of=40)).figures if one.id == "each-1"
    ]
    assert {record["variable"] for record in figure.datasets["bands"]} == {"pod_cpu", "node_memory"}
    assert {record["instance"] for record in figure.datasets["bands"]} == {"a", "<b>"}
    assert "CPU of pods, cores and memory of nodes" in figure.alt
    assert "of 40 pods the 2 with most CPU and of 40 nodes the 2 with most memory" in figure.caption
    assert {record["shown"] for record in figure.datasets["bands"]} == {"0.5 cores", "1 GiB"}


def test_one_pod_alone_needs_no_lines(analysis: ExperimentAnalysis) -> None:
    assert not [
        one for one in report.build(lines_of(analysis, "a", of=1)).figures if one.id.startswith("each")
    ]


def test_steps_that_no_pod_makes_are_not_in_the_legend(analysis: ExperimentAnalysis) -> None:
    """Processes of this machine are started and become ready; nobody schedules them or pulls their images."""
    curves = analysis.pod_curves
    local = replace(analysis, pod_curves=curves[curves.step.isin(["started", "ready"])])
    (figure,) = (one for one in report.build(local).figures if one.id == "pod-starts-figure")
    assert "cluster's messages" not in figure.caption
    spec = json.dumps(figure.spec(narrow=False))
    assert '"started"' in spec
    assert '"pulled"' not in spec
    (whole,) = (one for one in report.build(analysis).figures if one.id == "pod-starts-figure")
    assert "cluster's messages" in whole.caption


def test_a_count_holds_until_the_next_one(analysis: ExperimentAnalysis) -> None:
    """Told at changes and now and then, a count is a step: no mean of two, and no slope from one to the other."""
    run = analysis.runs[0]
    told = [(0.05, 1.0), (1.05, 1.0), (1.31, 1.0), (1.32, 4.0), (2.05, 4.0)]
    rows = [(run.treatment_id, run.run_id, t_s, "pods_ready", value) for t_s, value in told]
    counted = replace(analysis, replicas=pd.DataFrame(rows, columns=list(FIGURE_COLUMNS)))
    frame = series.bands(counted)
    ready = frame[frame.variable == "pods_ready"]
    assert set(ready.mid) == {1.0, 4.0}
    assert ready[ready.t_s > 1.3].mid.eq(4.0).all()
    width_s = float(ready.end_s.iloc[0] - ready.t_s.iloc[0])
    assert len(ready) == round((ready.t_s.max() - ready.t_s.min()) / width_s) + 1, "every bin has one"


def test_a_count_that_is_not_renewed_is_not_known_any_more(analysis: ExperimentAnalysis) -> None:
    run = analysis.runs[0]
    times = [0.0, 1.0, 2.0, 20.0, 21.0]
    rows = [(run.treatment_id, run.run_id, t_s, "pods_ready", 1.0 + t_s) for t_s in times]
    counted = replace(analysis, replicas=pd.DataFrame(rows, columns=list(FIGURE_COLUMNS)))
    ready = series.bands(counted).query("variable == 'pods_ready'")
    assert ready[(ready.t_s > 2 + series.HELD_S + 1) & (ready.t_s < 19)].empty


def test_rows_are_in_the_order_of_the_file(analysis: ExperimentAnalysis) -> None:
    names = Names(analysis)
    ids = list(names.by_id)
    rows = pd.DataFrame({"treatment_id": [*reversed(ids), ids[0]], "n": range(len(ids) + 1)})
    ordered = names.in_order(rows)
    assert ordered.treatment_id.tolist() == [ids[0], *ids]
    assert ordered.n.tolist()[:2] == [len(ids) - 1, len(ids)], "those of one stay as they were"


def test_messages_of_a_cluster_are_spoken_of_where_there_is_one(analysis: ExperimentAnalysis) -> None:
    def remark(found: ExperimentAnalysis) -> str:
        return next(one for one in report.build(found).tables if one.id == "pod-starts").remark

    assert "cluster's messages" not in remark(analysis)
    starts = analysis.pod_starts.assign(phase="created → scheduled")
    assert "cluster's messages" in remark(replace(analysis, pod_starts=starts))
