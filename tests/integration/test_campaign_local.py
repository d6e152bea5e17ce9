"""`towtank run` with the real engine, real processes under the guard, and real requests."""

from __future__ import annotations

import signal

import pyarrow.parquet as pq
import pytest

from support import small_study as study


@pytest.fixture
def folder(tmp_path):
    """Where a study lives; nothing of it may be alive afterwards."""
    yield tmp_path / "study"
    study.wait_until(lambda: not study.alive_below(tmp_path), what="every process of the study has ended")


def test_an_experiment_from_file_to_answer(folder):
    file = study.write_study(folder)
    done = study.towtank("run", file, "--plain", "--no-report")
    results = folder / "results" / "small"
    assert done.returncode in (0, 6), done.stderr  # 6: on a busy machine runs may be invalid, and it says so
    assert "Which of two is faster?" in done.stdout
    assert "Traceback" not in done.stderr
    found = study.records(results)
    assert sorted(found) == ["b01-one-a1", "b01-two-a1", "b02-one-a1", "b02-two-a1"]
    for name, record in found.items():
        assert record["state"] == "complete"
        assert record["verdicts"]["system"] == "intact", record["verdicts"]
        assert record["engine"]["counts"]["due"] == record["engine"]["counts"]["rows"] == 20
        requests = pq.read_table(results / "runs" / name / "requests.parquet")
        assert requests.num_rows == 20
        assert set(requests.column("outcome").to_pylist()) == {"answered"}
        samples = pq.read_table(results / "runs" / name / "samples.parquet")
        assert min(samples.column("t_us").to_pylist()) < 0, "the baseline before the load was observed, too"
        assert {"host", "process"} <= set(samples.column("source").to_pylist())
        overhead = sum(record["timings_s"].values()) - record["timings_s"]["drive"]
        assert overhead < 10
    assert not list((results / "intents").iterdir())
    assert not (results / "scratch").exists()


def test_a_deployment_that_never_becomes_ready(folder):
    file = study.write_study(folder, flags=", --say, warming, --healthy-in, '60'", ready="600ms")
    done = study.towtank("run", file, "--plain")
    assert done.returncode == 4
    assert "error:" in done.stderr
    assert "warming" in done.stderr, "its last log lines are shown"
    assert "Traceback" not in done.stderr


def test_a_deployment_that_dies_under_load_is_its_result(folder):
    file = study.write_study(folder, blocks=2, path="/crash?7", rate=20)
    done = study.towtank("run", file, "--plain", "--no-report")
    assert done.returncode in (0, 6), done.stderr
    for record in study.records(folder / "results" / "small").values():
        assert record["verdicts"]["system"] == "collapsed"
        names = {reason["name"] for reason in record["verdicts"]["system_reasons"]}
        assert "crashed" in names
        assert record["attempt"] == 1, "never repeated away"


def test_ctrl_c_ends_the_run_in_order_and_the_same_command_resumes(folder):
    file = study.write_study(folder, blocks=2, duration="3s")
    results = folder / "results" / "small"
    process = study.start("run", file, "--plain", "--no-report")
    study.wait_until(lambda: list(results.glob("runs/*/requests/thread-0.log")), what="the first load is on")
    study.interrupt(process)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Traceback" not in out + err
    assert "resumes" in err
    assert not list((results / "intents").iterdir())
    file.write_text(file.read_text())  # the very same experiment
    before = study.records(results)
    done = study.towtank("run", file, "--plain", "--no-report", timeout=200)
    assert done.returncode in (0, 6), done.stderr
    after = study.records(results)
    assert {name: record for name, record in after.items() if name in before} == before
    assert sum(record["state"] == "complete" for record in after.values()) == 4


def test_a_changed_experiment_is_refused(folder):
    file = study.write_study(folder, blocks=2, duration="200ms")
    assert study.towtank("run", file, "--plain", "--no-report").returncode in (0, 6)
    study.write_study(folder, blocks=2, duration="200ms", rate=41)
    done = study.towtank("run", file, "--plain")
    assert done.returncode == 3
    assert "40" in done.stderr
    assert "41" in done.stderr
    assert "--force-new" in done.stderr


def test_sigterm_is_an_interruption(folder):
    file = study.write_study(folder, duration="5s")
    process = study.start("run", file, "--plain", "--no-report")
    results = folder / "results" / "small"
    study.wait_until(lambda: list(results.glob("runs/*/requests/thread-0.log")), what="the first load is on")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
