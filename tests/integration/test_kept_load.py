"""`towtank load --keep`: what it leaves is read by the commands that read an experiment's results."""

from __future__ import annotations

import json
import time

import pytest

from support import servers
from support import small_study as study
from towtank.analysis import analyse
from towtank.store import Results


class Handler(servers.Quiet):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = b"ok"
        self.send_response(200 if self.path != "/missing" else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def url():
    with servers.serving() as start:
        server = start(servers.on_loopback(Handler))
        yield f"http://127.0.0.1:{server.server_address[1]}"


def kept(tmp_path, *words):
    folder = tmp_path / "kept"
    done = study.towtank("load", "--keep", folder, *words)
    assert done.returncode == 0, done.stderr
    assert f"towtank report {folder}" in done.stderr
    return folder, done


@pytest.mark.parametrize(
    ("words", "model", "count"),
    [
        (("-n", "30", "-c", "3"), "closed", 30),
        (("--rate", "100/s", "-z", "500ms"), "open", 50),
        (("--rate", "100/s", "-n", "20", "--arrivals", "poisson"), "open", 20),
    ],
)
def test_sql_and_report_read_it(url, tmp_path, words, model, count):
    folder, done = kept(tmp_path, *words, f"{url}/")
    assert f"[200]\t{count} responses" in done.stdout
    asked = (
        "SELECT run_id, load_model, state, count(*) AS n FROM requests JOIN runs USING (run_id) GROUP BY ALL"
    )
    (row,) = json.loads(study.towtank("sql", folder, asked, "-f", "json").stdout)
    assert (row["run_id"], row["load_model"], row["state"], row["n"]) == (
        "b01-load-a1",
        model,
        "complete",
        count,
    )
    report = study.towtank("report", folder)
    assert report.returncode == 0, report.stderr
    page = (folder / "report" / "report.html").read_text()
    assert f"How does {url} answer?" in page


def test_the_analysis_counts_what_the_summary_counts(url, tmp_path):
    folder, done = kept(tmp_path, "-n", "40", "-c", "2", f"{url}/missing")
    (run,) = analyse(Results.open(folder)).runs
    assert (run.due, run.outcomes) == (40, {"check:status": 40})
    assert run.system == "collapsed", "nothing was answered as expected"
    assert "[404]\t40 responses" in done.stdout
    record = json.loads((study.kept_run(folder) / "run.json").read_text())
    assert record["stages"][0]["end_us"] == record["window"]["end_us"] < 60_000_000, (
        "not the longest it could take"
    )
    assert record["engine"]["counts"]["rows"] == 40
    assert record["deployment"]["url"] == url


def test_it_can_be_exported(url, tmp_path):
    folder, _ = kept(tmp_path, "-n", "10", "-c", "1", f"{url}/")
    # a busy machine may have spoiled the load, which is another test's matter
    done = study.towtank("export", folder, "--hgrm", tmp_path / "hgrm", "--all")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "hgrm" / "b01-load-a1.hgrm").exists()


def test_a_folder_with_anything_in_it_is_left_alone(url, tmp_path):
    (tmp_path / "experiment.yaml").write_text("experiment: mine\n")
    done = study.towtank("load", "-n", "1", "-c", "1", "--keep", tmp_path, f"{url}/")
    assert done.returncode == 3
    assert "is not empty (experiment.yaml is in it)" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["experiment.yaml"]


def test_a_job_that_the_engine_refuses_leaves_no_folder(url, tmp_path):
    done = study.towtank(
        "load", "-n", "1", "-c", "1", "-H", "X: a\r\nY: b", "--keep", tmp_path / "kept", f"{url}/"
    )
    assert done.returncode == 2
    assert "the header x cannot be used" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seed", str(2**63)), "with --keep allowed are"),
        (("--unix-socket", "a socket"), "there is no socket"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_sent(url, tmp_path, words, said):
    done = study.towtank("load", "-n", "1", "-c", "1", *words, "--keep", tmp_path / "kept", f"{url}/")
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "kept").exists()


def test_a_load_that_was_stopped_is_kept_up_to_there(url, tmp_path):
    process = study.start("load", "-z", "60s", "-c", "1", "-q", "50", "--keep", tmp_path / "kept", f"{url}/")
    logs = tmp_path / "kept" / "runs" / "b01-load-a1" / "requests"
    study.wait_until(lambda: process.poll() is not None or any(logs.glob("*.log")), what="the load has begun")
    time.sleep(1.0)
    study.interrupt(process)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    (run,) = Results.open(tmp_path / "kept").runs()
    assert run.record.engine["stopped_by"] == "stop"
    assert run.record.window.end_us < 30_000_000
    assert run.counts(["latency"]).num_rows > 0
    verdicts = run.record.verdicts
    assert verdicts.instrument == "invalid"
    assert "load_stopped" in [reason.name for reason in verdicts.instrument_reasons]
    assert "goodput_low" not in [reason.name for reason in verdicts.system_reasons]
    report = study.towtank("report", tmp_path / "kept")
    page = (tmp_path / "kept" / "report" / "report.html").read_text()
    assert "the load was stopped before its end" in page, report.stderr
