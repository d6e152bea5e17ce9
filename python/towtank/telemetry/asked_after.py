"""Sources of which everything is asked for when the run is over: what they share of a source's contract."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from towtank.errors import PlatformError, TelemetryError
from towtank.platforms.rest import said
from towtank.telemetry.base import Event, Gap, ObserveContext, Sample


class AskedAfter:
    """Events, gaps and facts of one run, and failures of a platform's API told as those of a source."""

    name: str

    def __init__(self) -> None:
        self._context: ObserveContext | None = None
        self._begun_ns = 0
        self._events: list[Event] = []
        self._gaps: list[Gap] = []
        self._facts: dict[str, Any] = {}

    def events(self) -> Iterable[Event]:
        """What has to be known, since the last call."""
        found, self._events = self._events, []
        return found

    def gaps(self) -> Sequence[Gap]:
        """Times of which nothing is known: the whole run, where nothing could be asked for."""
        return self._gaps

    def facts(self) -> Mapping[str, Any]:
        """How much there was, and how well its times are known."""
        return self._facts

    def _begin(self, context: ObserveContext) -> None:
        self._context, self._begun_ns = context, time.monotonic_ns()
        self._events, self._gaps, self._facts = [], [], {}

    def _not_observable(self, context: ObserveContext, message: str) -> None:
        self._events.append(Event(context.clock.now_us(), self.name, "not_observable", "", message))

    def _failed(self, error: PlatformError) -> TelemetryError:
        return TelemetryError(f"telemetry source {self.name!r}: {said(error)}")

    def _collected(
        self, context: ObserveContext, collect: Callable[[ObserveContext, int], list[Sample]]
    ) -> list[Sample]:
        """Ask for everything up to now; the whole run is a gap where that fails."""
        end_ns = time.monotonic_ns()
        try:
            return collect(context, end_ns)
        except (PlatformError, TelemetryError) as error:
            self._gaps = [context.gap(self.name, self._begun_ns, end_ns, error.message)]
            if isinstance(error, TelemetryError):
                raise
            raise self._failed(error) from error
