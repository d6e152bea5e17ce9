"""The benchmarks' own arithmetic: rounds, ratios, what peers print; no peer and no server is run."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import engine, markdown, measure  # noqa: E402
from benchmarks.measure import Finished, Sample, Unmeasurable, interleaved  # noqa: E402
from benchmarks.peers import PEERS, ClosedLoad, h2load, hey, k6, locust, oha, wrk  # noqa: E402
from benchmarks.scenarios import SCENARIOS, shop  # noqa: E402

from towtank.load.check import check_job  # noqa: E402

LOAD = ClosedLoad("http://127.0.0.1:1/", 64, 2, 0)


def costing(*us):
    """A contender whose turns cost that many µs a request."""
    turns = iter(us)
    return lambda: Sample(1_000_000, next(turns))


def test_a_round_in_which_the_reference_is_noisy_is_repeated():
    rounds = interleaved(
        {"engine": costing(5, 9, 5, 5), "wrk": costing(5, 8, 5, 5)}, rounds=3, reference="wrk"
    )
    assert rounds.run == 4
    assert rounds.costs() == {"engine": [5.0, 5.0, 5.0], "wrk": [5.0, 5.0, 5.0]}
    assert rounds.ratios("engine", ["wrk", "hey"]) == {
        "engine ÷ wrk": {"median": 1.0, "min": 1.0, "max": 1.0}
    }


def test_what_a_scenario_keeps_of_its_rounds():
    rounds = interleaved({"engine": costing(5, 5), "wrk": costing(4, 4)}, rounds=2, reference="wrk")
    assert rounds.facts(2.0, without="wrk") == {
        "rounds_kept": 2, "rounds_run": 2, "left_out": {}, "us_per_request": {"engine": [5.0, 5.0]},
        "requests_per_s": {"engine": 500_000}, "failed": {"engine": 0},
    }  # fmt: skip
    assert rounds.facts(2.0)["requests_per_s"] == {"engine": 500_000, "wrk": 500_000}


def test_repeating_ends_on_a_machine_that_never_becomes_quiet():
    turns = [1, 2, 1, 2, 1, 2]
    rounds = interleaved({"wrk": costing(*turns)}, rounds=3, reference="wrk")
    assert rounds.run <= 6
    assert len(rounds.kept) == 3


def test_who_cannot_be_measured_is_left_out_of_every_round_and_said():
    turns = iter([1.0])

    def failing_later():
        try:
            return Sample(1_000_000, next(turns))
        except StopIteration:
            raise Unmeasurable("it broke") from None

    rounds = interleaved({"wrk": costing(5, 5), "hey": failing_later}, rounds=2, reference="wrk")
    assert rounds.left_out == {"hey": "it broke"}
    assert rounds.costs() == {"wrk": [5.0, 5.0]}


def test_a_tool_that_fails_once_has_another_try():
    turns = iter([5.0, None, 6.0])

    def flaky():
        cost = next(turns)
        if cost is None:
            raise Unmeasurable("for once")
        return Sample(1_000_000, cost)

    rounds = interleaved({"hey": flaky}, rounds=2, reference=None)
    assert rounds.left_out == {}
    assert rounds.costs() == {"hey": [5.0, 6.0]}


def test_a_tool_without_a_single_answer_has_no_cost():
    with pytest.raises(Unmeasurable):
        _ = Sample(0, 1.0).us_per_request


def test_a_program_that_fails_is_no_measurement(tmp_path):
    with pytest.raises(Unmeasurable, match="code 3: the reason"):
        measure.run(["sh", "-c", "echo the reason >&2; exit 3"], core=_a_core(), seconds=1)


def test_cpu_of_children_counts():
    busy = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done"
    done = measure.run(
        [sys.executable, "-c", f"import subprocess; subprocess.run(['sh', '-c', {busy!r}])"],
        core=_a_core(),
        seconds=10,
    )
    alone = measure.run(
        [sys.executable, "-c", "import subprocess; subprocess.run(['true'])"], core=_a_core(), seconds=10
    )
    assert done.cpu_s > alone.cpu_s + 0.05


def _a_core():
    import os

    return min(os.sched_getaffinity(0))


WRK = """Running 2s test @ http://127.0.0.1/
  123456 requests in 2.00s, 10.00MB read
  Socket errors: connect 0, read 3, write 0, timeout 4
  Non-2xx or 3xx responses: 5
