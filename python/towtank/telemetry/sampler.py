"""Reads all sources on one clock, and notices when it could not.

One thread serves all sources in turn. Readings are due at multiples of the interval on the run clock, so they do
not drift, and those of different sources and runs fall on the same moments. What was missed is not made up for: it
is a gap, with its beginning and its end, and a run whose measured window has too many of them is invalid.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from towtank.errors import TelemetryError
from towtank.telemetry.base import Event, ObserveContext, Source, YieldsEvents
from towtank.telemetry.columns import SampleColumns

GAP_INTERVALS = 1.5
"""Readings further apart than this many intervals …"""
GAP_SLACK_S = 0.05
"""… and this time leave a gap: half an interval late is still even sampling, and 50 ms is a busy machine."""
SHORTEST_INTERVAL_S = 0.01
"""A hundred readings a second of a few hundred microseconds each; more would be a load of its own."""
JOIN_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Gap:
    """A time in which a source saw nothing; from and to in µs of the run clock."""

    source: str
    from_us: int
    to_us: int
    reason: str


@dataclass(frozen=True)
class Observation:
    """What all sources saw.

    Parameters
    ----------
    samples : SampleColumns
        Reads like a sequence of `Sample`; `to_arrow()` gives a table.
    gaps : tuple of Gap
        By their beginning.
    events : tuple of Event
    cost_s : float
        CPU seconds that observing itself took.
    readings : dict
        Source → how often it was read.
    """

    samples: SampleColumns
    gaps: tuple[Gap, ...]
    events: tuple[Event, ...]
    cost_s: float
    readings: dict[str, int]

    def shifted(self, by_us: int) -> Observation:
        """Move to another zero of the clock."""
        return replace(
            self,
            samples=self.samples.shifted(by_us),
            gaps=tuple(replace(g, from_us=g.from_us + by_us, to_us=g.to_us + by_us) for g in self.gaps),
            events=tuple(e._replace(t_us=e.t_us + by_us) for e in self.events),
        )


@dataclass
class _Watch:
    """One source at work."""

    source: Source
    context: ObserveContext
    seen_us: int
    """Last moment at which it was known to see."""
    tick: int = 0
    readings: int = 0
    failing: str = ""

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

    def plan_next(self, now_us: int) -> None:
        """The next reading is the first one that lies ahead; what was missed stays missed."""
        self.tick = max(self.tick + 1, now_us // self.interval_us + 1)


@dataclass
class _Seen:
    """What was collected so far; written by the sampling thread alone."""

    samples: SampleColumns = field(default_factory=SampleColumns)
    gaps: list[Gap] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    cost_s: float = 0.0


class Sampler:
    """Samples sources in a thread of its own from `start` to `stop`.

    Parameters
    ----------
    sources : sequence of (Source, ObserveContext)
        Each context carries the source's interval and options; all share the run clock.
    on_error : callable, optional
        Called with the source's name and the exception when a source begins to fail, from the sampling thread.

    Raises
    ------
    TelemetryError
        An interval shorter than `SHORTEST_INTERVAL_S`.
    """

    def __init__(
        self,
        sources: Sequence[tuple[Source, ObserveContext]],
        *,
        on_error: Callable[[str, Exception], None] | None = None,
    ) -> None:
        for source, context in sources:
            if context.interval_s < SHORTEST_INTERVAL_S:
                raise TelemetryError(
                    f"telemetry source {source.name!r} is to be read every {context.interval_s * 1000:g} ms; "
                    f"allowed is {SHORTEST_INTERVAL_S * 1000:g} ms or longer"
                )
        self._watches = [_Watch(source, context, 0) for source, context in sources]
        self._on_error = on_error
        self._seen = _Seen()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start every source, then the thread.

        Raises
        ------
        TelemetryError
            A source cannot be read at all; those already started are closed.
        """
        started: list[_Watch] = []
        try:
            for watch in self._watches:
                started.append(watch)
                watch.source.start(watch.context)
                watch.seen_us = watch.context.clock.now_us()
                watch.tick = watch.seen_us // watch.interval_us + 1
        except Exception as error:
            for watch in started:
                with contextlib.suppress(Exception):  # the first error is the one to tell
                    watch.source.close()
            if isinstance(error, TelemetryError):
                raise
            name = started[-1].source.name
            raise TelemetryError(f"telemetry source {name!r} cannot be started: {error!r}") from error
        if self._watches:
            self._thread = threading.Thread(target=self._run, name="towtank-sampler", daemon=True)
            self._thread.start()

    def stop(self) -> Observation:
        """Stop sampling, close the sources and return what was seen; a second call returns the same.

        Raises
        ------
        TelemetryError
            A source hangs.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(JOIN_TIMEOUT_S)
            if self._thread.is_alive():
                names = ", ".join(watch.source.name for watch in self._watches)
                raise TelemetryError(
                    f"telemetry did not stop within {JOIN_TIMEOUT_S:g} s; one of its sources hangs: {names}"
                )
        seen = self._seen
        return Observation(
            seen.samples,
            tuple(sorted(seen.gaps, key=lambda gap: gap.from_us)),
            tuple(sorted(seen.events, key=lambda event: event.t_us)),
            seen.cost_s,
            {watch.source.name: watch.readings for watch in self._watches},
        )

    def _run(self) -> None:
        begun_s = time.thread_time()
        queue = [(watch.due_us, number) for number, watch in enumerate(self._watches)]
        heapq.heapify(queue)
        while queue:
            due_us, number = queue[0]
            watch = self._watches[number]
            wait_s = (due_us - watch.context.clock.now_us()) / 1e6
            if self._stopping.wait(max(0.0, wait_s)):
                break
            self._read(watch)
            watch.plan_next(watch.context.clock.now_us())
            heapq.heapreplace(queue, (watch.due_us, number))
            self._seen.cost_s = time.thread_time() - begun_s
        for watch in self._watches:
            self._finish(watch)
        self._seen.cost_s = time.thread_time() - begun_s

    def _read(self, watch: _Watch) -> None:
        t_us = watch.context.clock.now_us()
        try:
            self._seen.samples.extend(watch.source.sample(t_us))
            self._take_events(watch)
        except Exception as error:  # noqa: BLE001 - one broken source must not blind the others
            self._note_failure(watch, t_us, error)
            return
        watch.readings += 1
        if watch.failing or t_us - watch.seen_us > watch.patience_us:
            reason = watch.failing or "read too late"
            self._seen.gaps.append(Gap(watch.source.name, watch.seen_us, t_us, reason))
        if watch.failing:
            watch.failing = ""
            self._seen.events.append(
                Event(t_us, watch.source.name, "source_recovered", "", "the source can be read again")
            )
        watch.seen_us = t_us

    def _finish(self, watch: _Watch) -> None:
        """Close a source; what it missed at the end is a gap, too."""
        t_us = watch.context.clock.now_us()
        try:
            self._seen.samples.extend(watch.source.close())
            self._take_events(watch)
        except Exception as error:  # noqa: BLE001 - as above
            self._note_failure(watch, t_us, error)
        if watch.failing or t_us - watch.seen_us > watch.patience_us:
            reason = watch.failing or "read too late"
            self._seen.gaps.append(Gap(watch.source.name, watch.seen_us, t_us, reason))

    def _take_events(self, watch: _Watch) -> None:
        if isinstance(watch.source, YieldsEvents):
            self._seen.events.extend(watch.source.events())

    def _note_failure(self, watch: _Watch, t_us: int, error: Exception) -> None:
        """Say once that a source fails, not at each reading."""
        message = str(error) or type(error).__name__
        if not watch.failing:
            detail = json.dumps({"type": type(error).__name__})
            self._seen.events.append(Event(t_us, watch.source.name, "source_failed", "", message, detail))
            if self._on_error is not None:
                self._on_error(watch.source.name, error)
        watch.failing = message
