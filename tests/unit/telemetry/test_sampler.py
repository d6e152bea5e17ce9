"""The sampler: even ticks, honest gaps, and sources that break."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.repeated import repeated
from towtank.clock import RunClock
from towtank.errors import TelemetryError
from towtank.telemetry import registry
from towtank.telemetry import sampler as samplers
from towtank.telemetry.base import Event, ObserveContext, Sample
from towtank.telemetry.columns import SampleColumns
from towtank.telemetry.sampler import Sampler


class FakeSource:
    """Yields its count; does what a test wants at a reading."""

    def __init__(self, name: str = "fake", act: Callable[[int], None] = lambda _: None) -> None:
        self.name = name
        self.act = act
        self.readings = 0
        self.closed = 0

    def start(self, context: ObserveContext) -> None:
        self.act(-1)

    def sample(self, t_us: int) -> Iterable[Sample]:
        self.readings += 1
        self.act(self.readings)
        return [Sample(t_us, self.name, "", "count", self.readings)]

    def close(self) -> Iterable[Sample]:
        self.closed += 1
        self.act(0)
        return ()


class Chatty(FakeSource):
    def events(self) -> Iterable[Event]:
        return [Event(1, self.name, "noticed", "", "something")]


def context(interval_s: float = 0.05, zero_ns: int | None = None) -> ObserveContext:
    return ObserveContext(RunClock(time.monotonic_ns() if zero_ns is None else zero_ns), interval_s, [])


def run(sources: list[FakeSource], seconds: float, interval_s: float = 0.05) -> samplers.Observation:
    one = context(interval_s)
    sampler = Sampler([(source, one) for source in sources])
    sampler.start()
    time.sleep(seconds)
    return sampler.stop()


@repeated
def test_ticks_fall_on_multiples_of_the_interval_and_do_not_drift() -> None:
    seen = run([FakeSource()], 1.0)
    times = [sample.t_us for sample in seen.samples]
    late = [t % 50_000 for t in times]
    assert len(times) >= 15
    assert sorted(late)[len(late) // 2] < 10_000, "the median reading is less than 10 ms late"
    assert seen.gaps == ()
    assert seen.readings == {"fake": len(times)}
    assert 0 < seen.cost_s < 0.5


@repeated
def test_sources_with_the_same_interval_are_read_at_the_same_tick() -> None:
    seen = run([FakeSource("a"), FakeSource("b")], 0.5)
    ticks = {name: [s.t_us // 50_000 for s in seen.samples if s.source == name] for name in ("a", "b")}
    assert ticks["a"] == ticks["b"]


@repeated
def test_the_run_clock_may_have_its_zero_ahead() -> None:
    one = context(0.05, zero_ns=time.monotonic_ns() + 10**9)
    sampler = Sampler([(FakeSource(), one)])
    sampler.start()
    time.sleep(0.3)
    seen = sampler.stop()
    assert -1_000_000 <= seen.samples[0].t_us < seen.samples[-1].t_us < 0


@repeated
def test_a_source_that_was_slow_has_a_gap_where_it_was_slow() -> None:
    seen = run([FakeSource(act=lambda n: time.sleep(0.3) if n == 3 else None)], 0.8)
    (gap,) = seen.gaps
    third, fourth = seen.samples[2], seen.samples[3]
    assert (gap.from_us, gap.to_us, gap.source) == (third.t_us, fourth.t_us, "fake")
    assert gap.to_us - gap.from_us >= 300_000
    assert "late" in gap.reason


@repeated
def test_missed_ticks_are_not_made_up_for() -> None:
    seen = run([FakeSource(act=lambda n: time.sleep(0.3) if n == 3 else None)], 0.8)
    times = [sample.t_us for sample in seen.samples]
    assert min(b - a for a, b in itertools.pairwise(times[4:])) > 25_000


@repeated
def test_a_source_that_fails_is_a_gap_and_two_events_and_the_others_go_on() -> None:
    def fail(reading: int) -> None:
        if 3 <= reading <= 5:
            raise OSError("the disk is on fire")

    told: list[tuple[str, Exception]] = []
    one = context()
    bad, good = FakeSource("bad", fail), FakeSource("good")
    sampler = Sampler([(bad, one), (good, one)], on_error=lambda name, error: told.append((name, error)))
    sampler.start()
    time.sleep(0.7)
    seen = sampler.stop()
    (gap,) = seen.gaps
    assert (gap.source, gap.reason) == ("bad", "the disk is on fire")
    assert gap.to_us - gap.from_us >= 150_000
    assert [(event.kind, event.source) for event in seen.events] == [
        ("source_failed", "bad"),
        ("source_recovered", "bad"),
    ]
    assert [(name, str(error)) for name, error in told] == [("bad", "the disk is on fire")]
    assert seen.readings["good"] >= seen.readings["bad"] + 3
    assert (bad.closed, good.closed) == (1, 1)


@repeated
def test_a_source_that_fails_to_the_end_has_a_gap_to_the_end() -> None:
    def fail(reading: int) -> None:
        if reading >= 3:
            raise ValueError("no")

    seen = run([FakeSource(act=fail)], 0.4)
    (gap,) = seen.gaps
    assert gap.from_us == seen.samples[-1].t_us
    assert gap.to_us - gap.from_us > 150_000


def test_a_source_that_fails_when_closed_is_told() -> None:
    def fail(reading: int) -> None:
        if reading == 0:
            raise RuntimeError("cannot let go")

    seen = run([FakeSource(act=fail)], 0.2)
    assert [event.message for event in seen.events] == ["cannot let go"]


def test_a_source_that_cannot_be_started_is_an_error_and_the_others_are_closed() -> None:
    def refuse(reading: int) -> None:
        if reading == -1:
            raise KeyError("x")

    good = FakeSource("good")
    one = context()
    sampler = Sampler([(good, one), (FakeSource("bad", refuse), one)])
    with pytest.raises(TelemetryError, match="source 'bad' cannot be started: KeyError"):
        sampler.start()
    assert good.closed == 1
    assert good.readings == 0


def test_events_of_sources_are_collected() -> None:
    seen = run([Chatty()], 0.2)
    assert {event.kind for event in seen.events} == {"noticed"}


def test_stopping_twice_and_without_sources_is_harmless() -> None:
    sampler = Sampler([])
    sampler.start()
    assert len(sampler.stop().samples) == 0
    assert sampler.stop().gaps == ()


def test_a_source_that_hangs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "JOIN_TIMEOUT_S", 0.1)
    sampler = Sampler([(FakeSource("slow", lambda n: time.sleep(0.6) if n == 1 else None), context())])
    sampler.start()
    time.sleep(0.1)
    with pytest.raises(TelemetryError, match=r"did not stop within 0.1 s.*slow"):
        sampler.stop()
    monkeypatch.setattr(samplers, "JOIN_TIMEOUT_S", 5.0)
    assert sampler.stop().readings == {"slow": 1}


def test_too_short_an_interval_is_refused() -> None:
    with pytest.raises(TelemetryError, match="every 1 ms; allowed is 10 ms or longer"):
        Sampler([(FakeSource(), context(0.001))])


def test_an_observation_moves_to_another_zero() -> None:
    seen = run([Chatty(act=lambda n: time.sleep(0.3) if n == 2 else None)], 0.6)
    moved = seen.shifted(-5)
    assert [s.t_us for s in moved.samples] == [s.t_us - 5 for s in seen.samples]
    assert moved.gaps[0].from_us == seen.gaps[0].from_us - 5
    assert moved.events[0].t_us == seen.events[0].t_us - 5


samples = st.lists(
    st.builds(
        Sample, st.integers(-(2**40), 2**40), st.sampled_from("ab"), st.sampled_from(["", "i"]), st.sampled_from("mn"),
        st.floats(allow_nan=False),
    )
)  # fmt: skip


@settings(deadline=None)
@given(samples, samples, st.integers(-(2**40), 2**40))
def test_columns_read_like_the_list_that_went_in(
    first: list[Sample], second: list[Sample], shift: int
) -> None:
    columns = SampleColumns()
    assert columns.extend(first) == len(first)
    columns.extend(second)
    expected = first + second
    assert list(columns) == expected
    assert len(columns) == len(expected)
    assert [columns[i] for i in range(len(expected))] == expected
    assert [columns[-i - 1] for i in range(len(expected))] == expected[::-1]
    assert columns[1:5] == expected[1:5]
    moved = columns.shifted(shift)
    table = moved.to_arrow()
    assert table.column_names == ["t_us", "source", "instance", "metric", "value"]
    assert table.schema.types == [pa.int64(), pa.string(), pa.string(), pa.string(), pa.float64()]
    assert [Sample(**row) for row in table.to_pylist()] == list(moved)
    with pytest.raises(IndexError):
        columns[len(expected)]


def test_an_hour_of_fifty_instances_stays_small() -> None:
    """5 Hz, 50 instances, 8 metrics: 2,000 samples a second, of ten bytes and a little each."""
    columns = SampleColumns()
    reading = [Sample(0, "process", f"app-{i}", f"m{m}", 1.0) for i in range(50) for m in range(8)]
    for t in range(50):
        columns.extend(sample._replace(t_us=t) for sample in reading)
    held = sum(
        a.itemsize * len(a)
        for a in (columns._series_of, columns._values, columns._times, columns._first_rows)
    )
    assert held / len(columns) < 13


def test_unknown_sources_are_refused_with_the_known_ones() -> None:
    with pytest.raises(
        TelemetryError, match="no telemetry source 'hosts'; known are host, process"
    ) as caught:
        registry.create("hosts")
    assert caught.value.hint == "did you mean 'host'?"
