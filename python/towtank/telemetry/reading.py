"""Reading sources at their ticks, one after the other, in one thread: what they say, their gaps, their failures."""

from __future__ import annotations

import heapq
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from towtank.telemetry.base import (
    AsksOthers,
    Event,
    Gap,
    KnowsGaps,
    ObserveContext,
    Source,
    StatesFacts,
    YieldsEvents,
)
from towtank.telemetry.columns import SampleColumns

GAP_INTERVALS = 1.5
"""Readings further apart than this many intervals …"""
GAP_SLACK_S = 0.05
"""… and this time leave a gap: half an interval late is still even sampling, and 50 ms is a busy machine."""


@dataclass
class Watch:
    """One source at work."""

    source: Source
    context: ObserveContext
    seen_us: int = 0
    """Last moment at which it was known to see."""
    tick: int = 0
    readings: int = 0
    failing: str = ""
    gaps: list[Gap] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def interval_us(self) -> int:
        """Time between two readings."""
        return max(1, round(self.context.interval_s * 1e6))

    @property
    def patience_us(self) -> int:
        """Longest time between two readings that is no gap."""
        return round(GAP_INTERVALS * self.interval_us + GAP_SLACK_S * 1e6)

    @property
    def due_us(self) -> int:
        """Run time of the next reading."""
        return self.tick * self.interval_us

    def start(self) -> None:
        """Start the source; its first reading is due at the next multiple of its interval."""
        self.source.start(self.context)
        self.seen_us = self.context.clock.now_us()
        self.tick = self.seen_us // self.interval_us + 1

    def plan_next(self, now_us: int) -> None:
        """The next reading is the first one that lies ahead; what was missed stays missed."""
        self.tick = max(self.tick + 1, now_us // self.interval_us + 1)

    def missed_until(self, t_us: int) -> None:
        """Note a gap when the last reading is too long ago, or failed."""
        if self.failing or t_us - self.seen_us > self.patience_us:
            reason = self.failing or "read too late"
            self.gaps.append(Gap(self.source.name, self.seen_us, t_us, reason))


class Reader:
    """Reads some sources in a thread of its own, from `start` until `stopping` is set.

    Parameters
    ----------
    watches : sequence of Watch
        Started ones.
    stopping : threading.Event
    on_error : callable, optional
        Called with the source's name and the exception when a source begins to fail, from this thread.
    """

    def __init__(
        self,
        watches: Sequence[Watch],
        stopping: threading.Event,
        on_error: Callable[[str, Exception], None] | None,
    ) -> None:
        self.watches = watches
        self.samples = SampleColumns()
        self.events: list[Event] = []
        self.cost_s = 0.0
        self._stopping = stopping
        self._on_error = on_error
        self._thread = threading.Thread(target=self._run, name="towtank-sampler", daemon=True)

    @property
    def patience_s(self) -> float:
        """How long its sources may take to come to an end, s."""
        return sum(w.source.patience_s for w in self.watches if isinstance(w.source, AsksOthers))

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        begun_s = time.thread_time()
        queue = [(watch.due_us, number) for number, watch in enumerate(self.watches)]
        heapq.heapify(queue)
        while queue:
            due_us, number = queue[0]
            watch = self.watches[number]
            wait_s = (due_us - watch.context.clock.now_us()) / 1e6
            if self._stopping.wait(max(0.0, wait_s)):
                break
            self._read(watch)
            watch.plan_next(watch.context.clock.now_us())
            heapq.heapreplace(queue, (watch.due_us, number))
            self.cost_s = time.thread_time() - begun_s
        for watch in self.watches:
            self._finish(watch)
        self.cost_s = time.thread_time() - begun_s

    def _read(self, watch: Watch) -> None:
        t_us = watch.context.clock.now_us()
        try:
            self.samples.extend(watch.source.sample(t_us))
            self._take_events(watch)
        except Exception as error:  # noqa: BLE001 - one broken source must not blind the others
            self._note_failure(watch, t_us, error)
            return
        watch.readings += 1
        watch.missed_until(t_us)
        if watch.failing:
            watch.failing = ""
            self.events.append(
                Event(t_us, watch.source.name, "source_recovered", "", "the source can be read again")
            )
        watch.seen_us = t_us

    def _finish(self, watch: Watch) -> None:
        """Close a source; what it missed at the end is a gap, too."""
        t_us = watch.context.clock.now_us()
        source = watch.source
        try:
            self.samples.extend(source.close())
            self._take_events(watch)
        except Exception as error:  # noqa: BLE001 - as above
            self._note_failure(watch, t_us, error)
        watch.missed_until(t_us)
        try:
            known = source.gaps() if isinstance(source, KnowsGaps) else None
            watch.gaps = watch.gaps if known is None else list(known)
            watch.facts = dict(source.facts()) if isinstance(source, StatesFacts) else {}
        except Exception as error:  # noqa: BLE001 - as above
            self._note_failure(watch, t_us, error)

    def _take_events(self, watch: Watch) -> None:
        if isinstance(watch.source, YieldsEvents):
            self.events.extend(watch.source.events())

    def _note_failure(self, watch: Watch, t_us: int, error: Exception) -> None:
        """Say once that a source fails, not at each reading."""
        message = str(error) or type(error).__name__
        if not watch.failing:
            detail = json.dumps({"type": type(error).__name__})
            self.events.append(Event(t_us, watch.source.name, "source_failed", "", message, detail))
            if self._on_error is not None:
                self._on_error(watch.source.name, error)
        watch.failing = message
