"""`steady_state`: the unsteady beginning is left out of every run alike, exactly, and what was left out is told."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from support.make_results import Step, TreatmentModel, make_results
from towtank.analysis import analyse
from towtank.analysis.planning import pilot_values
from towtank.analysis.session import read_session
from towtank.analysis.steady_state import common_start, steady_findings, steady_folders, steady_state
from towtank.analysis.versions import regressions
from towtank.design.model import Answer
from towtank.report.interchange.files import write_hgrm
from towtank.store import Results, RunFolder
from towtank.store.derived import DerivedRuns

OWN = {
    "due_requests": {"sql": "select count(*) from requests where in_window", "better": "higher"},
    "due_counts": {"sql": "select sum(count) from counts where in_window and variable = 'latency'", "better": "higher"},
    "due_totals": {"sql": "select sum(count) from totals where in_window", "better": "higher"},
    "first_s": {"sql": "select min(scheduled_us) / 1e6 from requests where in_window", "better": "lower"},
}  # fmt: skip
SLOW = {"cold": TreatmentModel(slow_start=9.0), "warm": TreatmentModel()}


def made(path, treatments=SLOW, *, steady=True, seed=7, **more):
    answer = Answer(primary=("median",), baseline="warm", steady_state=steady, variables=OWN)
    options = {"blocks": 3, "duration_s": 60.0, "rate_per_s": 20.0, "warmup_s": 1.0, "sample_hz": 0.5,
               "steps": (Step("list"),), "block_sd": 0.01}  # fmt: skip
    return make_results(path, treatments=treatments, answer=answer, seed=seed, **{**options, **more})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made(tmp_path_factory.mktemp("steady") / "results", slo={"first_s": 1.5})


@pytest.fixture(scope="module")
def results(folder):
    return Results.open(folder)


@pytest.fixture(scope="module")
def found(results):
    return analyse(results)


@pytest.fixture(scope="module")
def start_s(results):
    return steady_state(results, results.plan).start_us / 1e6


def test_every_run_begins_when_the_slow_treatment_is_steady(found, start_s):
    assert 3 <= start_s <= 20
    assert start_s == int(start_s)
    for run in found.runs:
        assert run.window_s == 60 - start_s
        assert run.due == 20 * (60 - start_s)
        assert run.values["throughput"].value == pytest.approx(20, rel=0.02)


def test_requests_counts_totals_and_sql_agree(found):
    for run in found.runs:
        values = {name: run.values[name].value for name in OWN}
        assert values["due_requests"] == values["due_counts"] == values["due_totals"] == run.due


def test_the_beginning_no_longer_bends_what_is_measured(found, results, start_s):
    for folder in results.runs("all"):
        table = folder.requests().to_table()
        due = np.asarray(table["scheduled_us"]) / 1e6
        total = np.asarray(table["ttfb_us"]) + np.asarray(table["after_ttfb_us"])
        latency = (total + np.asarray(table["lag_us"]) + np.asarray(table["wait_us"])) / 1e6
        run = next(run for run in found.runs if run.run_id == folder.run_id)
        inside = (due >= start_s) & (due < 60)
        assert run.values["median"].value == pytest.approx(np.percentile(latency[inside], 50), rel=1e-9)


def test_what_was_left_out_is_told(found, start_s):
    [told] = [f for f in found.findings if f.name == "steady_state"]
    assert told.severity == "info"
    assert f"begin at {start_s:g} s" in told.message
    assert "cold in 3 of 3 runs" in told.message
    assert f"{round(6 * 20 * (start_s - 1)):,} requests" in told.message
    assert not [f for f in found.findings if f.name == "warmup_short"]


def test_bounds_and_own_variables_are_of_the_later_window(found, start_s):
    table = found.slo.set_index("treatment_id")
    assert set(table["variable"]) == {"first_s"}
    assert not table["held"].any()  # 1.5 s would have held from the declared warm-up on
    assert table["worst"].to_list() == pytest.approx([start_s, start_s], abs=0.06)


def test_other_readers_of_runs_see_the_same(results, start_s, tmp_path):
    values = pilot_values(results.plan, results, ("requests",))
    assert {q.value for of in values["requests"].values() for q in of.values()} == {20 * (60 - start_s)}
    assert {e.rows for e in write_hgrm(results, tmp_path / "hgrm")} >= {20 * (60 - start_s)}


def test_logged_bytes_have_no_value_then(folder, tmp_path):
    copy = tmp_path / "logged"
    shutil.copytree(folder, copy)
    for path in copy.glob("runs/*/run.json"):
        record = json.loads(path.read_text("utf-8"))
        record["logs"] = [{"instance": "a", "bytes": 900, "bytes_in_window": 800}]
        path.write_text(json.dumps(record), "utf-8")
    found = analyse(Results.open(copy))
    for run in found.runs:
        assert run.values["bytes_logged"].value is None
        assert "steady_state" in run.values["bytes_logged"].reason


def test_nothing_is_left_out_of_what_is_steady(tmp_path):
    folder = made(tmp_path / "results", {"one": TreatmentModel(), "warm": TreatmentModel()}, blocks=2)
    found = analyse(Results.open(folder))
    [told] = [f for f in found.findings if f.name == "steady_state"]
    assert "left nothing out" in told.message
    assert {run.window_s for run in found.runs} == {59.0}


@pytest.fixture(scope="module")
def unasked(folder, results):
    """The same results, as if their file had not asked for a steady state."""
    plan = results.plan
    answer = plan.experiment.answer.model_copy(update={"steady_state": False})
    other = Results.open(folder)
    other.__dict__["plan"] = replace(plan, experiment=plan.experiment.model_copy(update={"answer": answer}))
    return other


def test_without_the_key_the_advice_is_only_told(unasked):
    assert steady_state(unasked, unasked.plan) is None
    starts = [f.record.window.start_us for f in steady_folders(unasked, unasked.plan)]
    assert starts == [1_000_000] * 6
    [told] = [f for f in analyse(unasked).findings if f.name == "warmup_short"]
    assert "steady_state: true" in told.advice


def test_what_was_kept_of_runs_is_read_again_where_windows_move(unasked, results, start_s, tmp_path):
    derived = DerivedRuns(tmp_path, made_by="test")
    assert {run.window_s for run in analyse(unasked, derived=derived).runs} == {59.0}
    assert {run.window_s for run in analyse(results, derived=derived).runs} == {60 - start_s}
    derived.found.clear()
    assert {run.window_s for run in analyse(results, derived=derived).runs} == {60 - start_s}
    assert len(derived.found) == 2 * 6  # how a run begins, and all else of it


def test_no_table_is_read_again_where_nothing_changed(folder, tmp_path, monkeypatch):
    """What the windows of all runs depend on is kept of each run: one more run means reading one run."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    late = next(f for f in Results.open(copy).runs("all") if f.record.block == 3)
    shutil.move(late.path, tmp_path / "later")
    told = analyse(Results.open(copy), derived=DerivedRuns(tmp_path / "kept", made_by="test"))
    assert len(told.runs) == 5
    shutil.move(tmp_path / "later", late.path)
    read = set()
    plain = RunFolder.counts
    monkeypatch.setattr(RunFolder, "counts", lambda self, *a: (read.add(self.run_id), plain(self, *a))[1])
    again = analyse(Results.open(copy), derived=DerivedRuns(tmp_path / "kept", made_by="test"))
    assert read == {late.run_id}
    fresh = analyse(Results.open(copy))
    assert [f.message for f in again.findings] == [f.message for f in fresh.findings]
    assert [r.values for r in again.runs] == [r.values for r in fresh.runs]


