"""`towtank load` with the real engine: what hey's users find, and targets that misbehave."""

from __future__ import annotations

import csv
import io
import socket

import pyarrow.parquet as pq
import pytest

from support import small_study as study
from support.bad_servers import misbehaving


@pytest.fixture
def app():
    """The test application on a port of its own; yields its address."""
    import subprocess
    import sys

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with subprocess.Popen([sys.executable, "-S", str(study.HTTP_APP), "--port", str(port)]) as process:
        study.wait_until(lambda: listening(port), what="the application listens")
        yield f"http://127.0.0.1:{port}"
        process.kill()


def listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_load_of_so_many_requests(app):
    done = study.towtank("load", "-n", "120", "-c", "7", f"{app}/")
    assert done.returncode == 0, done.stderr
    assert "[200]\t120 responses" in done.stdout
    assert "Failed:\t0" in done.stdout
    assert "99% in " in done.stdout


@pytest.mark.alone  # how many there are in so long depends on when they come
def test_a_load_of_so_long(app):
    done = study.towtank("load", "-z", "700ms", "-c", "2", "-q", "20", f"{app}/")
    assert done.returncode == 0, done.stderr
    count = int(done.stdout.partition("[200]\t")[2].split()[0])
    assert 20 <= count <= 32, "two workers, twenty a second each, seven tenths of a second"


def test_an_open_load_keeps_its_rate_and_its_records(app, tmp_path):
    done = study.towtank("load", "--rate", "100/s", "-z", "1s", "--keep", tmp_path / "kept", f"{app}/missing")
    assert done.returncode == 0, done.stderr
    assert "[404]\t100 responses" in done.stdout
    table = pq.read_table(study.kept_run(tmp_path / "kept") / "requests.parquet")
    assert table.num_rows == 100
    assert table.column("scheduled_us").to_pylist() == [i * 10_000 for i in range(100)]


def test_csv_is_one_line_a_request(app):
    done = study.towtank("load", "-n", "9", "-c", "3", "-o", "csv", f"{app}/")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 9
    assert {row["status-code"] for row in rows} == {"200"}
    assert all(float(row["response-time"]) > 0 for row in rows)


def test_headers_and_host_arrive(app, tmp_path):
    done = study.towtank(
        "load", "-n", "1", "-c", "1", "-H", "X-Thing: {{ 1 }}", "-a", "user:secret", "--keep", tmp_path,
        f"{app}/header?X-Thing",
    )  # fmt: skip
    assert "[200]" in done.stdout, done.stderr
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"job.json", "plan.json"} <= {path.name for path in kept}
    assert not [path for path in kept if b"dXNlcjpzZWNyZXQ" in path.read_bytes()], (
        "the password is in no file"
    )


def test_without_keepalive_every_request_connects(app, tmp_path):
    done = study.towtank("load", "-n", "10", "-c", "2", "-disable-keepalive", "--keep", tmp_path, f"{app}/")
    assert done.returncode == 0, done.stderr
    table = pq.read_table(study.kept_run(tmp_path) / "requests.parquet")
    assert table.column("connect_us").null_count == 0


def test_a_target_that_is_down():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    done = study.towtank("load", "-n", "4", "-c", "2", f"http://127.0.0.1:{port}/")
    assert done.returncode == 0, "the load was carried out; what came of it is in the summary, as with hey"
    assert "[4]\tconnection refused" in done.stdout
    assert done.stdout.lstrip().startswith("Every request failed: connection refused (4)")
    assert "% in" not in done.stdout, "no percentile is made of failures alone"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("reset", "connection reset"),
        ("stall", "timeout waiting for the first byte"),
        ("stall-in-body", "timeout within the answer"),
        ("garbage", "not HTTP"),
        ("short", "connection closed before the answer was complete"),
    ],
)
def test_a_target_that_misbehaves_is_named(kind, words):
    with misbehaving(kind) as url:
        done = study.towtank("load", "-n", "3", "-c", "3", "-t", "1", url)
    assert done.returncode == 0, done.stderr
    assert f"[3]\t{words}" in done.stdout, done.stdout
    assert "Traceback" not in done.stderr


def test_an_endless_body_is_cut_off():
    with misbehaving("endless") as url:
        done = study.towtank("load", "-n", "1", "-c", "1", "-t", "3", url)
    assert done.returncode == 0, done.stderr
    assert "answer larger than allowed" in done.stdout or "timeout within the answer" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", "3", "-c", "9"], "-n 3 is less than -c 9"),
        (["-z", "3"], "3"),
        (["-o", "xml"], "csv"),
        (["--arrivals", "bursty"], "poisson"),
        (["-d", "a", "-D", "/etc/hostname"], "either"),
        (["-D", "/nowhere"], "/nowhere"),
    ],
)
def test_wrong_options_are_usage_errors(words, said):
    done = study.towtank("load", *words, "http://127.0.0.1:9/")
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--insecure", "http://127.0.0.1:9/"], "are for https only"),
        (["-H", "X: a\r\nY: b", "http://127.0.0.1:9/"], "the header x cannot be used"),
        (["http://127.0.0.1:9/a b"], "the URL cannot be used"),
        (["notaurl.invalid"], "has no address"),
        (["mailto://"], "not a URL that can be loaded"),
    ],
)
def test_what_cannot_be_asked_for_is_said_in_one_sentence(words, said):
    done = study.towtank("load", "-n", "1", "-c", "1", *words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1
    assert "$." not in done.stderr
    assert "towtank-load-" not in done.stderr, "no path of a folder that is gone"


def test_an_engine_that_is_lost_points_to_no_deleted_file(tmp_path):
    engine = tmp_path / "towtank-engine"
    engine.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "towtank-engine 0 (release, fake, none, rustc, commit none)"\n'
    )
    engine.chmod(0o755)
    done = study.towtank("load", "-n", "1", "-c", "1", "http://127.0.0.1:9/", TOWTANK_ENGINE=str(engine))
    assert done.returncode == 1, done.stderr
    assert "--keep DIR" in done.stderr
    assert "towtank-load-" not in done.stderr


def test_ctrl_c_still_prints_the_summary(app):
    process = study.start("load", "-z", "30s", "-c", "1", "-q", "50", f"{app}/")
    study.wait_until(
        lambda: process.poll() is not None or bool(engine_of(process.pid)), what="the engine runs"
    )
    import time

    time.sleep(1.0)
    study.interrupt(process)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "Latency distribution" in out


def engine_of(pid):
    from towtank.campaign import processes

    return [s for s in processes.all_stats() if s.parent == pid and s.name.startswith("towtank-engine")]
