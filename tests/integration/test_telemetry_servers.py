"""Telemetry from a real Prometheus and a real Netdata, as Debian has them."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from support import small_study as study
from support.repeated import repeated
from support.telemetry_servers import Running, free_port, netdata, prometheus
from towtank.clock import RunClock
from towtank.telemetry import registry
from towtank.telemetry.base import LooksAhead, ObserveContext, Outlook
from towtank.telemetry.sampler import Observation, Sampler

pytestmark = pytest.mark.alone
STUDY = """\
experiment: scraped
question: Does the application get the load?
repetitions: 1
max_invalid_repeats: 0
seed: 3
deployments:
  one:
    platform: local
    command: ["{{python}}", -S, {app}, --port, "{{port}}"]
    port: {port}
    ready: {{http: /health, timeout: 20s}}
workloads:
  reads:
    timeout: 2s
    load: {{model: open, rate: 40/s, duration: 4s}}
    journey: {{steps: [{{name: read, path: /}}]}}
reset: none
settle: {{timeout: 30s, hold: 500ms}}
observe:
  - prometheus:
      url: {url}
      interval: 250ms
      queries:
        served: {{query: app_requests_total, unit: count}}
        app: {{query: 'rate(process_cpu_seconds_total{{job="app"}}[1s])', unit: cores}}