def test_short_runs_are_not_judged_and_that_is_told(tmp_path):
    found = analyse(Results.open(made(tmp_path / "results", duration_s=8.0, blocks=2)))
    [told] = [f for f in found.findings if f.name == "steady_state_unknown"]
    assert "none of 4 runs" in told.message
    assert (
        "in 4 runs there are fewer than the 50 time bins of constant load that MSER-5 needs" in told.message
    )
    assert not [f for f in found.findings if f.name == "warmup_unjudged"], "said twice"
    assert {run.window_s for run in found.runs} == {7.0}


def test_failures_at_the_beginning_are_not_hidden(folder, tmp_path):
    """A start that fails is told as a warning, since the numbers no longer show it."""
    copy = tmp_path / "failing"
    shutil.copytree(folder, copy)
    for path in copy.glob("runs/*cold*/counts.parquet"):
        table = pq.read_table(path)
        early = pc.less(table["bin"], 3)
        other = pc.if_else(early, "error", table["outcome_class"].cast(pa.string()))
        at = table.schema.get_field_index("outcome_class")
        # the p95 of the first bins falls among failures now, so judge by the runs of the other folder
        pq.write_table(table.set_column(at, "outcome_class", other), path)
    judged, failing = Results.open(folder), Results.open(copy)
    found = steady_state(judged, judged.plan)
    failed = steady_state(failing, failing.plan)
    [told] = steady_findings(replace(found, beginnings=failed.beginnings), {})
    assert told.severity == "warning"
    assert "0 % of the rest" in told.message


