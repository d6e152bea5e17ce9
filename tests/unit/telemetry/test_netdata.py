"""The `netdata` source against a scripted agent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import servers
from support.fake_netdata import Script, fake_netdata
from support.repeated import repeated
from towtank.clock import RunClock
from towtank.errors import TelemetryError
from towtank.telemetry import registry
from towtank.telemetry.base import ObserveContext, Outlook
from towtank.telemetry.netdata import source as sources
from towtank.telemetry.netdata.source import NetdataSource
from towtank.telemetry.netdata.units import conversion
from towtank.telemetry.sampler import Observation, Sampler


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "KEPT_AFTER_S", 0.0)


@pytest.fixture
def script() -> Script:
    made = Script()
    made.chart("system.cpu", "system.cpu", "percentage", "user", "guest nice")
    made.chart("disk.sda", "disk.io", "KiB/s", "reads", "writes")
    made.chart("disk.sdb", "disk.io", "KiB/s", "reads", "writes")
    made.chart("sensors.t1", "sensors.temp", "Celsius", "temp")
    return made


@pytest.fixture
def url(script: Script) -> Iterator[str]:
    with servers.serving() as start:
        yield fake_netdata(start, script)[0]


def options(url: str, **charts: Any) -> dict[str, Any]:
    return {"url": url, "charts": charts or {"cpu": "system.cpu"}}


def observe(
    given: dict[str, Any], seconds: float = 2.5, meanwhile: Callable[[], None] = lambda: None
) -> Observation:
    context = ObserveContext(RunClock(time.monotonic_ns()), 1.0, [], options=given)
    sampler = Sampler([(registry.create("netdata"), context)])
    sampler.start()
    time.sleep(seconds / 2)
    meanwhile()
    time.sleep(seconds / 2)
    return sampler.stop()


@pytest.mark.parametrize("ahead_s", [0.0, 7200.4])
@repeated
def test_the_whole_run_comes_afterwards_on_the_runs_clock(url: str, script: Script, ahead_s: float) -> None:
    script.ahead_s = ahead_s
    began = time.time()
    zero_ns = time.monotonic_ns()
    script.value = lambda chart, line, t: t - ahead_s - began
    seen = observe(
        options(url, cpu={"chart": "system.cpu", "dimensions": ["user"], "unit": "s", "factor": 1}), 3.5
    )
    assert len(seen.samples) >= 2
    for sample in seen.samples:
        assert (sample.source, sample.instance, sample.metric) == ("netdata", "", "cpu_user_s")
        assert abs(sample.t_us - sample.value * 1e6) < 60_000, "known by the Date header alone"
        assert 0 <= sample.t_us <= (time.monotonic_ns() - zero_ns) / 1000
    clock = seen.facts["netdata"]["clock"]
    assert clock["ahead_s"] == pytest.approx(ahead_s, abs=0.06)
    assert clock["uncertainty_s"] < 0.06
    assert "Date" in clock["method"]
    assert (seen.gaps, seen.events) == ((), ())


def test_contexts_make_instances_and_units_become_ours(url: str, script: Script) -> None:
    script.value = lambda chart, line, t: 2.0
    seen = observe(options(url, cpu="system.cpu", disk={"context": "disk.io", "dimensions": ["reads"]}))
    found = {(s.metric, s.instance): s.value for s in seen.samples}
    assert found == {
        ("cpu_user_ratio", ""): 0.02, ("cpu_guest_nice_ratio", ""): 0.02,
        ("disk_reads_bytes_per_s", "disk.sda"): 2048.0, ("disk_reads_bytes_per_s", "disk.sdb"): 2048.0,
    }  # fmt: skip


def test_a_chart_without_values_is_told_and_others_are_kept(url: str, script: Script) -> None:
    script.value = lambda chart, line, t: None if chart == "disk.sda" else 1.0
    seen = observe(options(url, cpu="system.cpu", disk="disk.sda"))
    assert [(e.kind, e.message) for e in seen.events] == [
        ("no_data", "Netdata kept no value of disk during the run")
    ]
    assert seen.gaps == ()


def test_a_time_without_any_value_is_a_gap(url: str, script: Script) -> None:
    script.value = lambda chart, line, t: None
    seen = observe(options(url))
    (gap,) = seen.gaps
    assert gap.to_us - gap.from_us > 2_000_000
    assert gap.reason == "the agent kept nothing"


def test_an_agent_that_dies_is_a_finding(url: str, script: Script) -> None:
    def die() -> None:
        script.dead = True

    seen = observe(options(url), 0.5, die)
    assert {event.kind for event in seen.events} == {"source_failed"}
    assert len(seen.gaps) == 1


def test_a_chart_that_changes_meanwhile_is_a_finding(url: str, script: Script) -> None:
    def change() -> None:
        script.broken = True

    seen = observe(options(url), meanwhile=change)
    (failed,) = [event for event in seen.events if event.kind == "source_failed"]
    assert "has the chart changed" not in failed.message
    assert "sent values of 'system.cpu' in a way that is not Netdata's" in failed.message


@pytest.mark.parametrize(
    ("charts", "words"),
    [
        ({"a": "system.cpuu"}, "there is no chart 'system.cpuu' among its 4; did you mean 'system.cpu'?"),
        ({"a": {"context": "disk.oi"}}, "there is no context 'disk.oi' among its 3; did you mean 'disk.io'?"),
        (
            {"a": {"chart": "system.cpu", "dimensions": ["usr"]}},
            "'system.cpu' has no dimension 'usr'; it has user, guest nice; did you mean 'user'?",
        ),
        (
            {"a": "sensors.t1"},
            "'sensors.t1' is in 'Celsius', which has no counterpart here: give `unit` and `factor`",
        ),
    ],
)
def test_what_is_not_there_is_known_before(url: str, charts: dict[str, Any], words: str) -> None:
    (problem,) = NetdataSource().look_ahead(options(url, **charts), Path(), 1.0).problems
    assert problem == f"a: {words}"


def test_what_is_right_is_no_problem(url: str) -> None:
    assert NetdataSource().look_ahead(options(url), Path(), 1.0) == Outlook()
    (remark,) = NetdataSource().look_ahead(options(url), Path(), 0.2).remarks
    assert remark == "asked for every 200 ms, but kept more rarely: system.cpu"


def test_something_else_than_an_agent(url: str, script: Script) -> None:
    script.raw = b'{"hello": "world"}'
    (problem,) = NetdataSource().look_ahead(options(url), Path(), 1.0).problems
    assert "sent something else than charts" in problem


def test_too_many_lines_are_refused(url: str) -> None:
    given = {**options(url, disk={"context": "disk.io"}), "most_series": 3}
    (problem,) = NetdataSource().look_ahead(given, Path(), 1.0).problems
    assert "has 4 lines; allowed are 3" in problem


@pytest.mark.parametrize(
    ("chart", "words"),
    [
        ({}, "needs either `chart` or `context`; found none"),
        ({"chart": "a", "context": "b"}, "found both"),
        ({"chart": "a", "unit": "s"}, "`factor` is missing"),
    ],
)
def test_what_is_wrong_in_form_is_refused(chart: dict[str, Any], words: str) -> None:
    with pytest.raises(TelemetryError, match=words):
        NetdataSource().look_ahead(options("http://127.0.0.1:9", a=chart), Path(), 1.0)


def test_units_are_converted_and_never_guessed() -> None:
    assert conversion("kilobits/s") == ("bytes_per_s", 125.0)
    assert conversion("MiB") == ("bytes", 2.0**20)
    assert conversion("milliseconds/s") == ("ratio", 1e-3)
    assert conversion("percentage/s") is None
    assert conversion("Volts") is None
