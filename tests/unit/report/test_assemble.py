"""What a report says when there is little, or nothing, to say; mostly without figures, which take seconds."""

from dataclasses import replace

import pandas as pd
import pytest

from support.sample_analysis import sample_analysis
from towtank import report
from towtank.analysis.analyse import STEP_COLUMNS
from towtank.analysis.model import Condition, ExperimentAnalysis, Finding


@pytest.fixture(scope="module")
def empty():
    sample = sample_analysis()
    frames = {
        name: getattr(sample, name).iloc[:0]
        for name in ("timeseries", "resources", "ecdf", "percentiles", "slo")
    }
    return ExperimentAnalysis(
        headline="Nothing has been run yet.", decided=False, slo_held=None, runs=(), treatments=(), comparisons=(),
        findings=(), stages=[], meta={}, **frames,
    )  # fmt: skip


def test_an_unfinished_experiment_has_a_report(empty):
    model = report.build(empty)
    page = report.html.render(model)
    assert "Nothing has been run yet." in page
    assert model.figures == ()
    assert "vegaEmbed=" not in page  # no figures, no library
    assert len(page) < 100_000


def test_secret_headers_of_kept_files_are_not_shown(empty):
    kept = {"experiment.yaml": "headers: {Authorization: s3cr3t}\n"}
    model = report.build(replace(empty, meta={"files": kept}))
    for text in (report.html.render(model), report.markdown.render(model)):
        assert "Authorization:" in text
        assert "s3cr3t" not in text


def test_a_treatment_without_a_valid_run(empty):
    sample = sample_analysis()
    nothing = {name: {} for name in ("estimates", "pooled", "outcomes", "statuses", "instances")}
    bare = replace(sample.treatments[0], n_valid=0, n_invalid=3, n_collapsed=0, **nothing)  # fmt: skip
    model = report.build(replace(empty, treatments=(bare,)))
    assert "0 of 0" in report.markdown.render(model)


def test_blocks_that_never_began_are_missing_runs():
    sample = sample_analysis()
    first = replace(sample.treatments[0], n_valid=6, n_invalid=1)
    meta = {**sample.meta, "blocks": 9}
    model = report.build(
        replace(sample, treatments=(first, *sample.treatments[1:]), meta=meta), figures=False
    )
    runs = next(t for t in model.tables if t.id == "treatments").rows[0][-1]
    assert (runs.text, runs.detail) == ("6 of 9", "1 invalid")
    assert runs.note.startswith("3 blocks missing")


def test_no_findings_is_said():
    model = report.build(replace(sample_analysis(), findings=()), figures=False)
    threats = next(s for s in model.sections if s.id == "threats")
    assert threats.blocks[0].message == "Nothing was found that speaks against these results."


def test_threats_open_with_what_the_results_rest_on():
    said = (
        Condition("data state", "not reset", "a run may depend on those before it"),
        Condition("collapses", "in 3 of 8 runs", "its means are over both", ("two-processes-limited",)),
        Condition("order", "randomized blocks, seed 7"),
    )
    model = report.build(replace(sample_analysis(), conditions=said), figures=False)
    threats = next(s for s in model.sections if s.id == "threats")
    table, *notices = threats.blocks
    assert [[c.text for c in row] for row in table.rows] == [
        ["Data state", "not reset", "all", "a run may depend on those before it"],
        ["Collapses", "in 3 of 8 runs", "two-processes-limited", "its means are over both"],
        ["Order", "randomized blocks, seed 7", "all", "–"],
    ]
    assert [n.severity for n in notices] == ["serious", "warning", "info"]


def test_what_was_deployed_is_part_of_how_to_repeat_it():
    sample = sample_analysis()
    environment = {
        "engine": {"build": "towtank-engine 0.1.0 (release, commit 1a2b)"},
        "applications": {"one-process": "shop:1.2@sha256:abc"},
        "application_files": {"shop/server.py": "37d47043"},
    }
    model = report.build(replace(sample, meta=sample.meta | {"environment": environment}), figures=False)
    text = report.markdown.render(model)
    for words in ("commit 1a2b", "shop:1.2@sha256:abc", "37d47043  shop/server.py"):
        assert words in text


def test_findings_list_five_runs_and_quote_nothing():
    sample = sample_analysis()
    runs = tuple(f"b{i:02d}-one-a1" for i in range(34))
    found = Finding("late", "warning", "`nice` was 10.5 ms late", "Run `towtank doctor`.", runs)
    model = report.build(replace(sample, findings=(found,)), figures=False)
    for text in (report.html.render(model), report.markdown.render(model)):
        assert "b04-one-a1" in text.replace("\\", "")
        assert " and 29 more" in text
        assert "→ Run towtank doctor." in text or ">Run towtank doctor.<" in text


