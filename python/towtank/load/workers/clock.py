"""How a worker's clock relates to ours: exchanges of four timestamps, of which those with the shortest way count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SPAN_NS = 30_000_000_000
"""Of each such stretch of time the exchange with the shortest way is kept."""


@dataclass(frozen=True)
class Exchange:
    """One question for the time and its answer, ns: the outer two on our clock, the inner two on the worker's."""

    sent_ns: int
    received_ns: int
    answered_ns: int
    back_ns: int

    @property
    def offset_ns(self) -> int:
        """The worker's clock less ours, if both ways took equally long."""
        return ((self.received_ns - self.sent_ns) + (self.answered_ns - self.back_ns)) // 2

    @property
    def round_trip_ns(self) -> int:
        """Time on the way, there and back: the offset is known to ± half of it, whatever the two ways took."""
        return (self.back_ns - self.sent_ns) - (self.answered_ns - self.received_ns)


@dataclass(frozen=True)
class Drift:
    """How fast a clock runs against ours, and how well that is known; parts per million."""

    ppm: float
    uncertainty_ppm: float


class ClockRelation:
    """What is known of one worker's clock. Not safe to use from several threads: its owner guards it."""

    def __init__(self) -> None:
        self._best: list[Exchange] = []

    def add(self, exchange: Exchange) -> None:
        """Take an exchange in; of each `SPAN_NS` only the best is kept."""
        if self._best and exchange.sent_ns // SPAN_NS == self._best[-1].sent_ns // SPAN_NS:
            if exchange.round_trip_ns < self._best[-1].round_trip_ns:
                self._best[-1] = exchange
        else:
            self._best.append(exchange)

    @property
    def kept(self) -> Sequence[Exchange]:
        """The best exchange of each stretch of time."""
        return tuple(self._best)

    def offset_ns(self) -> int:
        """The worker's clock less ours, by the latest that is known well.

        Raises
        ------
        ValueError
            Nothing is known yet.
        """
        if not self._best:
            raise ValueError("no exchange was made with this worker")
        return self._latest().offset_ns

    def uncertainty_ns(self) -> int:
        """Half of the round trip that `offset_ns` comes from."""
        return self._latest().round_trip_ns // 2

    def drift(self) -> Drift | None:
        """From the first stretch of time to the last; None where there is only one."""
        if len(self._best) < 2:
            return None
        first, last = self._best[0], self._best[-1]
        span_ns = last.sent_ns - first.sent_ns
        known_to = (first.round_trip_ns + last.round_trip_ns) / 2
        return Drift((last.offset_ns - first.offset_ns) / span_ns * 1e6, known_to / span_ns * 1e6)

    def record(self) -> dict[str, Any]:
        """For run.json; µs and parts per million."""
        if not self._best:
            return {}
        drift = self.drift()
        return {
            "offset_us": self.offset_ns() / 1000,
            "uncertainty_us": self.uncertainty_ns() / 1000,
            "round_trip_us": self._latest().round_trip_ns / 1000,
            "drift_ppm": None if drift is None else round(drift.ppm, 3),
            "drift_uncertainty_ppm": None if drift is None else round(drift.uncertainty_ppm, 3),
            "exchanges": len(self._best),
        }

    def _latest(self) -> Exchange:
        """The better one of the last two: a stretch that has just begun may have few exchanges."""
        return min(self._best[-2:], key=lambda exchange: exchange.round_trip_ns)
