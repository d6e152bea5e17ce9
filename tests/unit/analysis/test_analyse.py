"""Whole result folders, synthetic, with planted effects: what a reader gets."""

import io
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from support.make_results import PLATEAU, SPIKE, TreatmentModel, make_results
from support.plans import make_plan
from towtank import report
from towtank.analysis import Quantity, analyse
from towtank.analysis.comparison import compare
from towtank.design.model import Answer
from towtank.store import Results

SMALL = {"duration_s": 3.0, "rate_per_s": 20.0, "warmup_s": 1.0}


def analysed(path, treatments, **extra):
    return analyse(Results.open(make_results(path / "results", treatments=treatments, **{**SMALL, **extra})))


def names(found):
    return [f.name for f in found.findings]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return analysed(
        tmp_path_factory.mktemp("planted"),
        {
            "one": TreatmentModel(median_ms=10),
            "two": TreatmentModel(median_ms=6, instances=2, invalid=(4,), suspect=(2,)),
            "three": TreatmentModel(median_ms=10, collapsed=(1, 2, 3, 4, 5, 6, 7, 8)),
        },
        blocks=8, duration_s=4.0, rate_per_s=40.0, stages=SPIKE, slo={"p95": 0.2, "goodput": 0.99},
    )  # fmt: skip


def test_the_planted_effect_is_found_and_told(planted):
    two = next(c for c in planted.comparisons if c.treatment_id == "two" and c.variable == "p95")
    assert two.verdict == "better"
    assert two.low < 0.6 < two.high
    assert two.n == 8
    assert planted.headline.startswith("two compared with one is better in p95 latency (0.")
    assert "three collapsed in 8 of 8 runs" in planted.headline


def test_a_collapsed_treatment_is_worse_not_missing(planted):
    three = next(c for c in planted.comparisons if c.treatment_id == "three" and c.variable == "p95")
    assert three.verdict == "worse"
    assert three.estimate is None
    summary = planted.treatments[2]
    assert (summary.n_valid, summary.n_collapsed) == (8, 8)
    assert summary.estimates["p95"].above
    assert summary.pooled["p95"].above


def test_invalid_attempts_count_for_nothing(planted):
    two = planted.treatments[1]
    assert (two.n_valid, two.n_invalid) == (8, 1)
    spoiled = next(r for r in planted.runs if r.instrument == "invalid")
    assert spoiled.run_id == "b04-two-a1"
    assert spoiled.run_id not in set(planted.timeseries["run_id"])
    assert sum(two.outcomes.values()) == sum(
        r.due for r in planted.runs if r.treatment_id == "two" and r is not spoiled
    )


def test_findings_are_ordered_and_advise(planted):
    assert next(f.name for f in planted.findings if f.severity == "serious") in (
        "collapsed",
        "claim_rests_on_suspect_runs",
    )
    late = [f for f in planted.findings if f.name == "engine_late"]
    assert {f.runs for f in late} == {("b02-two-a1",), ("b04-two-a1",)}
    assert all(f.advice and f.message for f in planted.findings)
    order = {"serious": 0, "warning": 1, "info": 2}
    ranks = [order[f.severity] for f in planted.findings]
    assert ranks == sorted(ranks)


def test_tables_for_the_report(planted):
    assert planted.timeseries["run_id"].nunique() == 24
    assert set(planted.ecdf["treatment_id"]) == {"one", "two", "three"}
    assert planted.ecdf.groupby("treatment_id").size().max() <= 400
    assert planted.percentiles.query("treatment_id == 'three'")["latency_s"].isna().any()
    assert [s["name"] for s in planted.stages] == 3 * ["plateau", "spike", "recovery"]
    assert planted.stages[1] == {
        "treatment_id": planted.treatments[0].treatment_id,
        "workload": "shop",
        "name": "spike",
        "start_s": 1.6,
        "end_s": 2.4,
    }
    steps = planted.steps.set_index(["treatment_id", "step", "variable"])["mean"]
    assert steps["one", "cpu", "median"] > 2 * steps["one", "read", "median"]
    assert not planted.resources.empty
    assert planted.meta["family"] == 4
    assert planted.meta["files"]["experiment.yaml"]
    assert planted.meta["hosts"][0]["host"] == "tank"


