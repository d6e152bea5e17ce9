"""The `openwhisk` source against a fake OpenWhisk whose clock is ahead."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support import servers
from support.on_openwhisk import on_openwhisk
from support.openwhisk_script import Ran, Script, fails, record_of
from towtank.clock import RunClock
from towtank.clock_relation import OffsetBounds
from towtank.errors import TelemetryError
from towtank.platforms.openwhisk import api as apis
from towtank.telemetry import activations
from towtank.telemetry.base import KnowsGaps, ObserveContext
from towtank.telemetry.registry import create
from towtank.telemetry.sampler import Observation, Sampler

AHEAD_S = 100.0


@pytest.fixture
def start() -> Iterator[Callable[[Any], Any]]:
    with servers.serving() as begin:
        yield begin


@pytest.fixture(autouse=True)
def _known_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search of the clock has tests of its own, and takes seconds."""

    def search(ask: Callable[[], OffsetBounds], *, known: OffsetBounds | None = None) -> OffsetBounds:
        found = ask()
        offset = time.time_ns() - time.monotonic_ns() + round(AHEAD_S * 1e9)
        assert found.low_ns <= offset <= found.high_ns, "one exchange bounds it"
        return OffsetBounds(found.at_ns, offset - 1_000_000, offset + 1_000_000)

    monkeypatch.setattr(activations, "search_edge", search)


def observe(deployment: object, meanwhile: Callable[[], None], **options: Any) -> Observation:
    given = {"settle": "0", **options}
    context = ObserveContext(RunClock(time.monotonic_ns()), 0.1, [], options=given, deployment=deployment)
    sampler = Sampler([(create("openwhisk"), context)])
    sampler.start()
    meanwhile()
    return sampler.stop()


def test_cold_starts_and_phases_are_known_on_the_clock_of_the_run(start: Any, tmp_path: Path) -> None:
    script = Script(runs={"hello": lambda _: Ran({}, 0.03)}, init_s=0.08, ahead_s=AHEAD_S)
    sent: list[float] = []
    with on_openwhisk(start, tmp_path, script) as (made, _):
        url = made.targets["app"].instances[0].url

        def load() -> None:
            for _ in range(2):
                sent.append(time.monotonic())
                httpx.get(url, trust_env=False)

        begun = time.monotonic()
        seen = observe(made, load)
    values: dict[str, list[tuple[int, float]]] = {}
    for sample in seen.samples:
        assert sample.instance == "hello"
        values.setdefault(sample.metric, []).append((sample.t_us, sample.value))
    assert [value for _, value in values["activation_init_s"]] == [0.08]
    assert [value for _, value in values["activation_run_s"]] == [0.03, 0.03]
    assert [value for _, value in values["activation_wait_s"]] == [0.007, 0.007]
    for (t_us, _), at in zip(values["activation_run_s"], sent, strict=True):
        assert -0.01 < t_us / 1e6 - (at - begun) < 2.0, "on our clock, not on one that is 100 s ahead"
    (cold,) = [event for event in seen.events if event.kind == "cold_start"]
    detail = json.loads(cold.detail)
    assert (detail["wait_ms"], detail["init_ms"], detail["run_ms"]) == (7, 80, 30)
    assert detail["uncertainty_ms"] == 1.0
    facts = seen.facts["openwhisk"]
    assert (facts["activations"], facts["cold"], facts["failed"]) == (2, 1, 0)
    assert abs(facts["clock"]["ahead_s"] - AHEAD_S) < 1


def test_activations_of_others_and_of_other_times_are_left_out(start: Any, tmp_path: Path) -> None:
    script = Script(ahead_s=AHEAD_S)
    with on_openwhisk(start, tmp_path, script) as (made, _):

        def record(path: str, later_s: float) -> None:
            at_ms = round((time.time() + AHEAD_S + later_s) * 1000)
            made_here = record_of(path, Ran({}), start_ms=at_ms, duration_ms=5, marks={"waitTime": 1})
            script.activations.append(made_here)

        def load() -> None:
            record(f"{made.package}/hello", 0.0)
            record(f"{made.package}-not/hello", 0.0)
            record("guest/hello", 0.0)
            record(f"{made.package}/hello", -5.0)

        seen = observe(made, load)
    assert seen.facts["openwhisk"]["activations"] == 1
    assert [sample.metric for sample in seen.samples] == ["activation_wait_s", "activation_run_s"]


def test_all_pages_are_turned_and_a_bound_is_said(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(ahead_s=AHEAD_S)
    with on_openwhisk(start, tmp_path, script) as (made, _):

        def load() -> None:
            at_ms = round((time.time() + AHEAD_S) * 1000)
            for _ in range(450):
                one = record_of(f"{made.package}/hello", Ran({}), start_ms=at_ms, duration_ms=0, marks={})
                script.activations.append(one)

        seen = observe(made, load)
        assert seen.facts["openwhisk"]["activations"] == 450
        assert len({sample.t_us for sample in seen.samples}) == 450
        script.activations.clear()
        cut = observe(made, load, most=200)
    assert cut.facts["openwhisk"]["activations"] == 200
    (event,) = [event for event in cut.events if event.kind == "activations_cut"]
    assert "only the last 200 activations" in event.message
    assert apis.MOST_LISTED == 200


def test_failures_are_a_finding_with_openwhisks_reason(start: Any, tmp_path: Path) -> None:
    script = Script(runs={"hello": fails}, ahead_s=AHEAD_S)
    with on_openwhisk(start, tmp_path, script) as (made, _):
        url = made.targets["app"].instances[0].url
        seen = observe(made, lambda: httpx.get(url, trust_env=False).close())
    (event,) = [event for event in seen.events if event.kind == "activations_failed"]
    assert event.message.startswith(
        "1 of 1 activations failed, 1 of them: action developer error: The action failed"
    )
    assert json.loads(event.detail)["advice"]


def test_a_deployment_elsewhere_is_not_observable() -> None:
    seen = observe(object(), lambda: None)
    assert [event.kind for event in seen.events] == ["not_observable"]


def test_an_openwhisk_that_is_gone_at_the_end_is_a_gap(start: Any, tmp_path: Path) -> None:
    script = Script(ahead_s=AHEAD_S)
    with on_openwhisk(start, tmp_path, script) as (made, _):
        seen = observe(made, lambda: script.broken.add("GET activations"))
        (gap,) = seen.gaps
        assert "listing activations failed" in gap.reason
        script.keys.clear()
        with pytest.raises(TelemetryError, match="answers 401"):
            create("openwhisk").start(ObserveContext(RunClock(0), 1.0, [], deployment=made))
        script.keys = Script().keys


def test_an_openwhisk_that_answers_nothing_from_the_start_is_a_gap(start: Any, tmp_path: Path) -> None:
    """Its clock was never known then."""
    script = Script(ahead_s=AHEAD_S)
    with on_openwhisk(start, tmp_path, script) as (made, _):
        source = create("openwhisk")
        source.start(ObserveContext(RunClock(time.monotonic_ns()), 1.0, [], deployment=made))
        script.keys.clear()
        with pytest.raises(TelemetryError, match="answers 401"):
            source.close()
        assert isinstance(source, KnowsGaps)
        (gap,) = source.gaps() or ()
        assert "answers 401" in gap.reason
        script.keys = Script().keys