generator: {{nice: 0}}
"""


def observe(
    name: str, options: dict[str, Any], seconds: float, meanwhile: Any = None
) -> tuple[Observation, RunClock]:
    clock = RunClock(time.monotonic_ns())
    context = ObserveContext(clock, options.pop("interval_s"), [], options=options)
    sampler = Sampler([(registry.create(name), context)])
    sampler.start()
    if meanwhile is not None:
        meanwhile()
    time.sleep(seconds)
    return sampler.stop(), clock


def kinds(seen: Observation) -> set[str]:
    return {event.kind for event in seen.events}


@repeated
def test_values_of_a_real_prometheus_stand_at_their_times(tmp_path: Path) -> None:
    """`time()` as a query is its own truth: each value is the server's time, here the same machine's."""
    with prometheus(tmp_path / "p") as server:
        queries = {
            "clock": {"query": "time()", "unit": "s"},
            "up": {"query": "up", "unit": "count", "instance": ["job"]},
            "heap": {"query": "go_memstats_heap_inuse_bytes", "unit": "bytes"},
        }
        ahead_ns = time.time_ns() - time.monotonic_ns()
        seen, clock = observe("prometheus", {"url": server.url, "queries": queries, "interval_s": 0.2}, 2.0)
    times = [(s.t_us, s.value) for s in seen.samples if s.metric == "clock_s"]
    assert len(times) >= 9
    for t_us, value_s in times:
        true_us = clock.at_us(round(value_s * 1e9) - ahead_ns)
        assert abs(t_us - true_us) < 20_000
    assert {s.value for s in seen.samples if s.metric == "up" and s.instance == "self"} == {1.0}
    assert {s.instance for s in seen.samples if s.metric == "heap_bytes"} == {
        server.url.removeprefix("http://")
    }
    facts = seen.facts["prometheus"]
    assert facts["version"].startswith("2.")
    assert facts["scrape_interval_s"] == {"self": 0.25}
    assert facts["clock"]["uncertainty_s"] < 0.02
    assert facts["gaps_known"] is True
    assert seen.gaps == ()


def test_what_a_real_prometheus_says_before_the_first_run(tmp_path: Path) -> None:
    def ahead(query: str, **more: Any) -> Outlook:
        source = registry.create("prometheus")
        assert isinstance(source, LooksAhead)
        queries = {"x": {"query": query, "unit": "count", **more}}
        return source.look_ahead({"url": server.url, "queries": queries}, tmp_path, 1.0)

    with prometheus(tmp_path / "p") as server:
        assert ahead("up") == Outlook()
        (problem,) = ahead("sum(").problems
        assert "parse error" in problem
        (problem,) = ahead("up[1m]").problems
        assert "a range of values" in problem
        (problem,) = ahead("prometheus_http_requests_total", instance="job").problems
        assert "cannot be told apart by job; they differ in code, handler" in problem or "handler" in problem
        (remark,) = ahead("nobody_has_this").remarks
        assert "gives no value now" in remark


@repeated
def test_a_real_prometheus_that_is_killed_and_comes_back_leaves_a_gap(tmp_path: Path) -> None:
    """It repeats its last values over the time in which it was dead; that must not pass for observation."""

    def restart() -> None:
        time.sleep(1.5)
        server.kill()
        server.start()
        time.sleep(7.0)  # it begins to scrape five seconds after its start

    with prometheus(tmp_path / "p") as server:
        given = {"url": server.url, "queries": {"up": {"query": "up", "unit": "count"}}, "interval_s": 0.25}
        seen, _ = observe("prometheus", given, 0.5, restart)
    assert len(seen.samples) > 4
    (gap,) = [gap for gap in seen.gaps if gap.to_us - gap.from_us > 1_500_000]
    assert gap.from_us == pytest.approx(1_500_000, abs=600_000)
    assert gap.reason == "the server scraped nothing"


@repeated
def test_a_real_prometheus_that_dies_for_good_is_a_finding(tmp_path: Path) -> None:
    with prometheus(tmp_path / "p") as server:
        given = {"url": server.url, "queries": {"up": {"query": "up", "unit": "count"}}, "interval_s": 0.25}
        seen, _ = observe("prometheus", given, 0.5, server.kill)
    assert kinds(seen) == {"source_failed"}
    assert len(seen.gaps) == 1
    assert len(seen.samples) == 0


def test_an_experiment_that_a_real_prometheus_watches(tmp_path: Path) -> None:
    """40 requests a second from 0 to 4 s: what the application counted must be there at the right times."""
    port = free_port()
    with prometheus(tmp_path / "p", targets=[f"127.0.0.1:{port}"]) as server:
        folder = tmp_path / "study"
        _, record, samples = _run_study(folder, server, port)
        assert "gives no value now" in (folder / "said.txt").read_text()
    assert record["verdicts"]["system"] == "intact"
    (said,) = record["telemetry"]["sources"]
    assert said["source"] == "prometheus"
    assert said["clock"]["uncertainty_s"] < 0.1
    assert said["queries"]["served"]["values"] > 10
    served = sorted((t, v) for t, m, v in samples if m == "served")
    inside = [(t / 1e6, v) for t, v in served if 0.5e6 < t < 3.5e6]
    assert len(inside) >= 10
    due = [abs(v - 40 * t) for t, v in inside]
    assert sorted(due)[len(due) // 2] < 40 * 0.6, "scraped at most 0.25 s ago, on a machine that may be busy"
    assert max(v for t, v in served if t < 0) <= 60, "readiness probes only"
    assert any(v > 0 for _, m, v in samples if m == "app_cores")
    page = (folder / "results" / "scraped" / "report" / "report.html").read_text("utf-8")
    assert "What was observed over time: prometheus" in page
    assert "served" in page


def _run_study(
    folder: Path, server: Running, port: int
) -> tuple[Path, dict[str, Any], list[tuple[int, str, float]]]:
    folder.mkdir()
    file = folder / "experiment.yaml"
    file.write_text(STUDY.format(app=study.HTTP_APP, port=port, url=server.url), encoding="utf-8")
    done = study.towtank("run", file, "--plain")
    (folder / "said.txt").write_text(done.stdout + done.stderr)
    assert done.returncode in (0, 6), done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    results = folder / "results" / "scraped"
    found = study.records(results)
    name, record = next(iter(found.items()))
    if (
        record["verdicts"]["instrument"] == "invalid"
    ):  # the machine was busy, which is not what is tested here
        record["verdicts"] |= {"instrument": "suspect"}
        (results / "runs" / name / "run.json").write_text(json.dumps(record), encoding="utf-8")
        assert study.towtank("report", results).returncode == 0
    table = pq.read_table(results / "runs" / name / "samples.parquet")
    columns = (table.column(c).to_pylist() for c in ("t_us", "metric", "value"))
    return results, record, list(zip(*columns, strict=True))


@repeated
def test_values_of_a_real_netdata_stand_at_their_times(tmp_path: Path) -> None:
    """It takes its values at whole seconds of the wall clock, which here is the same machine's."""
    with netdata(tmp_path / "n") as agent:
        charts = {"cpu": "system.cpu", "net": {"context": "net.net"}, "memory": "system.ram"}
        source = registry.create("netdata")
        assert isinstance(source, LooksAhead)
        assert source.look_ahead({"url": agent.url, "charts": charts}, tmp_path, 1.0) == Outlook()
        (problem,) = source.look_ahead(
            {"url": agent.url, "charts": {"cpu": "system.cpuu"}}, tmp_path, 1.0
        ).problems
        assert "did you mean 'system.cpu'?" in problem
        time.sleep(2)
        ahead_ns = time.time_ns() - time.monotonic_ns()
        seen, clock = observe("netdata", {"url": agent.url, "charts": charts, "interval_s": 1.0}, 7.0)
    metrics = {s.metric for s in seen.samples}
    assert {"cpu_user_ratio", "cpu_system_ratio", "memory_free_bytes"} <= metrics
    times = sorted({s.t_us for s in seen.samples if s.metric == "cpu_user_ratio"})
    assert len(times) >= 5
    assert all(abs(b - a - 1_000_000) < 50_000 for a, b in itertools.pairwise(times)), "one a second"
    for t_us in times:
        wall_us = (clock.zero_ns + ahead_ns) // 1000 + t_us
        assert abs((wall_us + 500_000) % 1_000_000 - 500_000) < 30_000, "known by the Date header alone"
    assert all(0 <= s.value <= 1 for s in seen.samples if s.metric == "cpu_user_ratio")
    facts = seen.facts["netdata"]
    assert facts["version"].startswith("v1.")
    assert abs(facts["clock"]["ahead_s"]) < 0.1, "it is this machine's own clock"
    assert facts["clock"]["uncertainty_s"] < 0.1
    assert seen.gaps == ()
    assert kinds(seen) == set()


@repeated
def test_a_real_netdata_that_dies_is_a_finding(tmp_path: Path) -> None:
    with netdata(tmp_path / "n") as agent:
        given = {"url": agent.url, "charts": {"cpu": "system.cpu"}, "interval_s": 1.0}
        seen, _ = observe("netdata", given, 0.5, agent.kill)
    assert kinds(seen) == {"source_failed"}
    assert len(seen.gaps) == 1