def test_two_sessions_begin_at_the_same_time(results, tmp_path, start_s):
    slower = Results.open(made(tmp_path / "new", {**SLOW, "cold": TreatmentModel(slow_start=30.0)}, seed=8))
    later_s = steady_state(slower, slower.plan).start_us / 1e6
    assert later_s > start_s
    found = regressions(results, slower)
    assert any(f"all sides begin at {later_s:g} s" in note for note in found.notes)
    claim = next(c for c in found.claims if c.treatment_id == "cold")
    assert claim.estimate == pytest.approx(1, abs=0.1)


def ended_early(folder, tmp_path, end_s, *, instrument="valid"):
    """A copy in which the load of one run was over after so many seconds."""
    copy = Path(shutil.copytree(folder, tmp_path / f"ended-{end_s:g}"))
    path = min(copy.glob("runs/*cold*/run.json"))
    record = json.loads(path.read_text("utf-8"))
    record["window"] |= {"end_us": round(end_s * 1e6), "drained_us": round(end_s * 1e6)}
    record["verdicts"]["instrument"] = instrument
    path.write_text(json.dumps(record), "utf-8")
    return Results.open(copy), record["run_id"]


def test_an_attempt_that_was_over_before_the_start_has_no_values(folder, tmp_path, start_s):
    """Its window would be another one than that of all other attempts."""
    ended, run_id = ended_early(folder, tmp_path, start_s - 1.75, instrument="invalid")
    found = analyse(ended)
    run = next(run for run in found.runs if run.run_id == run_id)
    assert run.window_s == 0
    for name in ("median", "throughput", *OWN):
        assert run.values[name].value is None, name
        assert run.values[name].reason == "the load was over before the measured window begins", name
    assert {run.window_s for run in found.runs if run.run_id != run_id} == {60 - start_s}


def test_bins_of_an_attempt_that_ended_early_may_be_of_any_width(folder, tmp_path, start_s):
    ended, run_id = ended_early(folder, tmp_path, start_s + 3.5, instrument="invalid")
    record = next(f.record for f in ended.runs("all") if f.run_id == run_id)
    record.__dict__["bin_us"] = 1_500_000 if start_s % 1.5 else 700_000
    found = analyse(ended)
    assert next(run for run in found.runs if run.run_id == run_id).window_s < 3.5


def test_runs_too_short_for_the_common_start_keep_all_windows(results, folder, tmp_path, start_s):
    """Of one side with and the other without its beginning nothing else could be told; so neither begins later."""
    ended, run_id = ended_early(folder, tmp_path, start_s + 3)
    assert steady_state(ended, ended.plan).refused
    found = regressions(ended, results)
    [note] = [note for note in found.notes if "steady_state" in note]
    assert f"would leave less than half of {run_id}" in note
    assert "left nothing out of any side" in note
    assert not any("begin at" in note for note in found.notes)
    assert (
        read_session(results, common_start((ended, results)).start_us).values["requests"]["warm"][0].value
        == 20 * 59
    )