"""
HEY = "Status code distribution:\n  [200]\t1000 responses\n  [503]\t7 responses\n"
H2LOAD = "requests: 1010 total, 1010 started, 1000 done, 990 succeeded, 10 failed, 10 errored, 0 timeout\n"
OHA = {
    "statusCodeDistribution": {"200": 900, "500": 2},
    "errorDistribution": {"aborted due to deadline": 8, "connection reset": 1},
    "latencyPercentiles": {"p50": 0.0001, "p99": 0.001, "p99.9": 0.002},
}


@pytest.mark.parametrize(
    ("peer", "output", "requests", "failed"),
    [
        (wrk, WRK, 123456, 12),
        (hey, HEY, 1007, 7),
        (h2load, H2LOAD, 1000, 10),
        (oha, json.dumps(OHA), 902, 3),
    ],
)
def test_what_peers_print_is_read(monkeypatch, peer, output, requests, failed):
    monkeypatch.setattr(peer, "run", lambda *_, **__: Finished(output, 1.0, 1 << 20, 2.0))
    monkeypatch.setattr(peer, "find", lambda name: name)
    sample = peer.closed(LOAD)
    assert (sample.requests, sample.failed) == (requests, failed)
    assert sample.cpu_s == 1.0


def test_start_of_interpreters_is_taken_off(monkeypatch):
    entries = [{"num_requests": 600, "num_failures": 1}, {"num_requests": 400, "num_failures": 0}]
    outputs = {k6: json.dumps({"requests": 1000, "failed": 1}), locust: f"noise {json.dumps(entries)}"}
    for peer, output in outputs.items():
        monkeypatch.setattr(peer, "run", lambda *_, output=output, **__: Finished(output, 2.0, 1 << 20, 2.0))
        monkeypatch.setattr(peer, "find", lambda name: name)
        monkeypatch.setattr(peer, "start_up_cpu_s", lambda *_: 0.5)
        sample = peer.closed(LOAD)
        assert (sample.requests, sample.failed, sample.cpu_s) == (1000, 1, 1.5)


def test_output_that_is_not_understood_is_said(monkeypatch):
    monkeypatch.setattr(wrk, "run", lambda *_, **__: Finished("no figures", 1.0, 1, 1.0))
    monkeypatch.setattr(wrk, "find", lambda name: name)
    with pytest.raises(Unmeasurable, match="output of wrk"):
        wrk.closed(LOAD)


def test_the_three_shops_are_the_same_journey():
    """Weights, products and steps of the scripts are those of the job."""
    js = (ROOT / "benchmarks/scripts/shop.js").read_text("utf-8")
    py = (ROOT / "benchmarks/scripts/shop_locust.py").read_text("utf-8")
    for name, weight in shop.TASKS.items():
        assert f"[{weight}, {name}]" in js
        assert f"@task({weight})\n    def {name}(" in py
    for product in shop.PRODUCTS:
        assert f"'{product}'" in js
        assert f'"{product}"' in py
    first, choose = shop.journey()
    assert first["once"][0]["request"]["path"] == "/"
    assert [branch["weight"] for branch in choose["choose"]] == list(shop.TASKS.values())


def test_the_shop_is_a_job_that_the_engine_takes(tmp_path):
    job = engine.job("http://127.0.0.1:9", tmp_path, engine.closed(2, 1), steps=shop.journey())
    assert check_job(job) == []


def test_missed_limits_are_not_hidden():
    ratios = {
        "a ÷ b": {"median": 1.2, "min": 1.0, "max": 1.3},
        "a ÷ c": {"median": 0.5, "min": 0.4, "max": 0.6},
    }
    text = markdown.ratios({"ratios": ratios, "limits": {"a ÷ b": 1.0, "a ÷ c": 0.5}})
    assert "| a ÷ b | **1.20** | 1.00 – 1.30 | 1.0 | **missed** |" in text
    assert "| a ÷ c | **0.50** | 0.40 – 0.60 | 0.5 | kept |" in text


def test_every_peer_says_its_settings_and_every_scenario_its_title():
    assert all(len(peer.settings) > 5 for peer in PEERS.values())
    assert all(scenario.TITLE for scenario in SCENARIOS.values())


def test_what_a_proxy_adds_is_against_the_turn_without_one_of_the_same_round(monkeypatch):
    ingress = SCENARIOS["ingress"]
    setting = measure.Setting(load_core=1, server_core=0, rounds=2, seconds=2, fast=True)
    turns = iter(
        [(100, 200), (140, 300), (300, 900), (330, 950)]
    )  # p50 and p99: direct, proxy, direct, proxy
    monkeypatch.setattr(
        ingress.open_load, "towtank", lambda *_: dict(zip(("p50_us", "p99_us"), next(turns), strict=True))
    )
    proxy = ingress.proxies.Proxy("http://127.0.0.1:1/", ())
    monkeypatch.setitem(ingress.PROXIES, "nginx", lambda *_: contextlib.nullcontext(proxy))
    latency = ingress._latencies(["nginx"], "http://127.0.0.1:2/", "127.0.0.1:2", 1, setting)
    assert latency["nginx"]["added_p50_us"] == {"median": 35, "min": 30, "max": 40}
    assert latency["nginx"]["added_p99_us"] == {"median": 75, "min": 50, "max": 100}
    result = {
        "seconds": 1, "connections": 64, "rate_per_s": 1000, "versions": {"nginx": "1.22.1"}, "rounds_kept": 2,
        "rounds_run": 2, "us_per_request": {"nginx": [15.0]}, "requests_per_s": {"nginx": 60_000}, "ratios": {},
        "latency": latency,
    }  # fmt: skip
    page = ingress.show(result)
    assert "| no proxy | 200 | 550 |  |  |" in page
    assert "| nginx | 235 | 625 | 35 (30 – 40) | 75 (50 – 100) |" in page
    assert "| nginx | 1.22.1 |" in page
    monkeypatch.setattr(ingress.open_load, "towtank", lambda *_: {"p50_us": 90, "p99_us": 5_000})
    latency = ingress._latencies(["nginx"], "http://127.0.0.1:2/", "127.0.0.1:2", 1, setting)
    assert "was not measured" in ingress.show({**result, "latency": latency})
