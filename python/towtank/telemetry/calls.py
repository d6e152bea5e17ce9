"""The `calls` source: how often components call each other, from counters that each instance shows on a page.

The page is in Prometheus' text format. Who calls, who is called and whether that was within a process or between two
are labels of the counters, so that calls, their time, bytes and errors are known for each edge. What is yielded is what
came since the previous reading, of all instances together: sums over a window are exact to a reading.
"""

from __future__ import annotations

import http.client
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from towtank.errors import TelemetryError
from towtank.platforms.base import Instance
from towtank.telemetry.base import Event, ObserveContext, Sample
from towtank.telemetry.exposition import rows
from towtank.telemetry.options import CallsOptions, read_options

ANSWER_WITHIN_S = 2.0
"""A page is some kilobytes of this machine; an instance that takes longer is frozen, and so not read this time."""
MOST_BYTES = 4 << 20
"""Of one page."""

Counted = dict[tuple[str, str], float]
"""Edge, and which of its numbers → how much."""


class CallsSource:
    """Samples calls, their time, bytes and errors for each edge, as the callers count them."""

    name = "calls"

    def __init__(self) -> None:
        self._options: CallsOptions | None = None
        self._pages: list[_Page] = []
        self._events: list[Event] = []
        self._unread: set[str] = set()

    @property
    def patience_s(self) -> float:
        """One reading at most."""
        return ANSWER_WITHIN_S * max(1, len(self._pages))

    def start(self, context: ObserveContext) -> None:
        """Take the first reading of all counters."""
        self._options = read_options(self.name, CallsOptions, context.options)
        self._events, self._unread = [], set()
        t_us = context.clock.now_us()
        here = [instance for instance in context.instances if instance.pid is not None]
        self._events += [
            self._event(t_us, "not_observable", one, "is not a process of this machine")
            for one in context.instances
            if one.pid is None
        ]
        self._pages = [_Page(instance, self._options) for instance in here]
        self._look(t_us)

    def sample(self, t_us: int) -> Iterable[Sample]:
        """Read every page once; what an instance counted that is not read this time comes with its next reading."""
        counted = self._look(t_us)
        return [
            Sample(t_us, self.name, edge, number, value) for (edge, number), value in sorted(counted.items())
        ]

    def events(self) -> Iterable[Event]:
        """What was noticed since the last call."""
        events, self._events = self._events, []
        return events

    def close(self) -> Iterable[Sample]:
        """Nothing is held back."""
        for page in self._pages:
            page.close()
        self._pages = []
        return ()

    def _look(self, t_us: int) -> Counted:
        found: Counted = defaultdict(float)
        for page in self._pages:
            name = page.instance.name
            try:
                came = page.read()
            except TelemetryError as error:
                if name not in self._unread:
                    self._events.append(self._event(t_us, "unread", page.instance, error.message))
                self._unread.add(name)
                continue
            self._unread.discard(name)
            for key, value in came.items():
                found[key] += value
        return found

    def _event(self, t_us: int, kind: str, instance: Instance, what: str) -> Event:
        return Event(t_us, self.name, kind, instance.name, f"{instance.name} {what}")


class _Page:
    """The counters of one instance."""

    def __init__(self, instance: Instance, options: CallsOptions) -> None:
        self.instance = instance
        self._options = options
        self._numbers = options.numbers()
        self._last: dict[tuple[str, str], float] | None = None
        address = urlsplit(instance.url)
        self._connection = http.client.HTTPConnection(
            address.hostname or "127.0.0.1", address.port, timeout=ANSWER_WITHIN_S
        )

    def read(self) -> Counted:
        """What came since the last reading; nothing at the first.

        Raises
        ------
        TelemetryError
            The instance does not answer, or answers something else.
        """
        now = self._counters(self._text())
        last, self._last = self._last, now
        if last is None:
            return {}
        # A counter that is lower than before was begun anew, with its process.
        came = {key: value - last.get(key, 0.0) for key, value in now.items()}
        return {key: now[key] if value < 0 else value for key, value in came.items()}

    def close(self) -> None:
        """Let go of the connection."""
        with suppress(OSError):
            self._connection.close()

    def _text(self) -> str:
        what = self._options.path
        try:
            self._connection.request("GET", self._options.path, headers={"Accept": "text/plain"})
            answer = self._connection.getresponse()
            body = answer.read(MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise TelemetryError(f"does not show {what}: {error or type(error).__name__}") from error
        if answer.status != http.client.OK or len(body) == MOST_BYTES:
            self.close()
            raise TelemetryError(f"shows {what} with status {answer.status} and {len(body)} bytes")
        return body.decode("utf-8", errors="replace")

    def _counters(self, text: str) -> dict[tuple[str, str], float]:
        options, found = self._options, defaultdict[tuple[str, str], float](float)
        for row in rows(text, tuple(self._numbers)):
            kind = self._numbers.get(row.name)
            if kind is None or options.caller not in row.labels or options.callee not in row.labels:
                continue
            edge = f"{row.labels[options.caller]}>{row.labels[options.callee]}"
            found[edge, f"{self._where(row.labels)}_{kind}"] += row.value
        return dict(found)

    def _where(self, labels: Mapping[str, str]) -> str:
        place = self._options.place
        return "local" if place is not None and labels.get(place) == self._options.local else "remote"
