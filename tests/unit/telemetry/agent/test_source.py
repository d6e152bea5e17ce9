"""The source over made-up agents: gaps with their reason, machines that come and go, what is not understood."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from support.fake_agent import FakeAgent
from support.helpers import DeclaredHelpers
from towtank.clock import RunClock
from towtank.errors import PlatformError, TelemetryError
from towtank.telemetry.agent import objects
from towtank.telemetry.agent.elsewhere import State
from towtank.telemetry.agent.options import AgentOptions
from towtank.telemetry.agent.source import AgentSource
from towtank.telemetry.base import ObserveContext

INTERVAL_S = 0.2


class FakePlace:
    """Machines of a test."""

    def __init__(self, **fakes: FakeAgent) -> None:
        self.fakes = fakes
        self.states: dict[str, State] = {}
        self.closed = 0
        self.stuck = False

    def start(self, until_s: float) -> None: ...

    def names(self) -> list[str]:
        return list(self.fakes)

    def state(self, name: str) -> State:
        return self.states.get(name, "ready")

    def reach(self, name: str) -> Any:
        return self.fakes[name].reach()

    def close(self) -> None:
        self.closed += 1
        if self.stuck:
            raise PlatformError("Namespace/x is still there")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> FakePlace:
    made = FakePlace(a=FakeAgent(), b=FakeAgent(ahead_ns=5_000_000_000))
    monkeypatch.setattr(AgentSource, "_placed", lambda self, options, context: made)
    return made


def context_of(tmp_path: Path, **options: Any) -> ObserveContext:
    clock = RunClock(time.monotonic_ns())
    return ObserveContext(clock, INTERVAL_S, [], options=options, helpers=DeclaredHelpers(tmp_path))


def read_for(place: FakePlace, *names: str, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for name in names:
            place.fakes[name].read(time.monotonic_ns(), cpu_cores=0.5)
        time.sleep(INTERVAL_S / 2)


def test_samples_of_all_machines_come_in_order_with_their_own_times(place: FakePlace, tmp_path: Path):
    source, context = AgentSource(), context_of(tmp_path)
    source.start(context)
    read_for(place, "a", "b", seconds=0.5)
    samples = list(source.close())
    assert {one.instance for one in samples} == {"node/a", "node/b"}
    times = [one.t_us for one in samples]
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] < 5_000_000, "a clock that is 5 s ahead is related to ours"
    facts = source.facts()
    assert [one["name"] for one in facts["agents"]] == ["a", "b"]
    assert 0 <= facts["delay_s"]["p50"] <= facts["delay_s"]["max"] < 5
    assert place.closed == 1


def test_a_lost_agent_is_a_gap_with_its_reason(place: FakePlace, tmp_path: Path):
    source, context = AgentSource(), context_of(tmp_path)
    source.start(context)
    read_for(place, "a", "b", seconds=0.3)
    source.sample(context.clock.now_us())
    place.fakes["b"].refuses = True
    place.fakes["b"].cut()
    read_for(place, "a", seconds=1.0)
    assert list(source.sample(context.clock.now_us())) == []
    assert [(event.kind, event.instance) for event in source.events()] == [("agent_lost", "node/b")]
    place.fakes["b"].refuses = False
    read_for(place, "a", "b", seconds=0.3)
    source.sample(context.clock.now_us())
    assert [event.kind for event in source.events()] == ["agent_back"]
    assert list(source.close())
    gaps = source.gaps()
    assert gaps is not None
    lost = [gap for gap in gaps if "node/b" in gap.reason]
    assert lost
    assert max(gap.to_us - gap.from_us for gap in lost) > 700_000
    assert any("nobody is there" in gap.reason or "is lost" in gap.reason for gap in lost)


def test_what_is_read_while_the_last_is_fetched_is_not_missing(
    place: FakePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source = AgentSource()
    source.start(context_of(tmp_path))
    read_for(place, "a", "b", seconds=2 * INTERVAL_S)

    def slowly() -> list[str]:
        time.sleep(6 * INTERVAL_S)
        return ["a", "b"]

    monkeypatch.setattr(place, "names", slowly)
    begun = time.monotonic()
    assert list(source.close())
    assert time.monotonic() - begun >= 6 * INTERVAL_S
    assert not [gap for gap in source.gaps() or () if gap.to_us - gap.from_us >= 4e6 * INTERVAL_S]


def test_what_was_before_an_agent_answered_for_the_first_time_is_not_missing(
    place: FakePlace, tmp_path: Path
):
    late = place.fakes["b"]
    late.refuses = True
    came = threading.Timer(5 * INTERVAL_S, lambda: setattr(late, "refuses", False))
    came.start()
    source, begun = AgentSource(), time.monotonic()
    source.start(context_of(tmp_path))
    assert time.monotonic() - begun >= 5 * INTERVAL_S
    read_for(place, "a", "b", seconds=2 * INTERVAL_S)
    assert list(source.close())
    assert not [gap for gap in source.gaps() or () if gap.to_us - gap.from_us >= 4e6 * INTERVAL_S]


def test_when_no_agent_answers_the_source_has_failed(place: FakePlace, tmp_path: Path):
    source, context = AgentSource(), context_of(tmp_path)
    source.start(context)
    for fake in place.fakes.values():
        fake.refuses = True
        fake.cut()
    with pytest.raises(TelemetryError, match="is lost"):
        source.sample(context.clock.now_us())
    source.close()


@pytest.mark.parametrize("state", ["gone", "unready"])
def test_a_node_that_was_removed_is_no_gap(place: FakePlace, tmp_path: Path, state: State):
    source, context = AgentSource(), context_of(tmp_path)
    source.start(context)
    read_for(place, "a", "b", seconds=0.3)
    source.sample(context.clock.now_us())
    place.states["b"] = state
    place.fakes["b"].refuses = True
    place.fakes["b"].cut()
    source.sample(context.clock.now_us())
    removed_us = context.clock.now_us()
    read_for(place, "a", seconds=0.8)
    list(source.close())
    lost = [event for event in source.events() if event.kind == "agent_lost"]
    assert [event.instance for event in lost] == (["node/b"] if state == "unready" else [])
    assert all("advice" not in event.detail for event in lost), "what the run did to it is no finding"
    assert not [gap for gap in source.gaps() or () if "node/b" in gap.reason and gap.to_us > removed_us]


def test_nodes_that_are_all_not_ready_are_no_failure_of_the_source(place: FakePlace, tmp_path: Path):
    source, context = AgentSource(), context_of(tmp_path)
    source.start(context)
    for name, fake in place.fakes.items():
        place.states[name], fake.refuses = "unready", True
        fake.cut()
    assert list(source.sample(context.clock.now_us())) == []
    list(source.close())


def test_what_cannot_be_removed_costs_no_reading_and_is_tried_again(place: FakePlace, tmp_path: Path):
    source, context = AgentSource(), context_of(tmp_path)
    source.start(context)
    read_for(place, "a", "b", seconds=0.3)
    place.stuck = True
    assert {one.instance for one in source.close()} == {"node/a", "node/b"}
    (event,) = source.events()
    assert event.kind == "agents_left"
    assert "Namespace/x is still there" in event.message
    assert "towtank clean" in event.detail
    assert source.facts()["agents"]
    place.stuck = False
    assert list(source.close()) == []
    assert place.closed == 2
    assert list(source.events()) == []
    source.close()
    assert place.closed == 2, "there is nothing left to remove"


def test_a_failure_to_start_is_not_hidden_by_one_to_remove(place: FakePlace, tmp_path: Path):
    place.fakes["b"].refuses = place.stuck = True
    with pytest.raises(TelemetryError, match="nobody is there") as failed:
        AgentSource().start(context_of(tmp_path, start_timeout="0.2s"))
    assert failed.value.__notes__ == ["while removing the agents: Namespace/x is still there"]


def test_start_has_one_deadline(place: FakePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place.fakes["b"].refuses = True

    def slowly(self: FakePlace, until_s: float) -> None:
        time.sleep(max(0.0, until_s - time.monotonic()))

    monkeypatch.setattr(FakePlace, "start", slowly)
    begun_s = time.monotonic()
    with pytest.raises(TelemetryError, match="nobody is there"):
        AgentSource().start(context_of(tmp_path, start_timeout="1s"))
    assert time.monotonic() - begun_s < 1.6


def test_items_that_make_no_sense_are_left_out(place: FakePlace, tmp_path: Path):
    source, context = AgentSource(), context_of(tmp_path)
    source.start(context)
    place.fakes["a"].items += [
        {"t_ns": 1},
        {"values": {}},
        {"t_ns": "x", "values": {"": {"cpu_cores": "y"}}},
        {},
    ]
    place.fakes["a"].read(time.monotonic_ns(), cpu_cores=1.0)
    samples = [one for one in source.close() if one.instance == "node/a"]
    assert [one.value for one in samples] == [1.0]


def test_an_agent_that_may_not_be_reached_is_not_waited_for(
    place: FakePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse() -> Any:
        raise PlatformError("a port-forward to pod agent-1: forbidden")

    monkeypatch.setattr(place.fakes["b"], "reach", refuse)
    source, begun = AgentSource(), time.monotonic()
    with pytest.raises(
        TelemetryError, match="telemetry source 'agent': a port-forward to pod agent-1: forbidden"
    ):
        source.start(context_of(tmp_path, start_timeout="60s"))
    assert time.monotonic() - begun < 30
    assert place.closed == 1


def test_an_agent_that_never_comes_is_an_error_in_time(place: FakePlace, tmp_path: Path):
    place.fakes["b"].refuses = True
    source = AgentSource()
    with pytest.raises(TelemetryError, match="nobody is there"):
        source.start(context_of(tmp_path, start_timeout="0.2s"))
    assert place.closed == 1
    assert list(source.close()) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"hosts": []}, "at least 1"),
        ({"hosts": ["http://a"]}, "is no address"),
        ({"hosts": ["ssh://a", "ssh://a"]}, "stands twice"),
        ({"hosts": ["ssh://a"], "image": "x"}, "`image` is about nodes"),
        ({"engine": "/usr/bin/towtank-engine"}, "belongs to machines"),
        ({"ceph_sockets": "run/ceph"}, "pattern"),
        ({"namespace": "No_Name"}, "pattern"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any], says: str):
    with pytest.raises(ValidationError, match=says):
        AgentOptions.model_validate(options)


def test_the_pod_has_no_more_than_it_needs():
    options = AgentOptions(image="engine:1", ceph_sockets="/run/ceph", node_selector={"pool": "app"})
    spec = objects.daemon_set(options, 0.5)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"] == {"memory": "64Mi"}
    assert "hostPID" not in spec
    assert "hostNetwork" not in spec
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert [volume["hostPath"]["path"] for volume in spec["volumes"][1:]] == ["/proc", "/sys", "/run/ceph"]
    assert container["args"][container["args"].index("--interval-ms") + 1] == "500"
