"""Writing a run: at any moment it is `running` and readable, or `complete`."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from support.make_logs import write_log
from support.make_results import TreatmentModel, make_results
from towtank.design.plan import PlannedRun
from towtank.errors import ResultsError
from towtank.store import Results, RunWriter, count_tables, files, schemas, writer
from towtank.store.run_record import Verdicts, Window
from towtank.telemetry.base import Event, Sample

PLANNED = PlannedRun("b01-one", 1, 1, "one", 42)
ROWS = {
    "scheduled_us": [5, 3, 9], "lag_us": [1] * 3, "wait_us": [0] * 3, "dns_us": [None] * 3,
    "connect_us": [7, None, None],
    "tls_us": [None] * 3, "ttfb_us": [10, 20, None], "after_ttfb_us": [1, 2, 30], "status": [200, 200, None],
    "outcome": ["answered", "answered", "reset"], "bytes_out": [1] * 3, "bytes_in": [2, 2, 0], "workload": ["w"] * 3,
    "step": ["s"] * 3, "target": ["t"] * 3, "instance": ["app-0"] * 3, "user": [1, 0, 2], "iteration": [0] * 3,
    "worker": [0] * 3, "attempt": [0] * 3, "http_version": ["1.1"] * 3, "redirects": [0] * 3,
    "reused": [True] * 3, "warmup": [False] * 3,
    "cold": [None] * 3,
}  # fmt: skip
TABLE = pa.table(ROWS, schema=schemas.REQUESTS)


@pytest.fixture
def results(tmp_path):
    """A folder whose runs are not done yet."""
    make_results(tmp_path / "r", treatments={"one": TreatmentModel()}, blocks=1, duration_s=2)
    for path in (tmp_path / "r" / "runs").iterdir():
        path.rename(tmp_path / path.name)
    return Results.open(tmp_path / "r")


def begin(results, attempt=1):
    return RunWriter.create(
        results, PLANNED, attempt, experiment="synthetic", treatment_label="one", levels={"deployment": "one"},
        workload="w", timeout_us=5_000_000,
    )  # fmt: skip


def drive(run):
    run.write_samples(
        [Sample(2, "host", "", "cpu_used_ratio", 0.5), Sample(1, "host", "", "cpu_used_ratio", 0.4)]
    )
    run.write_samples([])
    run.write_samples(iter([Sample(3, "process", "app-0", "cpu_cores", 0.1)]))
    run.write_events([Event(1, "platform", "ready", "app-0", "<script>alert(1)</script>")])
    write_log(run.layout.request_logs / "thread-0.log", TABLE)
    return run.record.model_copy(
        update={
            "window": Window(start_us=4, end_us=10, drained_us=40),
            "verdicts": Verdicts(instrument="valid", system="intact"),
        }
    )


def test_a_run_from_beginning_to_end(results):
    with begin(results) as run:
        record = drive(run)
        closed = run.close(record)
    assert closed.state == "complete"
    assert closed.finished_utc is not None
    results.reload()
    [found] = results.runs()
    assert found.record == closed
    assert found.record.seed == 42
    assert found.requests().to_table().column("scheduled_us").to_pylist() == [3, 5, 9]
    assert not found.layout.request_logs.exists()
    assert found.samples()["t_us"].to_pylist() == [1, 2, 3]
    assert found.events()["message"].to_pylist() == ["<script>alert(1)</script>"]
    assert sorted(p.name for p in found.path.iterdir()) == [
        "counts.parquet", "events.parquet", "logs", "requests.parquet", "run.json", "samples.parquet", "totals.parquet",
    ]  # fmt: skip
    inside = found.counts().to_pandas().query("variable == 'latency' and in_window")
    assert dict(zip(inside["value"], inside["count"], strict=True)) == {12: 1, 31: 1}


def test_before_it_is_closed_it_is_running_and_readable(results):
    with begin(results) as run:
        drive(run)
        results.reload()
        [found] = results.runs("running")
        assert found.samples()["t_us"].to_pylist() == [2, 1, 3]
        assert found.requests().count_rows() == 3
        assert results.runs() == []
    assert found.samples()["t_us"].to_pylist() == [2, 1, 3]


def test_an_attempt_is_never_written_twice(results):
    begin(results)
    with pytest.raises(ResultsError, match="b01-one-a1 exists already"):
        begin(results)
    assert begin(results, attempt=results.next_attempt("b01-one")).record.run_id == "b01-one-a2"


def test_a_run_without_load_is_completed_too(results):
    """A deployment that never became ready: that is its result, without requests."""
    with begin(results) as run:
        run.close(run.record.model_copy(update={"failure": "app-0 did not become ready in 60 s"}))
    results.reload()
    [found] = results.runs()
    assert found.record.failure.startswith("app-0")
    assert found.counts().num_rows == found.samples().num_rows == found.requests().count_rows() == 0


class Crash(BaseException):
    """What kill -9 leaves: nothing after it is done."""


STEPS = [
    (writer.engine_log, "compact"),
    (writer.shutil, "rmtree"),
    (count_tables, "write_counts"),
    (count_tables, "write_totals"),
    (writer, "write_json"),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(len(STEPS)), ids=[name for _, name in STEPS])
def test_a_crash_at_any_step_leaves_a_readable_run_that_a_new_close_completes(
    results, monkeypatch, step, after
):
    run = begin(results)
    record = drive(run)
    module, name = STEPS[step]
    original = getattr(module, name)

    def crash(*args, **kwargs):
        if after:
            original(*args, **kwargs)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(module, name, crash)
        with pytest.raises(Crash):
            run.close(record)
    results.reload()
    [found] = results.runs("all")
    complete = name == "write_json" and after
    assert found.record.state == ("complete" if complete else "running")
    assert sorted(b for batch in found.request_batches() for b in batch["scheduled_us"].to_pylist()) == [
        3,
        5,
        9,
    ]
    assert found.samples().num_rows == 3
    assert not list(found.path.glob("*.tmp"))
    again = RunWriter(found.layout, found.record).close(record)
    assert again.state == "complete"
    results.reload()
    assert results.runs()[0].requests().count_rows() == 3
    assert results.runs()[0].samples().num_rows == 3
    assert results.runs()[0].totals().num_rows == 3


def test_a_torn_requests_file_is_made_again_from_the_logs(results):
    run = begin(results)
    record = drive(run)
    run.layout.requests.write_bytes(b"PAR1 torn")
    run.close(record)
    results.reload()
    assert results.runs()[0].requests().count_rows() == 3


def test_a_record_can_be_kept_up_to_date_but_not_completed_by_it(results):
    run = begin(results)
    run.update(run.record.model_copy(update={"deployment": {"pid": 7}}))
    results.reload()
    assert results.runs("running")[0].record.deployment == {"pid": 7}
    with pytest.raises(ValueError, match="close completes it"):
        run.update(run.record.model_copy(update={"state": "complete"}))


def test_an_included_file_cannot_be_named_out_of_the_folder(results, tmp_path):
    plan = results.plan
    for name in ("../../evil.yaml", "/tmp/evil.yaml"):
        hostile = type(plan)(
            plan.experiment, plan.treatments, plan.runs, plan.digest, {"experiment.yaml": "", name: "x"}
        )
        with pytest.raises(ResultsError, match="leads out of"):
            writer.create_results(tmp_path / "h", hostile, {})


def test_writing_again_keeps_the_runs(results):
    begin(results)
    again = writer.create_results(results.path, results.plan, {"schema_version": 1})
    assert [r.run_id for r in again.runs("all")] == ["b01-one-a1"]


def test_a_window_never_ends_before_it_starts():
    assert Window(start_us=5, end_us=5, drained_us=0).end_us == 5
    with pytest.raises(ValueError, match="before it starts"):
        Window(start_us=2_000_000, end_us=4445, drained_us=5000)


def test_json_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "run.json"
    files.write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_kill_left_aside_is_removed(results):
    run = begin(results)
    record = drive(run)
    (run.path / ".spill-old").mkdir()
    (results.path / "runs" / ".new-b01-two-a1").mkdir()
    run.close(record)
    assert not list(run.path.glob(".spill*"))
    results.reload()
    assert [r.run_id for r in results.runs("all")] == ["b01-one-a1"]
    assert results.damage == []


def test_nothing_is_printed_by_the_way():
    """DuckDB draws a progress bar to stdout after two seconds unless told not to."""
    from towtank.store.duck import connect

    with connect(memory_bytes=64 << 20) as connection:
        assert connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]
