"""Reading result folders: whole, killed, damaged, newer, and none at all."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.errors import NewerVersionError, ResultsError
from towtank.store import Results, locate, schemas
from towtank.store.layout import run_id, split_run_id


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_whole_folder(stored):
    results = Results.open(stored)
    assert results.damage == []
    assert [r.run_id for r in results.runs()] == [
        f"{p.id}-a{a}"
        for p in results.plan.runs
        for a in ((1, 2) if p.id == "b01-two" else (1,))
        if p.id != "b03-two"
    ]
    assert [r.run_id for r in results.runs("running")] == ["b03-two-a1"]
    assert "b01-two-a1" not in [r.run_id for r in results.runs(include_invalid=False)]
    assert results.plan.treatment("two").label == "two"
    assert results.environment["host"]["cores"] == 2
    assert "experiment.yaml" in results.files
    run = results.runs()[0]
    assert run.requests().count_rows() == run.totals()["count"].to_pandas().sum()
    assert run.samples().schema.equals(schemas.SAMPLES)
    assert run.events().schema.equals(schemas.EVENTS)
    assert run.counts().schema.equals(schemas.dictionary_encoded(schemas.COUNTS))
    assert run.totals().schema.equals(schemas.TOTALS)
    assert set(run.counts(["lag"])["variable"].to_pylist()) == {"lag"}
    assert run.logs[f"{run.record.treatment_id}-0"].read_text() == "listening\n"


def test_a_killed_run_is_readable(stored):
    [run] = Results.open(stored).runs("running")
    table = run.requests().to_table()
    assert table.schema.equals(schemas.REQUESTS)
    assert table.num_rows == sum(b.num_rows for b in run.request_batches()) > 1000
    assert run.samples().num_rows > 50
    assert run.events()["kind"].to_pylist() == ["ready"]
    assert run.counts().num_rows == run.totals().num_rows == 0


def test_a_torn_log_and_a_torn_stream_keep_what_came_before(damaged):
    [run] = Results.open(damaged).runs("running")
    rows, samples = run.requests().count_rows(), run.samples().num_rows
    for path in (run.layout.thread_logs()[0], run.layout.samples_stream):
        path.write_bytes(path.read_bytes()[:-1500])
    assert rows - 4096 <= run.requests().count_rows() < rows
    assert run.samples().num_rows < samples
    run.layout.samples_stream.write_bytes(b"")
    assert run.samples().num_rows == 0


def test_attempts_are_counted_over_killed_and_damaged_folders(damaged):
    results = Results.open(damaged)
    assert results.next_attempt("b01-two") == 3
    assert results.next_attempt("b03-two") == 2
    assert results.next_attempt("b99-two") == 1
    assert [r.record.attempt for r in results.attempts("b01-two")] == [1, 2]
    (damaged / "runs" / "b01-two-a7").mkdir()
    assert results.next_attempt("b01-two") == 8


def test_a_newer_run_is_refused(damaged):
    edit(damaged / "runs" / "b02-one-a1" / "run.json", schema_version=2)
    with pytest.raises(NewerVersionError, match=r"b02-one-a1/run\.json.*schema_version 2.*up to 1"):
        Results.open(damaged)


@pytest.mark.parametrize(("file", "key"), [("plan.json", "version"), ("environment.json", "schema_version")])
def test_a_newer_folder_is_refused(damaged, file, key):
    edit(damaged / file, **{key: 99})
    with pytest.raises(NewerVersionError, match="99"):
        Results.open(damaged)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is missing"),
        (b"", "is damaged"),
        (b'{"state": "compl', "is damaged"),
        (b"[]", "expected a JSON object, found list"),
        (b"{}", "is damaged"),
        (b'{"state": "half"}', "is damaged"),
        (b"\xff\xfe\x00", "is damaged"),
        (b"[" * 100_000, "is damaged"),
    ],
)
def test_a_broken_run_json_is_named_and_the_rest_is_read(damaged, content, message):
    path = damaged / "runs" / "b02-one-a1" / "run.json"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    results = Results.open(damaged)
    [damage] = results.damage
    assert "b02-one-a1/run.json" in str(damage)
    assert message in str(damage)
    assert len(results.runs()) == 5


def test_a_run_json_of_another_run_is_damage(damaged):
    (damaged / "runs" / "b02-one-a1" / "run.json").write_text(
        (damaged / "runs" / "b01-one-a1" / "run.json").read_text()
    )
    [damage] = Results.open(damaged).damage
    assert "speaks of run 'b01-one-a1'" in str(damage)


@pytest.mark.parametrize("table", ["requests", "samples", "events", "counts", "totals"])
def test_a_truncated_table_is_named_and_the_others_are_read(damaged, table):
    path = damaged / "runs" / "b01-one-a1" / f"{table}.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    run = Results.open(damaged).attempts("b01-one")[0]
    with pytest.raises(ResultsError, match=rf"{table}\.parquet is damaged"):
        getattr(run, table)()
    for other in {"samples", "events", "counts", "totals"} - {table}:
        assert getattr(run, other)().num_rows > 0


@pytest.mark.parametrize("table", ["counts", "totals"])
def test_a_complete_run_whose_sums_are_gone_is_no_run_without_load(damaged, table):
    path = damaged / "runs" / "b01-one-a1" / f"{table}.parquet"
    path.unlink()
    (run,) = (one for one in Results.open(damaged).runs("complete") if one.run_id == "b01-one-a1")
    with pytest.raises(ResultsError, match=f"{table}.parquet is missing"):
        getattr(run, table)()


def test_a_table_of_something_else_is_named(damaged):
    path = damaged / "runs" / "b01-one-a1" / "samples.parquet"
    pa.parquet.write_table(pa.table({"t_us": [1]}), path)
    with pytest.raises(ResultsError, match="it has no column source, instance, metric, value"):
        Results.open(damaged).attempts("b01-one")[0].samples()


def test_links_out_of_the_folder_are_refused(damaged, tmp_path):
    secret = tmp_path / "elsewhere.parquet"
    pa.parquet.write_table(schemas.SAMPLES.empty_table(), secret)
    path = damaged / "runs" / "b01-one-a1" / "samples.parquet"
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(ResultsError, match="leads out of the result folder"):
        Results.open(damaged).attempts("b01-one")[0].samples()
    outside = tmp_path / "b09-x-a1"
    (damaged / "runs" / "b02-one-a1").rename(outside)
    (damaged / "runs" / "b02-one-a1").symlink_to(outside)
    [damage] = Results.open(damaged).damage
    assert "leads out of the result folder" in str(damage)


def test_what_is_no_result_folder_is_said(tmp_path):
    with pytest.raises(ResultsError, match="is not a folder with results"):
        Results.open(tmp_path / "nowhere")
    with pytest.raises(ResultsError, match="is not a result folder") as error:
        Results.open(tmp_path)
    assert "results/<experiment>" in error.value.hint


def test_a_damaged_plan_is_named(damaged):
    (damaged / "plan.json").write_text('{"version": 1, "digest": "x"}')
    with pytest.raises(ResultsError, match=r"plan\.json"):
        _ = Results.open(damaged).plan
    (damaged / "plan.json").write_text("{")
    with pytest.raises(ResultsError, match=r"plan\.json is damaged"):
        Results.open(damaged)


def test_results_are_found_from_file_study_and_copy(tmp_path):
    study = tmp_path / "storage"
    folder = study / "results" / "backends"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    (folder / "experiment.yaml").write_text("experiment: backends\n")
    file = study / "experiment.yaml"
    file.write_text("# comment\nexperiment: 'backends'   # which\nquestion: x\n")
    assert locate(file) == locate(study) == locate(folder) == locate(folder / "experiment.yaml") == folder
    (study / "results" / "other").mkdir()
    (study / "results" / "other" / "plan.json").write_text("{}")
    assert locate(file) == folder
    with pytest.raises(ResultsError, match="several experiments: backends, other"):
        locate(study)
    file.write_text("experiment: third\n")
    with pytest.raises(ResultsError, match="no results of the experiment 'third'") as error:
        locate(file)
    assert "towtank run" in error.value.hint
    with pytest.raises(ResultsError, match="does not exist"):
        locate(tmp_path / "nothing.yaml")


@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,30}", fullmatch=True), st.integers(1, 99), st.integers(1, 99)
)
def test_run_ids_can_be_taken_apart(treatment, block, attempt):
    planned = f"b{block:02d}-{treatment}"
    assert split_run_id(run_id(planned, attempt)) == (planned, attempt)