def test_slo(planted):
    held = planted.slo.set_index(["treatment_id", "variable"])["held"]
    assert held["one", "goodput"]
    assert not held["three", "goodput"]
    assert planted.slo_held is False
    row = planted.slo.set_index(["treatment_id", "variable"]).loc[("three", "p95")]
    assert (row["runs_held"], row["runs"]) == (0, 8)
    assert pd.isna(row["value"])


def test_nothing_in_it_is_nan_or_infinite(planted):
    def numbers(quantities):
        return [q.value for q in quantities if q.value is not None]

    found = [n for r in planted.runs for n in numbers(r.values.values())]
    found += [
        n
        for c in planted.comparisons
        for n in (c.estimate, c.low, c.high, c.p_value, c.p_adjusted)
        if n is not None
    ]
    found += [
        n for t in planted.treatments for e in (*t.estimates.values(), *t.medians.values())
        for n in (e.mean, e.low, e.high) if n is not None
    ]  # fmt: skip
    assert found
    assert all(math.isfinite(n) for n in found)
    for comparison in planted.comparisons:
        assert comparison.p_value is not None or comparison.reason
        assert "nan" not in comparison.sentence
        assert "inf" not in comparison.sentence.replace("infl", "")


def test_all_invalid(tmp_path):
    found = analysed(tmp_path, {"one": TreatmentModel(), "two": TreatmentModel()}, blocks=2)
    assert found.decided is False
    folder = tmp_path / "results" / "runs"
    import json

    for record in folder.glob("*/run.json"):
        content = json.loads(record.read_text())
        content["verdicts"]["instrument"] = "invalid"
        record.write_text(json.dumps(content))
    found = analyse(Results.open(tmp_path / "results"))
    assert (
        found.headline == "No answer: all 4 judged runs are invalid, so nothing can be said about the system."
    )
    assert not found.decided
    assert all(c.verdict == "undecided" for c in found.comparisons if c.confirmatory)
    assert all(t.n_valid == 0 for t in found.treatments)
    assert found.timeseries.empty
    assert found.ecdf.empty
    assert "missing_runs" in names(found)


def test_no_runs_at_all(tmp_path):
    path = make_results(
        tmp_path / "results", treatments={"one": TreatmentModel(), "two": TreatmentModel()}, blocks=1, **SMALL
    )
    import shutil

    for run in (path / "runs").iterdir():
        shutil.rmtree(run)
    found = analyse(Results.open(path))
    assert found.headline.startswith("No answer: no run is complete")
    assert found.slo_held is None


def test_a_killed_run_leaves_an_incomplete_block(tmp_path):
    found = analysed(tmp_path, {"one": TreatmentModel(), "two": TreatmentModel(unfinished=(2,))}, blocks=3)
    assert {"interrupted_runs", "missing_runs", "few_blocks"} <= set(names(found))
    assert next(c for c in found.comparisons).n == 2
    assert [r.instrument for r in found.runs].count("incomplete") == 1


def test_one_treatment(tmp_path):
    found = analysed(
        tmp_path, {"only": TreatmentModel()}, blocks=3, answer=Answer(primary=("p95",), baseline="only")
    )
    assert found.headline == "One treatment, only: there is nothing to compare it with."
    assert found.comparisons == ()
    assert not found.decided


def test_one_block(tmp_path):
    found = analysed(tmp_path, {"one": TreatmentModel(), "two": TreatmentModel(median_ms=1)}, blocks=1)
    assert found.comparisons[0].verdict == "undecided"
    assert found.comparisons[0].estimate is not None
    assert found.treatments[0].estimates["p95"].low is None


def test_both_collapse_everywhere(tmp_path):
    always = (1, 2, 3, 4, 5, 6)
    found = analysed(
        tmp_path, {"one": TreatmentModel(collapsed=always), "two": TreatmentModel(collapsed=always)}, blocks=6
    )
    p95 = found.comparisons[0]
    assert (p95.variable, p95.verdict, p95.p_value) == ("p95", "undecided", 1.0)
    assert "6 of 6 runs of the treatment and 6 of 6 of the baseline" in p95.reason


