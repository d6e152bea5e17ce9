"""Whose clock a span was timed by, and what that means for its times.

A sender on this machine reads the clock that we read: its times are exact. One elsewhere need not; but a span that was
begun for a request began after the request was sent and before its answer was there, so every traced request is an
exchange that bounds the offset of the clock of whoever served it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from towtank.clock_relation import OffsetBounds
from towtank.telemetry.base import Span, TracedRequest

Sender = tuple[str, str]
"""Service and instance."""


@dataclass(frozen=True)
class SenderClock:
    """What is known of the clock of one sender, against this machine's time of day.

    Parameters
    ----------
    bounds : OffsetBounds
        From all its exchanges together.
    exchanges : int
    """

    bounds: OffsetBounds
    exchanges: int

    @property
    def differs(self) -> bool:
        """Whether it is certain that this is another clock."""
        return not self.bounds.low_ns <= 0 <= self.bounds.high_ns

    @property
    def shift_us(self) -> int:
        """What to take from its times; nothing as long as they may be right."""
        return self.bounds.middle_ns // 1000 if self.differs else 0

    def facts(self) -> dict[str, Any]:
        """For run.json."""
        return {
            "differs": self.differs,
            "ahead_s": round(self.bounds.middle_ns / 1e9, 6) if self.differs else 0.0,
            "uncertainty_s": round(self.bounds.uncertainty_ns / 1e9, 6),
            "exchanges": self.exchanges,
        }


def sender_clocks(spans: Iterable[Span], requests: Mapping[str, TracedRequest]) -> dict[Sender, SenderClock]:
    """Find out about the clock of everyone who served requests; of those behind them nothing is known so.

    Notes
    -----
    Where exchanges contradict each other (a clock that was set, drift over hours), those that came last hold.
    """
    known: dict[Sender, SenderClock] = {}
    for span in spans:
        request = requests.get(span.trace_id)
        if request is None or span.parent_id != request.parent_id:
            continue
        begun_ns = span.start_us * 1000
        bounds = OffsetBounds.of_exchange(
            request.started_us * 1000, begun_ns, begun_ns, request.ended_us * 1000, resolution_ns=1000
        )
        sender = span.service, span.instance
        before = known.get(sender)
        known[sender] = (
            SenderClock(bounds, 1)
            if before is None
            else SenderClock(before.bounds.narrowed(bounds), before.exchanges + 1)
        )
    return known


def on_our_clock(spans: Iterable[Span], clocks: Mapping[Sender, SenderClock]) -> list[Span]:
    """Spans with their times on our clock, where the sender's is known to be another."""
    shifts = {sender: clock.shift_us for sender, clock in clocks.items() if clock.differs}
    if not shifts:
        return list(spans)
    return [
        span._replace(start_us=span.start_us - shifts.get((span.service, span.instance), 0)) for span in spans
    ]