def test_findings_are_ordered_by_weight(model):
    threats = next(s for s in model.sections if s.id == "threats")
    assert [n.severity for n in threats.blocks] == ["serious", "warning", "info"]


def test_figures_without_anything_to_show_are_left_out():
    sample = sample_analysis()
    calm = tuple(replace(t, outcomes={"answered": 10}, instances={"app-0": 10}) for t in sample.treatments)
    model = report.build(replace(sample, treatments=calm))
    assert not {"outcomes", "instances"} & {f.id for f in model.figures}


def test_without_figures_the_words_and_tables_are_the_same(model):
    plain = report.build(sample_analysis(), figures=False)
    assert plain.figures == ()
    assert plain.tables == model.tables
    assert plain.answers == model.answers


def test_chips_count_what_happened(model):
    assert [c.text for c in model.chips] == [
        "decided", "SLO missed", "24 valid runs", "1 of them suspect", "1 invalid run, not counted",
        "3 runs collapsed", "12\u202f000 requests",
    ]  # fmt: skip


def test_exploratory_comparisons_carry_no_verdict(model):
    table = next(t for t in model.tables if t.id == "exploratory")
    assert "Verdict" not in [c.title for c in table.columns]
    assert len(model.answers) == 4


def test_exploratory_rows_that_repeat_others_are_left_out():
    sample = sample_analysis()
    first = next(c for c in sample.comparisons if not c.confirmatory)
    other = {"p99": 0.5, "p99_ok": 0.5, "median": 0.4, "median_ok": 0.3, "goodput": 0.1, "error_ratio": -0.1}
    told = tuple(replace(first, variable=name, estimate=size) for name, size in other.items())
    model = report.build(replace(sample, comparisons=told), figures=False)
    table = next(t for t in model.tables if t.id == "exploratory")
    assert len(table.rows) == 4
    assert "error_ratio, p99_ok." in table.remark


def test_steps_of_the_journey():
    steps = pd.DataFrame(
        [
            ("one-process", "list", "p95", 0.012, 0.011, 0.013, 8, False, "t", ""),
            ("one-process", "list", "requests", 75.8, None, None, 8, False, "count", "70 to 80 in 8 runs"),
            (
                "one-process",
                "list",
                "goodput",
                1.0,
                None,
                None,
                8,
                False,
                "constant",
                "the same in all 8 runs",
            ),
            ("one-process", "cpu", "p95", 2.0, None, None, 8, True, "t", "1 of 8 runs lie above"),
        ],
        columns=list(STEP_COLUMNS),
    )
    model = report.build(replace(sample_analysis(), steps=steps), figures=False)
    table = next(t for t in model.tables if t.id == "steps")
    listed, cpu = table.rows
    assert [c.text for c in listed] == ["one-process", "list", "75.8", "100 %", "12 ms"]
    assert [c.detail for c in listed[2:]] == ["", "in every run", "11–13 ms"]
    assert (cpu[4].text, cpu[4].note) == ("> 2 s", "1 of 8 runs lie above")
    assert cpu[2].text == "–"
    assert cpu[2].note


def test_analysis_of_variance():
    frame = pd.DataFrame(
        [
            ("p95", "deployment", 1.0, 2.0, 12.3, 0.004, 0.006, 0.6, "between deployments", ""),
            ("p95", "rest", 7.0, 1.0, None, None, None, 0.4, "between deployments", ""),
        ],
        columns=["variable", "term", "df", "sum_sq", "f", "p", "p_permutation", "share", "stratum", "reason"],
    )
    table = next(
        t
        for t in report.build(replace(sample_analysis(), factorial=frame), figures=False).tables
        if t.id == "factorial"
    )
    assert [c.text for c in table.rows[0]] == [
        "p95 latency",
        "deployment",
        "1",
        "12.3",
        "0.004",
        "0.006",
        "60 %",
    ]
    assert table.rows[0][1].detail == "between deployments"
    assert table.rows[1][3].note == "no test for this term"


def test_the_public_names_are_complete():
    assert set(report.__all__) == {"ReportModel", "build", "figures", "html", "markdown", "terminal", "write"}
    assert all(callable(getattr(report, n)) or getattr(report, n).__doc__ for n in report.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        report.nothing  # noqa: B018


def test_a_bound_on_a_percentile_among_failures_shows_what_it_is_above_of():
    sample = sample_analysis()
    above = next(
        (t.treatment_id, name)
        for t in sample.treatments
        for name, found in t.estimates.items()
        if found.above and found.mean is not None
    )
    row = {
        "treatment_id": above[0], "variable": above[1], "bound": 0.3, "value": None, "held": False, "runs": 8,
        "runs_held": 0, "worst": None, "reason": "",
    }  # fmt: skip
    model = report.build(replace(sample, slo=pd.DataFrame([row])), figures=False)
    measured = next(t for t in model.tables if t.id == "slo").rows[0][3]
    assert measured.text.startswith("> ")