def test_listed_order_is_analysed_and_warned_of(tmp_path):
    found = analysed(
        tmp_path, {"one": TreatmentModel(), "two": TreatmentModel(median_ms=5)}, blocks=6, order="listed"
    )
    p95 = found.comparisons[0]
    assert (p95.method, p95.verdict) == ("Welch", "better")
    assert set(p95.checks) == {"mann_whitney", "brunner_munzel"}
    assert "listed_order" in names(found)


def test_closed_load_and_factors(tmp_path):
    treatments = {
        f"{d}-{u}": TreatmentModel(levels={"deployment": d, "users": u}, median_ms=m, instances=1)
        for d, m in (("a", 10.0), ("b", 5.0))
        for u in (5, 10)
    }
    found = analysed(
        tmp_path, treatments, blocks=4, load="closed", users=4, stages=PLATEAU,
        answer=Answer(primary=("throughput",), baseline="a"),
    )  # fmt: skip
    assert "closed_loop" in names(found)
    confirmed = [c for c in found.comparisons if c.confirmatory]
    assert [(c.treatment_id, c.baseline_id) for c in confirmed] == [("b-5", "a-5"), ("b-10", "a-10")]
    assert all(c.verdict == "better" for c in confirmed)
    assert found.decided
    table = found.factorial.set_index(["variable", "term"])
    assert table.loc[("throughput", "deployment"), "p"] < 1e-4


def test_claims_that_rest_on_suspect_runs_are_told(tmp_path):
    suspect = (1, 2, 3, 4, 5, 6, 7)
    found = analysed(
        tmp_path, {"one": TreatmentModel(), "two": TreatmentModel(median_ms=5, suspect=suspect)}, blocks=8,
        answer=Answer(primary=("p95",), baseline="one"),
    )  # fmt: skip
    assert found.comparisons[0].verdict == "better"
    first = found.findings[0]
    assert (first.name, first.severity) == ("claim_rests_on_suspect_runs", "serious")
    assert "without them: undecided, 1 left" in first.message
    assert found.caution == "The only decided claim would not stand without the 7 suspect runs."
    shown = report.build(found, figures=False)
    assert (shown.answers[0].verdict, shown.answers[0].tone) == ("✓ better, but fragile", "unsure")
    assert found.caution in report.html.render(shown)
    assert found.caution in report.markdown.render(shown)
    console = Console(file=io.StringIO(), width=160)
    report.terminal.show(shown, console)
    assert found.caution in console.file.getvalue()


def test_analysing_twice_gives_the_same(tmp_path):
    path = make_results(
        tmp_path / "results", treatments={"one": TreatmentModel(), "two": TreatmentModel()}, blocks=20, duration_s=2.0,
        rate_per_s=10.0,
    )  # fmt: skip
    first, second = (analyse(Results.open(path)) for _ in range(2))
    assert first.comparisons == second.comparisons
    assert first.treatments == second.treatments
    assert first.findings == second.findings
    assert set(first.treatments[0].bootstrap) >= {"p95", "mean"}


def test_what_more_blocks_would_take_is_said_in_time():
    rng = np.random.default_rng(3)
    plan = make_plan(blocks=8)
    values = {
        "p95": {
            t.id: {b: Quantity(float(rng.lognormal(0, 0.5))) for b in range(1, 9)} for t in plan.treatments
        }
    }
    said = compare(plan, values, block_s=60.0)[0].sentence
    assert re.search(r"about \d+ blocks \(\d+ h \d+ min at the pace so far\) would show", said)
    assert said.endswith("; not worth it at this scatter.")


def test_the_cause_that_kept_the_first_run_from_starting_stands_first(tmp_path):
    never = TreatmentModel(unfinished=(1,))
    path = make_results(tmp_path / "results", treatments={"one": never, "two": never}, blocks=1, **SMALL)
    for file in path.glob("runs/*/run.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "failure": "nginx: not found"}))
    found = analyse(Results.open(path))
    assert found.caution == "The cause: “nginx: not found”"
    assert (found.findings[0].name, found.findings[0].severity) == ("interrupted_runs", "serious")
