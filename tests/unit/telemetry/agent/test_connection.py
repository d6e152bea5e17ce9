"""One agent: nothing is lost with a connection, what is lost otherwise is said, clocks are related."""

from __future__ import annotations

import struct
import time

import pytest

from support.fake_agent import FakeAgent
from towtank.errors import EngineError
from towtank.load.workers.places import Link
from towtank.telemetry.agent.connection import Agent

HOUR_NS = 3_600_000_000_000


def test_a_connection_that_breaks_loses_nothing():
    fake = FakeAgent()
    agent = Agent("n1", fake.reach)
    fake.read(1, cpu_cores=1.0)
    assert [item["t_ns"] for item in agent.take().items] == [1]
    fake.cut()
    fake.read(2, cpu_cores=1.0)
    with pytest.raises(EngineError, match="the agent of n1 is lost"):
        agent.take()
    fake.read(3, cpu_cores=1.0)
    taken = agent.take()
    assert [item["t_ns"] for item in taken.items] == [2, 3]
    assert taken.lost == ""
    agent.finish()


def test_what_came_before_it_was_lost_is_kept():
    fake = FakeAgent()
    agent = Agent("n1", fake.reach)
    for t_ns in range(4):
        fake.read(t_ns)
    fake.most, fake.answers = 2, 1
    assert [item["t_ns"] for item in agent.take().items] == [0, 1]
    fake.refuses = True
    with pytest.raises(EngineError, match="nobody is there"):
        agent.take()
    fake.refuses, fake.answers = False, 100
    agent.hurry()
    assert [item["t_ns"] for item in agent.take().items] == [2, 3]
    agent.finish()


def test_that_it_was_started_anew_is_said_later_where_it_is_lost_at_once():
    fake = FakeAgent()
    agent = Agent("n1", fake.reach)
    fake.read(1)
    agent.take()
    agent.drop()
    fake.life, fake.items, fake.answers = "another", [], 0
    with pytest.raises(EngineError, match="is lost"):
        agent.take()
    fake.answers = 100
    assert "started anew" in agent.take().lost
    agent.finish()


def test_one_that_is_lost_is_reached_ever_more_rarely(monkeypatch: pytest.MonkeyPatch):
    now_s = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    tried: list[float] = []

    def reach() -> Link:
        tried.append(now_s - 1000.0)
        raise EngineError("nobody is there")

    agent = Agent("n1", reach)
    for _ in range(100):
        with pytest.raises(EngineError, match="nobody is there"):
            agent.take()
        now_s += 1.0
    assert tried == [0, 1, 2, 4, 8, 16, 32, 64]
    agent.hurry()
    with pytest.raises(EngineError):
        agent.take()
    assert len(tried) == 9


@pytest.mark.parametrize("clock", [{}, {"received_ns": "x", "answered_ns": 1}, {"received_ns": None}])
def test_a_time_that_is_none_at_the_end_is_no_error(clock: dict[str, object]):
    fake = FakeAgent()
    agent = Agent("n1", fake.reach)
    agent.take()
    fake.clock = clock
    agent.finish()
    assert agent.facts()["clock"]["readings"] == 1


def test_what_was_overrun_is_said():
    fake = FakeAgent()
    agent = Agent("n1", fake.reach)
    for t_ns in range(10):
        fake.read(t_ns)
    agent.take()
    for t_ns in range(10, 20):
        fake.read(t_ns)
    fake.overrun = 15
    taken = agent.take()
    assert len(taken.items) == 5
    assert taken.lost == "5 of its items were overrun before they were fetched"
    agent.finish()


def test_an_agent_that_was_started_anew_begins_anew():
    fake = FakeAgent()
    agent = Agent("n1", fake.reach)
    fake.read(1)
    agent.take()
    fake.cut()
    fake.life, fake.items = "another", []
    fake.read(5)
    with pytest.raises(EngineError):
        agent.take()
    taken = agent.take()
    assert [item["t_ns"] for item in taken.items] == [5]
    assert "started anew" in taken.lost
    assert len(agent.clocks) == 2
    agent.finish()


def test_its_clock_is_related_to_ours():
    fake = FakeAgent(ahead_ns=HOUR_NS)
    agent = Agent("n1", fake.reach)
    now_ns = time.monotonic_ns()
    fake.read(now_ns)
    taken = agent.take()
    relation = taken.clock.relation
    assert abs(relation.here_ns(taken.items[0]["t_ns"]) - now_ns) <= relation.uncertainty_ns + 1
    agent.finish()
    clock = agent.facts()["clock"]
    assert clock["offset_s"] == pytest.approx(3600, abs=0.1)
    assert 0 <= clock["uncertainty_s"] < 0.5
    assert clock["readings"] == 2


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"GET / HTTP/1.1\r\n", "frame begins"),
        (struct.pack("<cI", b"M", 2) + b"{]", "no message"),
        (struct.pack("<cI", b"M", 2) + b"[]", "where `taken` was expected"),
        (struct.pack("<cI", b"M", 17) + b'{"event":"taken"}', "makes no sense"),
        (struct.pack("<cI", b"M", 1 << 30), "at most"),
    ],
)
def test_an_answer_that_is_none_is_a_lost_agent(answer: bytes, says: str):
    fake = FakeAgent()
    fake.answer = answer
    agent = Agent("n1", fake.reach)
    with pytest.raises(EngineError, match=says):
        agent.take()
    agent.drop()
