"""The `otlp` source: listens while a run is observed, waits a little for the last spans, and hands them over."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from towtank.clock_relation import ClockRelation, OffsetBounds
from towtank.errors import TelemetryError
from towtank.telemetry.base import Event, Gap, ObserveContext, Outlook, Sample, Span, TracedRequest
from towtank.telemetry.options import read_options
from towtank.telemetry.otlp import reach
from towtank.telemetry.otlp.clocks import on_our_clock, sender_clocks
from towtank.telemetry.otlp.completeness import Completeness
from towtank.telemetry.otlp.findings import Said, clock_finding, findings
from towtank.telemetry.otlp.kept import KeptExports
from towtank.telemetry.otlp.messages import Received
from towtank.telemetry.otlp.options import OtlpOptions
from towtank.telemetry.otlp.receiver import Receiver, bind

CLOCK = "Unix time through this machine's clock pair"
LOOK_S = 0.05
"""Between two looks whether the last spans have come."""
QUIET_S = 1.0
"""When all seems to be there, wait until nothing came for so long: senders may have more than one export to send."""
MOST_SENDERS = 50
"""Senders whose clocks run.json tells of."""


class OtlpSource:
    """Receives the spans of one run.

    While the load is on, an export is parsed, counted and put aside. Once it is over, spans are waited for, at most as
    long as `linger` says, then decoded and put on the run's clock.
    """

    name = "otlp"

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        self._requests: Mapping[str, TracedRequest] | None = None
        self._over = threading.Event()
        self._linger_s = 0.0
        self._spans: list[Span] = []
        self._events: list[Event] = []
        self._facts: dict[str, Any] = {}

    @property
    def patience_s(self) -> float:
        """What is waited for spans, and what it takes to decode them."""
        return self._linger_s + 60.0

    def look_ahead(self, options: Mapping[str, Any], root: Path, interval_s: float) -> Outlook:  # noqa: ARG002 - protocol
        """Whether the address is free."""
        try:
            bind(read_options(self.name, OtlpOptions, options).address).server_close()
        except TelemetryError as error:
            return Outlook(problems=(f"{error.message}; {error.hint}" if error.hint else error.message,))
        return Outlook()

    def look_ahead_at(
        self,
        options: Mapping[str, Any],
        deployments: Sequence[Any],
        root: Path,
    ) -> Sequence[str]:
        """Whether pods could reach the address at all; routes and firewalls on the way are not known here."""
        read = read_options(self.name, OtlpOptions, options)
        return reach.unreachable_from_pods(read, deployments, root)

    def start(self, context: ObserveContext) -> None:
        """Listen from here on."""
        options = read_options(self.name, OtlpOptions, context.options)
        self._options, self._context, self._linger_s = options, context, options.linger
        self._kept = KeptExports(options)
        self._relation = ClockRelation(CLOCK)
        self._relation.add(_wall_clock())
        self._requests, self._spans, self._events, self._facts = None, [], [], {}
        self._over.clear()
        self._counted, self._counted_ns = 0, time.monotonic_ns()
        self._receiver = Receiver(options.address, self._kept, most_body=options.most_body)

    def sample(self, t_us: int) -> Iterable[Sample]:
        """How many spans came since the last reading."""
        now_ns, count = time.monotonic_ns(), self._kept.accepted
        rate = (count - self._counted) / max((now_ns - self._counted_ns) / 1e9, 1e-3)
        self._counted, self._counted_ns = count, now_ns
        return [Sample(t_us, self.name, "", "spans_per_s", rate)]

    def expect(self, requests: Mapping[str, TracedRequest]) -> None:
        """Wait for the spans of these when closing."""
        self._requests = requests
        self._over.set()

    def close(self) -> Iterable[Sample]:
        """Wait for the last spans, then stop listening."""
        if self._receiver is None:
            return []
        begun_s, options = time.monotonic(), self._options
        received: list[Received] = []
        try:
            self._wait(received)
        finally:
            self._receiver.close()
            self._receiver = None
        received += itertools.chain.from_iterable(batch for _, batch in self._kept.decoded())
        self._relation.add(_wall_clock())
        self._place(received)
        self._facts |= {
            "spans": len(self._spans), "over_bound": self._kept.over, "malformed": self._kept.malformed,
            "refused": dict(self._kept.refused), "waited_s": round(time.monotonic() - begun_s, 3),
        }  # fmt: skip
        for said in findings(self._kept, options, self._requests, len(self._spans)):
            self._say(said)
        return []

    def events(self) -> Iterable[Event]:
        """What was refused or is missing, once it is over."""
        events, self._events = self._events, []
        return events

    def gaps(self) -> Sequence[Gap] | None:
        """None at all: it listens, whenever it is read."""
        return []

    def facts(self) -> Mapping[str, Any]:
        """Counts, and how well times are known."""
        return self._facts

    def spans(self) -> Sequence[Span]:
        """Everything that was received, by its start."""
        return self._spans

    def _wait(self, received: list[Received]) -> None:
        """Until all spans have come, or `linger` is over; nobody waits where no request carried a trace id."""
        if not self._over.is_set() or not self._requests:
            return
        begun_s = time.monotonic()
        last_us = max(request.ended_us for request in self._requests.values())
        completeness = Completeness(self._requests)
        while time.monotonic() - begun_s < self._linger_s:
            for came_ns, batch in self._kept.decoded():
                over = self._context.clock.at_us(came_ns) >= last_us
                completeness.take((item.span for item in batch), over=over)
                received += batch
            quiet_s = (time.monotonic_ns() - self._kept.last_ns) / 1e9
            if completeness.reached and quiet_s >= QUIET_S:
                return
            time.sleep(LOOK_S)

    def _place(self, received: Sequence[Received]) -> None:
        """Put spans on the clock of the context."""
        clock, here_ns = self._context.clock, self._relation.here_ns
        found = [item.span._replace(start_us=clock.at_us(here_ns(item.start_ns))) for item in received]
        clocks = sender_clocks(found, self._requests or {})
        self._spans = sorted(on_our_clock(found, clocks), key=lambda span: span.start_us)
        listed = sorted(clocks.items())[:MOST_SENDERS]
        self._facts["clock"] = self._relation.facts()
        self._facts["senders"] = [
            {"service": service, "instance": instance, **known.facts()}
            for (service, instance), known in listed
        ]
        different = clock_finding(clocks)
        if different is not None:
            self._say(different)

    def _say(self, said: Said) -> None:
        detail = json.dumps({"advice": said.advice})
        self._events.append(
            Event(self._context.clock.now_us(), self.name, said.kind, "", said.message, detail)
        )


def _wall_clock() -> OffsetBounds:
    """How this machine's time of day relates to its CLOCK_MONOTONIC now."""
    best: OffsetBounds | None = None
    for _ in range(5):
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        found = OffsetBounds.of_exchange(before_ns, wall_ns, wall_ns, time.monotonic_ns())
        if best is None or found.uncertainty_ns < best.uncertainty_ns:
            best = found
    assert best is not None  # noqa: S101 - five were taken
    return best
