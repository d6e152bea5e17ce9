"""Reads all telemetry sources from before the load until after it, on one clock.

Readings are due at multiples of a source's interval on the run clock, so that sources with the same interval are
read at the same ticks in every run, and lateness does not add up. What was missed is not made up for: it
is a gap, with its beginning and its end, and a run whose measured window has too many of them is invalid. Sources of
this machine share a thread; each one that asks somebody else has its own, and holds up nobody.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from towtank.errors import TelemetryError
from towtank.telemetry.base import AsksOthers, Event, Gap, ObserveContext, Source
from towtank.telemetry.columns import SampleColumns
from towtank.telemetry.reading import Reader, Watch

SHORTEST_INTERVAL_S = 0.01
"""A hundred readings a second of a few hundred microseconds each; more would be a load of its own."""
JOIN_TIMEOUT_S = 10.0
"""Besides what sources that ask others may take."""


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
    facts : dict
        Source → what it says of itself.
    """

    samples: SampleColumns
    gaps: tuple[Gap, ...]
    events: tuple[Event, ...]
    cost_s: float
    readings: dict[str, int]
    facts: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def shifted(self, by_us: int) -> Observation:
        """Move to another zero of the clock."""
        return replace(
            self,
            samples=self.samples.shifted(by_us),
            gaps=tuple(replace(g, from_us=g.from_us + by_us, to_us=g.to_us + by_us) for g in self.gaps),
            events=tuple(e._replace(t_us=e.t_us + by_us) for e in self.events),
        )


class Sampler:
    """Samples sources from `start` to `stop`.

    Parameters
    ----------
    sources : sequence of (Source, ObserveContext)
        Each context carries the source's interval and options; all share the run clock.
    on_error : callable, optional
        Called with the source's name and the exception when a source begins to fail, from the thread that reads it.

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
        self._watches = [Watch(source, context) for source, context in sources]
        self._on_error = on_error
        self._stopping = threading.Event()
        self._readers: list[Reader] = []

    def start(self) -> None:
        """Start every source, then the threads.

        Raises
        ------
        TelemetryError
            A source cannot be read at all; those already started are closed.
        """
        started: list[Watch] = []
        try:
            for watch in self._watches:
                started.append(watch)
                watch.start()
        except Exception as error:
            for watch in started:
                with contextlib.suppress(Exception):  # the first error is the one to tell
                    watch.source.close()
            if isinstance(error, TelemetryError):
                raise
            name = started[-1].source.name
            raise TelemetryError(f"telemetry source {name!r} cannot be started: {error!r}") from error
        here = [watch for watch in self._watches if not isinstance(watch.source, AsksOthers)]
        apart = [[watch] for watch in self._watches if isinstance(watch.source, AsksOthers)]
        groups = [group for group in (here, *apart) if group]
        self._readers = [Reader(group, self._stopping, self._on_error) for group in groups]
        for reader in self._readers:
            reader.start()

    def stop(self) -> Observation:
        """Stop sampling, close the sources and return what was seen; a second call returns the same.

        Raises
        ------
        TelemetryError
            A source hangs.
        """
        self._stopping.set()
        begun_s = time.monotonic()
        for reader in self._readers:
            patience_s = JOIN_TIMEOUT_S + reader.patience_s
            if not reader.join(max(0.0, begun_s + patience_s - time.monotonic())):
                names = ", ".join(watch.source.name for watch in reader.watches)
                raise TelemetryError(
                    f"telemetry did not stop within {patience_s:g} s; one of its sources hangs: {names}"
                )
        return self._seen()

    def _seen(self) -> Observation:
        """What all threads saw, as one."""
        first, *others = self._readers or [Reader((), self._stopping, None)]
        samples = first.samples if not others else SampleColumns()
        for reader in self._readers if others else ():
            samples.extend(reader.samples)
        return Observation(
            samples,
            tuple(sorted((gap for watch in self._watches for gap in watch.gaps), key=lambda g: g.from_us)),
            tuple(sorted((e for reader in self._readers for e in reader.events), key=lambda e: e.t_us)),
            sum(reader.cost_s for reader in self._readers),
            {watch.source.name: watch.readings for watch in self._watches},
            {watch.source.name: watch.facts for watch in self._watches if watch.facts},
        )
