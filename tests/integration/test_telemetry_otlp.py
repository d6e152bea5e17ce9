"""Spans of a real application of two processes, through a real run, to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from support import small_study as study
from support import traced_app
from support.repeated import repeated
from support.servers import Quiet, on_loopback
from support.telemetry_servers import free_port

pytestmark = pytest.mark.alone
STUDY = """\
experiment: traced
question: Where does the time go?
repetitions: 1
max_invalid_repeats: 0
seed: 3
deployments:
  shop:
    platform: local
    command: ["{{python}}", {app}, --port, "{{port}}", --collector, "http://127.0.0.1:{port}"]
    ready: {{http: /health, timeout: 20s}}
workloads:
  reads:
    timeout: 2s
    load: {{model: open, rate: 40/s, duration: 4s}}
    journey: {{steps: [{{name: buy, path: /buy}}]}}
reset: none
settle: {{timeout: 30s, hold: 200ms}}
observe:
  - otlp: {{listen: "127.0.0.1:{port}"}}
generator: {{nice: 0, traceparent: {share}}}
"""


def write(folder: Path, port: int, share: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "experiment.yaml"
    file.write_text(STUDY.format(app=Path(traced_app.__file__), port=port, share=share), encoding="utf-8")
    return file


def run(folder: Path, share: str) -> tuple[Path, dict[str, Any]]:
    """Run the study; a run that a busy machine spoiled is looked at all the same."""
    port = free_port()
    folder /= str(port)  # what is tried again begins anew
    done = study.towtank("run", write(folder, port, share), "--plain")
    assert done.returncode in (0, 6), done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    results = folder / "results" / "traced"
    ((name, record),) = study.records(results).items()
    if record["verdicts"]["instrument"] == "invalid":
        record["verdicts"] |= {"instrument": "suspect"}
        (results / "runs" / name / "run.json").write_text(json.dumps(record), encoding="utf-8")
        assert study.towtank("report", results).returncode == 0
    return results / "runs" / name, record


def sql(results: Path, query: str) -> list[dict[str, Any]]:
    done = study.towtank("sql", results, query, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(600)
@repeated
def test_spans_of_two_processes_tell_where_the_time_went(tmp_path: Path) -> None:
    folder, record = run(tmp_path / "study", "1.0")
    (said,) = record["telemetry"]["sources"]
    assert said["source"] == "otlp"
    assert said["refused"] == {}
    assert said["clock"]["uncertainty_s"] < 0.01
    assert all(not sender["differs"] for sender in said["senders"]), "it is this machine's own clock"
    assert said["waited_s"] < 5.0, "everything was there long before the bound"
    spans = pq.read_table(folder / "spans.parquet").to_pylist()
    assert {(s["service"], s["name"]) for s in spans} == {
        ("shop", "GET /buy"), ("shop", "ask stock"), ("shop", "render"), ("stock", "GET /stock"), ("stock", "query"),
    }  # fmt: skip
    assert len(spans) == 5 * 160
    rows = sql(
        folder.parents[1],
        "SELECT s.start_us - (r.scheduled_us + r.lag_us + r.wait_us) AS after_us "
        "FROM requests r JOIN spans s ON s.run_id = r.run_id AND s.trace_id = r.trace_id AND s.parent_id = r.parent_id",
    )
    assert len(rows) == 160, "every request has its outermost span"
    assert all(row["after_us"] >= -1000 for row in rows), "no server begins before the request was sent"
    assert sorted(row["after_us"] for row in rows)[80] < 20_000
    page = (folder.parents[1] / "report" / "report.html").read_text("utf-8")
    assert "Where time went, hop by hop" in page
    assert "stock · query" in page
    assert "traces incomplete" not in page
    assert "requests without spans" not in page
    _check_hops(folder.parents[1])


def _check_hops(results: Path) -> None:
    """The slow tenth waits for its query, and for nothing else."""
    from towtank.analysis import analyse
    from towtank.store import Results

    hops = analyse(Results.open(results)).hops
    columns = (hops[name] for name in ("group", "name", "self_s"))
    self_s = {(group, name): seconds for group, name, seconds in zip(*columns, strict=True)}
    assert traced_app.QUERY_S <= self_s["median", "query"] < traced_app.SLOW_QUERY_S
    assert self_s["slow", "query"] >= traced_app.SLOW_QUERY_S
    assert self_s["median", "render"] >= traced_app.RENDER_S
    assert self_s["slow", "GET /buy"] < 0.02
    assert set(hops["percentile"]) == {50, 95}, "160 requests have no 20 above the 99th percentile"


@pytest.mark.timeout(600)
@repeated
def test_a_share_of_requests_is_traced_and_the_others_are_not(tmp_path: Path) -> None:
    folder, _ = run(tmp_path / "study", "25%")
    traced = {s["trace_id"] for s in pq.read_table(folder / "spans.parquet").to_pylist()}
    (row,) = sql(folder.parents[1], "SELECT count(*) AS n FROM requests WHERE trace_draw < 0.25")
    assert len(traced) == row["n"]
    assert 20 <= row["n"] <= 60


def test_a_port_in_use_is_said_before_the_first_run(tmp_path: Path) -> None:
    server = on_loopback(Quiet)
    try:
        port = server.server_address[1]
        done = study.towtank("run", write(tmp_path / "study", port, "1.0"), "--plain")
    finally:
        server.server_close()
    assert done.returncode == 4, done.stderr
    assert (
        f"otlp: telemetry source 'otlp' cannot listen at 127.0.0.1:{port}: Address already in use"
        in done.stderr
    )
    assert "give another address" in done.stderr
    assert not list((tmp_path / "study").glob("results/*/runs/*"))
