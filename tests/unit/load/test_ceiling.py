"""The engine's ceiling: the search, its conclusions, and the whole of it with a real engine for a moment."""

from __future__ import annotations

import json
import os
import socket

import pytest

from towtank.cli.doctor import ceiling_words
from towtank.errors import EngineError, Interrupted
from towtank.load import ceiling, engine_build, find_engine
from towtank.load.ceiling import Probe, advice, bottleneck, highest, measure_ceiling
from towtank.load.echo import EchoServer
from towtank.load.events import Done


def probe(rate, *, on_time):
    return Probe(rate, on_time, 100.0 if on_time else 5000.0, 200.0, 0, 0.5, 0.0)


def search(holds, closed_per_s=50_000):
    """Run the search against a machine that drives a rate on time when `holds(rate)`."""
    probes = []
    for rate in ceiling._search(closed_per_s, probes):
        probes.append(probe(rate, on_time=holds(rate)))
        assert len(probes) < 40
    return probes


@pytest.mark.parametrize("true_ceiling", [3_000, 11_300, 38_000, 44_900, 49_000])
def test_the_search_finds_the_ceiling_within_its_precision(true_ceiling):
    probes = search(lambda rate: rate <= true_ceiling)
    found = highest(probes).rate_per_s
    assert found <= true_ceiling
    assert true_ceiling / found <= ceiling.PRECISION * 1.02  # rates are rounded
    seconds = len(probes) * (ceiling.PROBE_S + 0.4)
    assert seconds < 40


def test_a_search_that_never_holds_ends_and_says_none():
    probes = search(lambda rate: False)
    assert highest(probes) is None
    assert min(p.rate_per_s for p in probes) >= 50_000 * ceiling.LOWEST_SHARE * 0.9
    words = " ".join(advice("machine", cores=2, held=None, connections=100))
    assert "no rate was driven on time" in words


def test_a_lucky_probe_above_a_failure_does_not_count():
    probes = [probe(40_000, on_time=False), probe(45_000, on_time=True), probe(30_000, on_time=True)]
    assert highest(probes).rate_per_s == 30_000


@pytest.mark.parametrize(
    ("engine", "server", "waited", "one_core", "limit"),
    [
        (0.99, 0.80, 0.0, False, "engine"),
        (0.70, 0.99, 0.0, False, "server"),
        (0.60, 0.60, 0.0, False, "machine"),
        (0.60, 0.50, 0.4, False, "machine"),
        (0.50, 0.50, 0.5, True, "machine"),
    ],
)
def test_what_limits_is_named(engine, server, waited, one_core, limit):
    found, why = bottleneck(engine_cores=engine, server_cores=server, waited_ratio=waited, one_core=one_core)
    assert found == limit
    assert why


def test_connections_are_bounded_by_ports_and_descriptors(monkeypatch):
    monkeypatch.setattr(ceiling.resource, "getrlimit", lambda _: (1024, 2064))
    connections, fresh = ceiling.connection_bounds()
    assert connections == 2000
    assert 0 < fresh < 2000
    monkeypatch.setattr(ceiling.resource, "getrlimit", lambda _: (1024, ceiling.resource.RLIM_INFINITY))
    assert ceiling.connection_bounds()[0] > 2000


def test_more_cores_more_threads():
    held = probe(10_000, on_time=True)
    assert "threads: 2" in " ".join(advice("engine", cores=8, held=held, connections=100))
    few = " ".join(advice("engine", cores=2, held=held, connections=100))
    assert "threads: 2" not in few
    assert "8,000/s" in few


def test_the_server_ends_with_its_lifeline():
    with EchoServer(find_engine(), core=min(os.sched_getaffinity(0)), token="tt-test") as server:
        port = server.port
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        assert server.cpu_s() >= 0.0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)


def test_an_engine_that_cannot_serve_is_said(tmp_path):
    old = tmp_path / "towtank-engine"
    old.write_text("#!/bin/sh\necho 'unrecognized subcommand'\n", encoding="utf-8")
    old.chmod(0o755)
    with (
        pytest.raises(EngineError, match="did not say where it listens"),
        EchoServer(old, core=None, token="t"),
    ):
        pass


def test_a_server_that_does_not_answer_is_told_in_words():
    by_outcome = {"timeout:first_byte": 64, "refused": 1_200}
    done = Done({"due": 1_264, "rows": 1_264, "by_outcome": by_outcome}, {}, {}, [], "schedule")
    error = ceiling._unanswered(done, 8123)
    assert "127.0.0.1:8123" in error.message
    assert "1,200 × connection refused, 64 × timeout waiting for the first byte" in error.message
    assert "{" not in error.message
    assert "loopback" in error.hint


def test_a_closed_load_without_answers_ends_the_measurement(hurried, monkeypatch):
    monkeypatch.setattr(ceiling, "_answered", lambda done: 0)
    with pytest.raises(EngineError, match="fewer than one answer a second from its own server"):
        measure_ceiling(engine_build(find_engine()), cancelled=lambda: None)


@pytest.fixture
def hurried(monkeypatch):
    """Loads so short that the figures mean nothing."""
    monkeypatch.setattr(ceiling, "CLOSED_S", 0.3)
    monkeypatch.setattr(ceiling, "PROBE_S", 0.2)
    monkeypatch.setattr(ceiling, "BUDGET_S", 2.0)


def test_a_real_engine_has_a_ceiling(hurried):
    steps = []
    found = measure_ceiling(engine_build(find_engine()), cancelled=lambda: None, tell=steps.append)
    assert found.closed_per_s > 100
    assert 0.0 < found.cpu_us_per_request < 1000.0
    assert found.records_per_s > 1000
    assert found.probes
    assert len(steps) == len(found.probes) + 1
    assert found.limited_by in ("engine", "server", "machine")
    if found.open_per_s is not None:
        assert found.open_per_s in {p.rate_per_s for p in found.probes if p.on_time}
    again = json.loads(json.dumps(found.as_json()))
    assert again["closed_per_s"] == found.closed_per_s
    text = "\n".join(ceiling_words(found))
    assert f"{found.closed_per_s:,} requests/s" in text
    assert f"Limited by the {found.limited_by}" in text


def test_it_can_be_stopped(hurried):
    def stop():
        raise Interrupted("stopped")

    with pytest.raises(Interrupted):
        measure_ceiling(engine_build(find_engine()), cancelled=stop)
