"""The `prometheus` source at work: asks at each interval, or for the whole run when it is over."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from towtank.clock_relation import NS_PER_S
from towtank.errors import TelemetryError
from towtank.telemetry.base import Event, Gap, ObserveContext, Outlook, Sample
from towtank.telemetry.http.clock import KeptRelation
from towtank.telemetry.options import read_options
from towtank.telemetry.prometheus import outlook
from towtank.telemetry.prometheus.answers import Tally
from towtank.telemetry.prometheus.api import (
    SCRAPED,
    Prometheus,
    QueryRefused,
    scraped_at,
    shortest,
)
from towtank.telemetry.prometheus.findings import findings
from towtank.telemetry.prometheus.options import PrometheusOptions
from towtank.telemetry.reading import GAP_INTERVALS, GAP_SLACK_S

CLOCK = "time() of the server"


class PrometheusSource:
    """Samples the queries that the experiment file names.

    With `read: after` nothing is asked for during a run but what the server's clock shows, every 30 s; when it is over
    the whole of it comes in one answer a query, at steps of the interval, and its times are put on the run's clock.
    With `read: live` each query is asked at each interval, and its values bear the time of that reading.
    """

    name = "prometheus"

    def __init__(self) -> None:
        self._context: ObserveContext | None = None
        self._api: Prometheus | None = None
        self._begun_ns = 0
        self._live = False
        self._tallies: dict[str, Tally] = {}
        self._events: list[Event] = []
        self._gaps: list[Gap] | None = None
        self._facts: dict[str, Any] = {}
        self._patience_s = 0.0

    @property
    def patience_s(self) -> float:
        """One answer for each query at most, and the clock's; the first that does not come ends it."""
        return self._patience_s

    def look_ahead(self, options: Mapping[str, Any], root: Path, interval_s: float) -> Outlook:
        """Whether the server answers, every query is one, and what it gives now."""
        return outlook.look_ahead(read_options(self.name, PrometheusOptions, options), root, interval_s)

    def start(self, context: ObserveContext) -> None:
        """Ask once, so that a server that is not there is known before the load, and relate its clock to ours."""
        options = read_options(self.name, PrometheusOptions, context.options)
        self._context, self._live = context, options.read == "live"
        self._tallies = {name: Tally(query, options.most_series) for name, query in options.queries.items()}
        self._events, self._gaps = [], None
        self._patience_s = options.timeout * (len(options.queries) + 3)
        api = Prometheus(options, context.root)
        self._clock = KeptRelation(CLOCK, lambda _: api.clock())
        with contextlib.ExitStack() as undo:
            undo.callback(api.close)
            self._clock.renew()
            undo.pop_all()
        self._api = api
        self._begun_ns = time.monotonic_ns()
        self._facts = {"version": api.version(), "read": options.read}

    def sample(self, t_us: int) -> Iterable[Sample]:
        """The values of this moment, or, when they are asked for afterwards, only the server's clock."""
        api = self._api
        if api is None:
            return ()
        self._clock.renew()
        if not self._live:
            return ()
        found: list[Sample] = []
        for name, tally in self._tallies.items():
            try:
                result = api.now(tally.query.query)
            except QueryRefused as error:
                tally.failed = tally.failed or error.message
                continue
            metric = tally.query.metric(name)
            found += [Sample(t_us, self.name, instance, metric, v) for _, instance, v in tally.take(result)]
        return found

    def close(self) -> Iterable[Sample]:
        """Everything that was held back; a second call yields nothing."""
        api, self._api = self._api, None
        context = self._context
        if api is None or context is None:
            return ()
        end_ns = time.monotonic_ns()
        try:
            found = () if self._live else self._collect(api, context, end_ns)
            self._conclude(context, end_ns)
        except TelemetryError as error:
            self._gaps = [context.gap(self.name, self._begun_ns, end_ns, error.message)]
            self._facts["clock"] = self._clock.relation.facts()
            raise
        finally:
            api.close()
        return found

    def events(self) -> Iterable[Event]:
        """What has to be known about the answers."""
        found, self._events = self._events, []
        return found

    def gaps(self) -> Sequence[Gap] | None:
        """Read afterwards: when the server scraped nothing at all. Live: by the readings."""
        return None if self._live else self._gaps or []

    def facts(self) -> Mapping[str, Any]:
        """How well times are known, how fine they are, and what each query gave."""
        return self._facts

    def _collect(self, api: Prometheus, context: ObserveContext, end_ns: int) -> list[Sample]:
        """The whole run in one answer a query, sorted by time."""
        trouble = self._clock.finish()
        if trouble:
            raise TelemetryError(trouble)
        relation = self._clock.relation
        start_s = relation.there_ns(self._begun_ns) / NS_PER_S
        end_s = relation.there_ns(end_ns) / NS_PER_S
        step_s = context.interval_s
        intervals = api.scrape_intervals()
        self._facts["scrape_interval_s"] = intervals
        found: list[Sample] = []
        for name, tally in self._tallies.items():
            metric = tally.query.metric(name)
            try:
                for result in api.over(tally.query.query, start_s, end_s, step_s):
                    for at_s, instance, value in tally.take(result):
                        t_us = context.clock.at_us(relation.here_ns(round(at_s * NS_PER_S)))
                        found.append(Sample(t_us, self.name, instance, metric, value))
            except QueryRefused as error:
                tally.failed = error.message
        self._gaps = self._unscraped(api, context, end_ns, (start_s, end_s), shortest(intervals))
        found.sort(key=lambda sample: sample.t_us)
        return found

    def _unscraped(
        self,
        api: Prometheus,
        context: ObserveContext,
        end_ns: int,
        span_s: tuple[float, float],
        interval_s: float | None,
    ) -> list[Gap]:
        """Times in which the server scraped nothing: it repeats old values then, as if nothing had changed."""
        self._facts["gaps_known"] = interval_s is not None
        if interval_s is None:
            return []
        step_s = context.interval_s
        try:
            steps = scraped_at(api.over(SCRAPED, *span_s, step_s))
        except QueryRefused:
            self._facts["gaps_known"] = False
            return []
        patience_s = GAP_INTERVALS * max(interval_s, step_s) + GAP_SLACK_S + step_s
        seen = sorted({max(last_s, span_s[0]) for _, last_s in steps})
        moments = [span_s[0], *seen, span_s[1]]
        relation = self._clock.relation
        return [
            context.gap(
                self.name,
                max(self._begun_ns, relation.here_ns(round(a * NS_PER_S))),
                min(end_ns, relation.here_ns(round(b * NS_PER_S))),
                "the server scraped nothing",
            )
            for a, b in itertools.pairwise(moments)
            if b - a > patience_s
        ]

    def _conclude(self, context: ObserveContext, end_ns: int) -> None:
        """Facts and findings of the whole run."""
        relation = self._clock.relation
        steps = 0 if self._live else int((end_ns - self._begun_ns) / NS_PER_S / context.interval_s) + 1
        self._facts["clock"] = relation.facts()
        self._facts["queries"] = {
            name: {
                "series": tally.series,
                "values": tally.values,
                **({} if self._live else {"steps_with_values": len(tally.times_s), "steps": steps}),
            }
            for name, tally in self._tallies.items()
        }
        t_us = context.clock.at_us(end_ns)
        end_s = relation.there_ns(end_ns) / NS_PER_S
        for said in findings(self._tallies, relation, context.interval_s, end_s):
            detail = json.dumps({"advice": said.advice, "queries": list(said.queries)})
            self._events.append(Event(t_us, self.name, said.kind, "", said.message, detail))
