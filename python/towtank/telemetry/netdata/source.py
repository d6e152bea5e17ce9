"""The `netdata` source at work: asks for the whole run when it is over."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from towtank.clock_relation import NS_PER_S
from towtank.errors import TelemetryError
from towtank.telemetry.asked_after import AskedAfter
from towtank.telemetry.base import Event, Gap, ObserveContext, Outlook, Sample
from towtank.telemetry.http.client import told
from towtank.telemetry.http.clock import KeptRelation, step_told
from towtank.telemetry.netdata.api import Netdata, Wanted
from towtank.telemetry.netdata.options import NetdataOptions
from towtank.telemetry.options import read_options
from towtank.telemetry.reading import GAP_INTERVALS, GAP_SLACK_S
from towtank.units import format_duration

KEPT_AFTER_S = 2.0
"""An agent shows a value up to this many of its intervals after the moment that it is of."""
CLOCK_PATIENCE_S = 20.0
"""Longest two edge searches together, one that goes on when the run ends and the last one."""


class NetdataSource(AskedAfter):
    """Samples the charts that the experiment file names, with the agent's own resolution of 1 s or coarser.

    Nothing is asked for during a run but what the agent's clock shows; when it is over every chart comes in one answer.
    A value bears the end of the interval that it is the mean of.
    """

    name = "netdata"

    def __init__(self) -> None:
        super().__init__()
        self._api: Netdata | None = None
        self._wanted: list[Wanted] = []
        self._patience_s = 0.0

    @property
    def patience_s(self) -> float:
        """One answer a chart at most, and the clock's; the first that does not come ends it."""
        return self._patience_s

    def look_ahead(self, options: Mapping[str, Any], root: Path, interval_s: float) -> Outlook:
        """Whether the agent answers and has the charts."""
        given = read_options(self.name, NetdataOptions, options)
        try:
            api = Netdata(given, root)
        except TelemetryError as error:
            return Outlook((told(error),))
        try:
            found, problems = api.find()
        except TelemetryError as error:
            return Outlook((told(error),))
        finally:
            api.close()
        slow = sorted({one.id for one in found if one.update_every_s > interval_s})
        remark = f"asked for every {format_duration(interval_s)}, but kept more rarely: {', '.join(slow[:6])}"
        return Outlook(tuple(problems), (remark,) if slow else ())

    def start(self, context: ObserveContext) -> None:
        """Look the charts up; a chart that has gone since the first run is an error."""
        options = read_options(self.name, NetdataOptions, context.options)
        self._begin(context)
        api = Netdata(options, context.root)
        with contextlib.ExitStack() as undo:
            undo.callback(api.close)
            self._wanted = api.all_wanted()
            api.clock.once()
            undo.pop_all()
        self._api = api
        self._patience_s = options.timeout * (len(self._wanted) + 1) + CLOCK_PATIENCE_S
        self._clock = KeptRelation(api.clock.method, api.clock.measure)
        self._begun_ns = time.monotonic_ns()
        self._facts = {"version": api.version}

    def sample(self, t_us: int) -> Iterable[Sample]:  # noqa: ARG002 - part of the contract
        """Nothing yet; looks at the agent's clock now and then."""
        if self._api is not None:
            self._clock.renew()
        return ()

    def close(self) -> Iterable[Sample]:
        """The whole run; a second call yields nothing."""
        api, self._api = self._api, None
        context = self._context
        if api is None or context is None:
            return ()
        try:
            return self._collected(context, lambda *when: self._collect(api, *when))
        finally:
            self._facts["clock"] = self._clock.relation.facts()
            api.close()

    def _collect(self, api: Netdata, context: ObserveContext, end_ns: int) -> list[Sample]:
        trouble = self._clock.finish()
        if trouble:
            raise TelemetryError(trouble)
        slowest_s = max(one.update_every_s for one in self._wanted)
        time.sleep(max(0.0, KEPT_AFTER_S * slowest_s - (time.monotonic_ns() - end_ns) / NS_PER_S))
        relation = self._clock.relation
        after_s = math.floor(relation.there_ns(self._begun_ns) / NS_PER_S)
        before_s = math.ceil(relation.there_ns(end_ns) / NS_PER_S)
        found: list[Sample] = []
        seen_ns: set[int] = set()
        kept = dict.fromkeys((one.name for one in self._wanted), 0)
        for one in self._wanted:
            for at_s, values in api.values(one, after_s, before_s, context.interval_s):
                here_ns = relation.here_ns(at_s * NS_PER_S)
                if not self._begun_ns <= here_ns <= end_ns:
                    continue
                t_us = context.clock.at_us(here_ns)
                for line, value in zip(one.lines, values, strict=True):
                    if value is not None and math.isfinite(value):
                        found.append(Sample(t_us, self.name, one.instance, line.metric, value * line.factor))
                        seen_ns.add(here_ns)
                        kept[one.name] += 1
        self._facts["charts"] = {name: {"values": number} for name, number in kept.items()}
        self._gaps = self._holes(context, sorted(seen_ns), end_ns, slowest_s)
        self._tell(context, end_ns, [name for name, number in kept.items() if not number])
        found.sort(key=lambda sample: sample.t_us)
        return found

    def _holes(
        self, context: ObserveContext, seen_ns: Sequence[int], end_ns: int, every_s: float
    ) -> list[Gap]:
        """Times in which the agent kept nothing of any chart."""
        patience_ns = round((GAP_INTERVALS * max(every_s, context.interval_s) + GAP_SLACK_S) * NS_PER_S)
        moments = [self._begun_ns, *seen_ns, end_ns]
        return [
            context.gap(self.name, a, b, "the agent kept nothing")
            for a, b in itertools.pairwise(moments)
            if b - a > patience_ns
        ]

    def _tell(self, context: ObserveContext, end_ns: int, empty: Sequence[str]) -> None:
        t_us = context.clock.at_us(end_ns)
        relation = self._clock.relation
        if empty:
            detail = json.dumps(
                {"advice": "does the collector of this chart still run?", "charts": list(empty)}
            )
            message = f"Netdata kept no value of {', '.join(empty)} during the run"
            self._events.append(Event(t_us, self.name, "no_data", "", message, detail))
        if relation.step_ns:
            detail = json.dumps({"advice": "let the agent's clock settle before measuring"})
            message = step_told("Netdata", relation)
            self._events.append(Event(t_us, self.name, "clock_stepped", "", message, detail))
