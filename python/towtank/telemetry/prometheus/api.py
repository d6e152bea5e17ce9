"""The questions that are asked of Prometheus: a query now or over a time, what it scrapes, what its clock shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from towtank.clock_relation import OffsetBounds
from towtank.errors import TelemetryError
from towtank.telemetry.http.client import Answer, Server
from towtank.telemetry.prometheus.answers import NotAnAnswer, Result, error_words, read_result
from towtank.telemetry.prometheus.options import PrometheusOptions
from towtank.units import format_duration, parse_duration

MOST_STEPS = 10_000
"""Of one answer; Prometheus refuses more than 11 000."""
SCRAPED = "max(timestamp(up))"
"""When anything was scraped last: it stands still while the server does not work, though old values are repeated."""
CLOCK_QUESTIONS = 5
"""In a row; what is known is as good as the luckiest of them."""
AT_ONCE = {"nocache": "1", "latency_offset": "1ms"}
"""VictoriaMetrics answers as of 30 s ago and repeats the last 30 s unless it is told this; others pass over it."""
MOST_BEHIND_S = 0.002
"""Between the moment that an answer is of and what time() shows in it: they are the same, but for rounding."""
_MS_NS = 1_000_000


class QueryRefused(TelemetryError):  # noqa: N818 - what happened to it
    """Prometheus is there, but does not answer this query."""


class Prometheus:
    """A Prometheus server, or one that speaks its API.

    Parameters
    ----------
    options : PrometheusOptions
    root : Path
        Folder of the experiment file.

    Raises
    ------
    TelemetryError
        A secret or the file with the authorities is not there.
    """

    def __init__(self, options: PrometheusOptions, root: Path) -> None:
        self.server = Server("prometheus", options, root)

    def now(self, query: str) -> Result:
        """Ask for the present values.

        Raises
        ------
        QueryRefused
            The query is wrong, or too expensive.
        TelemetryError
            No answer, or something else than Prometheus.
        """
        return self._result(self.server.ask("/api/v1/query", {"query": query, **AT_ONCE}), query)

    def over(self, query: str, start_s: float, end_s: float, step_s: float) -> Iterator[Result]:
        """Ask for the values at every step from start to end, in as many parts as that takes; raises as `now`."""
        steps = max(0, int((end_s - start_s) / step_s + 1e-6))
        for first in range(0, steps + 1, MOST_STEPS):
            last = min(first + MOST_STEPS - 1, steps)
            asked = {
                "query": query,
                "start": f"{start_s + first * step_s:.3f}",
                "end": f"{start_s + last * step_s:.3f}",
                "step": f"{step_s:.3f}",
                **AT_ONCE,
            }
            yield self._result(self.server.ask("/api/v1/query_range", asked), query)

    def clock(self) -> OffsetBounds:
        """What its clock shows: ± half the shortest of some round trips and 1 ms.

        Values bear the time of the machine that answers queries, which need not be that of a Date header in between.

        Raises
        ------
        TelemetryError
        """
        bounds = self._exchange()
        for _ in range(CLOCK_QUESTIONS - 1):
            bounds = bounds.narrowed(self._exchange())
        return bounds

    def _exchange(self) -> OffsetBounds:
        answer = self.server.ask("/api/v1/query", {"query": "time()", **AT_ONCE})
        points = [point for series in self._result(answer, "time()").series for point in series.points]
        if not points:
            raise self.server.failed("does not answer time(): how its clock relates to ours cannot be known")
        at_s, shown_s = points[0]
        if abs(at_s - shown_s) > MOST_BEHIND_S:
            raise self.server.failed(
                f"answers time() for a moment {format_duration(abs(at_s - shown_s))} before its answer: how its clock "
                "relates to ours cannot be known",
                hint="let it evaluate queries at the present moment (VictoriaMetrics: -search.latencyOffset=1ms)",
            )
        there_ns = round(shown_s * 1000) * _MS_NS
        return OffsetBounds.of_exchange(
            answer.sent_ns, there_ns, there_ns, answer.received_ns, resolution_ns=_MS_NS
        )

    def scrape_intervals(self) -> dict[str, float]:
        """Job → how often its targets are scraped, s; empty where the server does not say."""
        try:
            answer = self.server.ask("/api/v1/targets", {"state": "active"})
            if not answer.ok:
                return {}
            targets = self.server.json(answer)["data"]["activeTargets"]
            found: dict[str, float] = {}
            for target in targets:
                job = str(target["labels"]["job"])
                found[job] = min(parse_duration(target["scrapeInterval"]), found.get(job, float("inf")))
        except (TelemetryError, KeyError, TypeError, ValueError):
            return {}  # Thanos, Mimir and others answer queries and scrape nothing themselves
        return found

    def version(self) -> str:
        """What it is; empty where it does not say."""
        try:
            answer = self.server.ask("/api/v1/status/buildinfo")
            return str(self.server.json(answer)["data"]["version"]) if answer.ok else ""
        except (TelemetryError, KeyError, TypeError):
            return ""

    def close(self) -> None:
        """Let go of the connection; harmless to repeat."""
        self.server.close()

    def _result(self, answer: Answer, query: str) -> Result:
        if answer.status in (401, 403, 404) or 300 <= answer.status < 400:
            raise self.server.refused(answer)
        data: Any = self.server.json(answer)
        words = error_words(data)
        if words:
            raise QueryRefused(f"{self.server.where} does not answer {query!r}: {self.server.mask(words)}")
        if not answer.ok:
            raise self.server.refused(answer)
        try:
            return read_result(data)
        except NotAnAnswer as error:
            raise self.server.failed(
                f"sent {error}", hint="is this the address of Prometheus, with the path in front of /api/v1?"
            ) from error


def scraped_at(results: Iterator[Result]) -> list[tuple[float, float]]:
    """Of the answers to `SCRAPED`: at each step, when anything was scraped last."""
    return [point for result in results for series in result.series for point in series.points]


def shortest(intervals: Mapping[str, float]) -> float | None:
    """The shortest scrape interval; None when none is known."""
    return min(intervals.values(), default=None)
