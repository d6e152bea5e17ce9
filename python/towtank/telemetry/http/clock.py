"""The clock of a server that a source asks: related to ours at the start, every 30 s, and at the end."""

from __future__ import annotations

import time
from collections.abc import Callable

from towtank.clock_relation import NS_PER_S, ClockRelation, OffsetBounds, search_edge
from towtank.errors import TelemetryError
from towtank.telemetry.http.client import Answer, Server
from towtank.units import format_duration

RENEWED_EVERY_S = 30.0
"""A clock that is slewed by the most that kernels do drifts by 15 ms meanwhile, on a straight line."""


class DateClock:
    """Finds a server's clock by the Date header of its answers: an edge search, ± a few ms or half a round trip.

    Parameters
    ----------
    server : Server
    path : str
        Something cheap to ask for.
    """

    method = "edge search on the HTTP Date header"

    def __init__(self, server: Server, path: str) -> None:
        self._server = server
        self._path = path

    def measure(self, known: OffsetBounds | None) -> OffsetBounds:
        """Search; shorter when something is known already.

        Raises
        ------
        TelemetryError
            It does not answer, or without a Date.
        """
        return search_edge(self._exchange, known=known)

    def once(self) -> OffsetBounds:
        """One exchange: ± half a second."""
        return self._exchange()

    def _exchange(self) -> OffsetBounds:
        answer: Answer = self._server.ask(self._path)
        if answer.date_s is None:
            raise self._server.failed(
                f"answers {self._path} without a Date header: how its clock relates to ours cannot be known"
            )
        there_ns = answer.date_s * NS_PER_S
        return OffsetBounds.of_exchange(
            answer.sent_ns, there_ns, there_ns, answer.received_ns, resolution_ns=NS_PER_S
        )


def step_told(server: str, relation: ClockRelation) -> str:
    """Say that a server's clock was set during a run."""
    return (
        f"the clock of {server} was set by {format_duration(relation.step_ns / NS_PER_S)} during the run: its "
        f"times are uncertain by ± {format_duration(relation.uncertainty_ns / NS_PER_S)}"
    )


class KeptRelation:
    """A clock relation that is renewed now and then while a run lasts.

    Parameters
    ----------
    method : str
    measure : callable
        One measurement, given what is known already.
    every_s : float
    """

    def __init__(
        self,
        method: str,
        measure: Callable[[OffsetBounds | None], OffsetBounds],
        every_s: float = RENEWED_EVERY_S,
    ) -> None:
        self.relation = ClockRelation(method)
        self._measure = measure
        self._every_ns = round(every_s * NS_PER_S)

    def renew(self, *, now: bool = False) -> None:
        """Measure if the last time is too long ago, or at once.

        Raises
        ------
        TelemetryError
        """
        last = self.relation.last
        if now or last is None or time.monotonic_ns() - last.at_ns >= self._every_ns:
            self.relation.add(self._measure(last))

    def finish(self) -> str:
        """Measure a last time; why that was not possible, or empty. What was known before is still good."""
        try:
            self.renew(now=True)
        except TelemetryError as error:
            if self.relation.last is None:
                raise
            return error.message
        return ""
