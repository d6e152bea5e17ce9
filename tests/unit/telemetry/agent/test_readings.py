"""Readings of agents: samples in order and made when they are wanted, silence of machines that were away."""

from __future__ import annotations

from typing import Any

import pytest

from towtank.clock import RunClock
from towtank.clock_relation import OffsetBounds
from towtank.telemetry.agent import readings
from towtank.telemetry.agent.readings import Readings, in_order
from towtank.telemetry.base import ObserveContext, Sample
from towtank.telemetry.http.clock import KeptRelation

S = 1_000_000_000
CLOCK = RunClock(0)


def read_at(name: str, *seconds: float) -> Readings:
    relation = KeptRelation("none", lambda known: OffsetBounds(0, 0, 0))
    relation.renew()
    made = Readings(name, 1.0)
    for second in seconds:
        made.add({"t_ns": round(second * S), "values": {"": {"cpu_cores": second}}}, relation, 0)
    return made


def silences(made: Readings, ended_s: float) -> list[tuple[float, float]]:
    context = ObserveContext(CLOCK, 1.0, [])
    return [
        (gap.from_us / 1e6, gap.to_us / 1e6) for gap in made.gaps(context, "agent", 0, round(ended_s * S))
    ]


def test_samples_are_in_order_and_made_one_reading_at_a_time(monkeypatch: pytest.MonkeyPatch):
    made: list[float] = []

    def sample(*fields: Any) -> Sample:
        made.append(fields[0])
        return Sample(*fields)

    monkeypatch.setattr(readings, "Sample", sample)
    samples = in_order([read_at("a", 1, 5, 3), read_at("b", 2, 4)], CLOCK, "agent")
    assert next(samples).value == 1
    assert len(made) == 2, "the first of each machine"
    assert [one.value for one in samples] == [2, 3, 4, 5]


def test_the_silence_of_a_machine_that_was_away_is_no_gap():
    made = read_at("a", *range(1, 100), *range(200, 300))
    assert silences(made, 300) == [(99, 200)]
    made.note_away(140 * S, away=True)
    assert made.is_away
    made.note_away(150 * S, away=False)
    assert not made.is_away
    assert silences(made, 300) == [], "its cluster knew it 41 s later, its agent was back 50 s later"


def test_a_longer_silence_than_its_being_away_is_a_gap():
    made = read_at("a", *range(1, 100), *range(400, 410))
    made.note_away(200 * S, away=True)
    made.note_away(210 * S, away=False)
    assert silences(made, 410) == [(99, 140), (270, 400)]


def test_a_machine_that_is_still_away_at_the_end_is_no_gap_and_its_other_silences_are():
    made = read_at("a", *range(1, 50), *range(60, 100))
    made.note_away(130 * S, away=True)
    assert silences(made, 200) == [(49, 60)]
