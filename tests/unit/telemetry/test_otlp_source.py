"""The source `otlp`: times, waiting for the last spans, findings."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support import otlp
from support.repeated import repeated
from support.telemetry_servers import free_port
from towtank.clock import RunClock
from towtank.telemetry.base import ObserveContext, Span, TracedRequest
from towtank.telemetry.otlp.clocks import on_our_clock, sender_clocks
from towtank.telemetry.otlp.completeness import Completeness
from towtank.telemetry.otlp.source import OtlpSource

ROOT = "00f067aa0ba902b7"


class Bench:
    """A source that listens, and an application that sends."""

    def __init__(self, **options: Any) -> None:
        self.port = free_port()
        self.clock = RunClock(time.monotonic_ns())
        self.source = OtlpSource()
        given = {"listen": f"127.0.0.1:{self.port}", "linger": "3s", **options}
        self.source.start(ObserveContext(self.clock, 1.0, [], options=given))

    def send(self, *spans: dict[str, Any], service: str = "shop") -> None:
        assert otlp.post(self.port, otlp.as_protobuf(*spans, service=service))[0] == 200

    def finish(self, *traces: str) -> float:
        """Close, as a campaign does; how long it took."""
        now_us = self.clock.now_us()
        self.source.expect({trace: TracedRequest(ROOT, now_us - 1_000_000, now_us) for trace in traces})
        begun_s = time.monotonic()
        assert list(self.source.close()) == []
        return time.monotonic() - begun_s

    @property
    def said(self) -> dict[str, str]:
        events = list(self.source.events())
        assert all(json.loads(event.detail)["advice"] for event in events)
        return {event.kind: event.message for event in events}


@contextlib.contextmanager
def opened() -> Iterator[Bench]:
    bench = Bench()
    try:
        yield bench
    finally:
        bench.source.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    with opened() as bench:
        yield bench


@repeated
def test_spans_stand_at_their_time_on_the_run_clock() -> None:
    with opened() as bench:
        begun_ns, begun_us = time.time_ns(), bench.clock.now_us()
        bench.send(otlp.span(1, parent=ROOT, start_ns=begun_ns, us=5))
        bench.finish(otlp.TRACE)
        (span,) = bench.source.spans()
        assert abs(span.start_us - begun_us) < 2000
        assert span.duration_us == 5
        facts = bench.source.facts()
        assert facts["clock"]["uncertainty_s"] < 0.001
        assert facts["spans"] == 1


@repeated
def test_it_does_not_wait_when_all_is_there() -> None:
    """Sent after the last request was over, so that nothing more is to come; then a second of quiet."""
    with opened() as bench:
        done = bench.clock.now_us()
        bench.source.expect({otlp.TRACE: TracedRequest(ROOT, done - 1000, done)})
        time.sleep(0.01)
        bench.send(otlp.span(1, parent=ROOT, start_ns=time.time_ns()))
        begun_s = time.monotonic()
        bench.source.close()
        assert 0.8 < time.monotonic() - begun_s < 2.5


def test_it_waits_for_late_spans_and_no_longer_than_linger(bench: Bench) -> None:
    bench.send(otlp.span(2, parent=f"{1:016x}", start_ns=time.time_ns()))
    late = threading.Timer(0.5, lambda: bench.send(otlp.span(1, parent=ROOT, start_ns=time.time_ns())))
    late.start()
    bench.finish(otlp.TRACE, "ff" * 16)
    assert len(bench.source.spans()) == 2
    assert bench.source.facts()["waited_s"] >= 3.0, "one request has no span at all"
    late.join()


@repeated
def test_nobody_waits_where_no_load_was_carried_out_or_nothing_is_traced() -> None:
    with opened() as bench:
        assert bench.finish() < 1.0
        assert set(bench.said) == {"no_traced_requests"}
        other = Bench()
        begun_s = time.monotonic()
        other.source.close()
        assert time.monotonic() - begun_s < 1.0
        assert other.said == {}


def test_findings_name_what_was_refused_and_what_never_came() -> None:
    bench = Bench(max_spans=1, linger="0s")
    bench.send(otlp.span(1), otlp.span(2), {**otlp.span(3), "traceId": "ab"})
    otlp.post(bench.port, b"", "text/plain")
    bench.finish(otlp.TRACE)
    said = bench.said
    assert "1 spans were refused: 1 were kept (max_spans 1" in said["spans_over_bound"]
    assert "1 × 415 unsupported media type; 1 spans with malformed" in said["exports_refused"]
    silent = Bench(linger="0s")
    silent.finish(otlp.TRACE, "ff" * 16)
    assert silent.said == {"no_spans": "2 requests carried a trace id, and no span came"}


def test_a_reading_says_how_many_came(bench: Bench) -> None:
    bench.send(*map(otlp.span, range(1, 11)))
    (sample,) = bench.source.sample(5)
    assert sample.metric == "spans_per_s"
    assert sample.value > 0
    time.sleep(0.01)
    assert next(iter(bench.source.sample(6))).value == 0
    assert bench.source.gaps() == []


def test_an_address_in_use_is_known_before_the_first_run(bench: Bench, tmp_path) -> None:
    listen = f"127.0.0.1:{bench.port}"
    (problem,) = OtlpSource().look_ahead({"listen": listen}, tmp_path, 1.0).problems
    assert f"cannot listen at {listen}: Address already in use; end what listens there" in problem
    bench.source.close()
    assert OtlpSource().look_ahead({"listen": listen}, tmp_path, 1.0).problems == ()


# --- whose clock it is -----------------------------------------------------------------------------------


def placed(
    start_us: int, *, trace: str = "a", parent: str = "r", place: str = "node", duration_us: int = 10
) -> Span:
    return Span(trace, f"{start_us}", parent, "shop", "s", "server", start_us, duration_us, "ok", place)


def test_a_clock_that_may_be_ours_is_left_alone() -> None:
    requests = {"a": TracedRequest("r", 1000, 2000), "b": TracedRequest("r", 5000, 9000)}
    spans = [placed(1200), placed(5001, trace="b"), placed(0, parent="x")]
    clocks = sender_clocks(spans, requests)
    (known,) = clocks.values()
    assert not known.differs
    assert known.exchanges == 2
    assert on_our_clock(spans, clocks) == spans


def test_another_clock_is_found_by_the_requests_themselves() -> None:
    """Its clock is 1 s ahead; of several exchanges the bounds are intersected."""
    ahead = 1_000_000
    requests = {f"t{i}": TracedRequest("r", i * 10_000, i * 10_000 + 4000) for i in range(5)}
    begins = {f"t{i}": i * 10_000 + after for i, after in enumerate((100, 900, 2000, 3000, 3900))}
    spans = [placed(begun + ahead, trace=trace) for trace, begun in begins.items()]
    behind = placed(ahead + 50, trace="t0", parent="deep", place="other")
    clocks = sender_clocks([*spans, behind], requests)
    known = clocks["shop", "node"]
    assert known.differs
    assert known.shift_us == pytest.approx(ahead, abs=110)
    assert known.facts()["uncertainty_s"] <= 0.000_102
    moved = on_our_clock([*spans, behind], clocks)
    assert [abs(m.start_us - begins[m.trace_id]) <= 110 for m in moved[:-1]] == [True] * 5
    assert moved[-1] == behind, "nothing is known of who was not asked by us"


# --- whether all has come --------------------------------------------------------------------------------


def test_all_has_come_when_roots_parents_and_senders_have() -> None:
    completeness = Completeness({"a": TracedRequest("r", 0, 10)})
    assert not completeness.reached
    completeness.take([placed(1)], over=False)
    assert not completeness.reached, "its sender may have more"
    completeness.take([placed(2, parent="unknown")], over=True)
    assert not completeness.reached, "a parent is missing"
    completeness.take([placed(3, parent="2")._replace(span_id="unknown")], over=True)
    assert completeness.reached
    completeness.take([placed(4, trace="other", place="else")], over=False)
    assert not completeness.reached, "somebody else is known to send, and has not since"
