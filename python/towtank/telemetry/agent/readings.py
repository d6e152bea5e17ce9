"""Readings of agents, kept in little room until clocks are known as well as they will be; where some are missing."""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from towtank.clock import RunClock
from towtank.telemetry.base import Gap, ObserveContext, Sample
from towtank.telemetry.cluster import NODE
from towtank.telemetry.http.clock import KeptRelation
from towtank.telemetry.reading import GAP_INTERVALS, GAP_SLACK_S

Names = tuple[tuple[str, str], ...]
"""Part of the machine and metric of each value of a reading."""
TOLD_LATE_NS = 60_000_000_000
"""A cluster says this late at most that a node is not Ready (50 s by default); an agent comes back about as late."""


@dataclass(frozen=True)
class _Reading:
    there_ns: int
    clock: KeptRelation
    names: Names
    values: array[float]


class Readings:
    """What one agent read in a run.

    Parameters
    ----------
    name : str
        Of its machine.
    interval_s : float
    """

    def __init__(self, name: str, interval_s: float) -> None:
        self.name = name
        self._interval_s = interval_s
        self._kept: list[_Reading] = []
        self._known: dict[Names, Names] = {}
        self._troubles: list[tuple[int, str]] = []
        self._away: list[tuple[int, int]] = []
        self._away_since_ns: int | None = None
        self.delays_ns: list[int] = []
        """From each reading until it was here."""

    def add(self, item: Mapping[str, Any], clock: KeptRelation, now_ns: int) -> None:
        """Keep one reading.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is none.
        """
        found = [
            ((str(part), str(metric)), float(value))
            for part, values in item["values"].items()
            for metric, value in values.items()
        ]
        names = tuple(name for name, _ in found)
        there_ns = int(item["t_ns"])
        kept = self._known.setdefault(names, names)
        self._kept.append(_Reading(there_ns, clock, kept, array("d", (value for _, value in found))))
        self.delays_ns.append(now_ns - clock.relation.here_ns(there_ns))

    def trouble(self, now_ns: int, reason: str) -> None:
        """Something went wrong: the reason of whatever is missing around this moment."""
        self._troubles.append((now_ns, reason))

    @property
    def is_away(self) -> bool:
        """Whether its machine is not Ready or gone, by what others say."""
        return self._away_since_ns is not None

    def note_away(self, now_ns: int, *, away: bool) -> None:
        """What others say of its machine now: the silence of one that is away is no gap, but what the run did to it."""
        if away and self._away_since_ns is None:
            self._away_since_ns = now_ns
        elif not away and self._away_since_ns is not None:
            self._away.append((self._away_since_ns, now_ns))
            self._away_since_ns = None

    def samples(self, clock: RunClock, source: str) -> Iterator[tuple[int, list[Sample]]]:
        """Each reading's time on the run clock, in order, and its values, which are made one reading at a time."""
        times_us = [clock.at_us(one.clock.relation.here_ns(one.there_ns)) for one in self._kept]
        for number in sorted(range(len(times_us)), key=times_us.__getitem__):
            t_us, reading = times_us[number], self._kept[number]
            yield (
                t_us,
                [
                    Sample(t_us, source, instance_of(self.name, part), metric, value)
                    for (part, metric), value in zip(reading.names, reading.values, strict=True)
                ],
            )

    def gaps(self, context: ObserveContext, source: str, begun_ns: int, ended_ns: int) -> list[Gap]:
        """Times without a reading, longer than an interval and a half, in which its machine was not away."""
        slack_ns = round((GAP_INTERVALS * self._interval_s + GAP_SLACK_S) * 1e9)
        read = sorted(one.clock.relation.here_ns(one.there_ns) for one in self._kept)
        moments = [begun_ns, *(t_ns for t_ns in read if begun_ns < t_ns < ended_ns), ended_ns]
        return [
            context.gap(source, begin, end, f"{NODE}{self.name}: {self._reason(before, after)}")
            for before, after in itertools.pairwise(moments)
            if after - before > slack_ns
            for begin, end in self._not_away(before, after)
            if end - begin > slack_ns
        ]

    def _not_away(self, from_ns: int, to_ns: int) -> Iterator[tuple[int, int]]:
        """Parts of a silence that are not explained by a machine that was away."""
        still = [] if self._away_since_ns is None else [(self._away_since_ns, to_ns)]
        for away_ns, back_ns in [*self._away, *still]:
            if away_ns > to_ns or back_ns < from_ns:
                continue
            if away_ns - TOLD_LATE_NS > from_ns:
                yield from_ns, away_ns - TOLD_LATE_NS
            from_ns = max(from_ns, back_ns + TOLD_LATE_NS)
        if from_ns < to_ns:
            yield from_ns, to_ns

    def _reason(self, from_ns: int, to_ns: int) -> str:
        told = [reason for t_ns, reason in self._troubles if from_ns <= t_ns <= to_ns + 2_000_000_000]
        return told[-1] if told else "its agent read too late"


def instance_of(name: str, part: str) -> str:
    """A machine, or a part of it: ``node/NAME``, ``node/NAME:eth0``, ``node/NAME:/mnt``."""
    return f"{NODE}{name}:{part}" if part else f"{NODE}{name}"


def together(gaps: Iterable[Gap]) -> list[Gap]:
    """Gaps of several agents as gaps of the source: those that overlap are one, with all reasons."""
    found: list[Gap] = []
    for gap in sorted(gaps, key=lambda one: one.from_us):
        last = found[-1] if found else None
        if last is None or gap.from_us > last.to_us:
            found.append(gap)
            continue
        reasons = last.reason if gap.reason in last.reason else f"{last.reason}; {gap.reason}"
        found[-1] = Gap(last.source, last.from_us, max(last.to_us, gap.to_us), reasons)
    return found


def in_order(readings: Iterable[Readings], clock: RunClock, source: str) -> Iterator[Sample]:
    """All samples of all agents, by their time."""
    for _, samples in heapq.merge(*(one.samples(clock, source) for one in readings), key=lambda one: one[0]):
        yield from samples
