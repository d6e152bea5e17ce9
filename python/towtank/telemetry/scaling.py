"""The `scaling` source: instances of scaled local deployments, what their autoscaler decided, what the ingress did.

Names are those of the source `kubernetes` where it has the same: figures and response variables then need not know
which of them counted. What has its own instants (changes of counts, decisions, seconds of the ingress) is kept by the
deployment meanwhile, and told at the end.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from towtank.platforms.scaling.journal import Journal, Numbers, SeenScaling, Step
from towtank.platforms.scaling.seam import MADE
from towtank.telemetry.base import Event, ObserveContext, Sample
from towtank.telemetry.options import ScalingOptions, read_options

MADE_PREFIX, ANSWERED_PREFIX = "ingress_made_", "instances_answered_"
_WORDS = {
    "created": "created for {component}",
    "started": "its process runs",
    "ready": "ready",
    "unready": "not ready",
    "first_request": "got its first request",
    "gave_up": "never answered its probe",
    "terminating": "is ended",
    "gone": "gone",
}


class ScalingSource:
    """Tells what a deployment that scales itself has noted, since the observation began."""

    name = "scaling"

    def __init__(self) -> None:
        self._context: ObserveContext | None = None
        self._journal: Journal | None = None
        self._events: list[Event] = []
        self._steps = self._numbers = 0
        self._first: list[Sample] = []
        self._was_read = False
        self._made: Counter[str] = Counter()
        self._answered: Counter[str] = Counter()

    def start(self, context: ObserveContext) -> None:
        """Begin: what was noted before is told of instances that are still there, and of no others."""
        read_options(self.name, ScalingOptions, context.options)
        self._context, self._events = context, []
        deployment = context.deployment
        self._journal = deployment.scaling_journal() if isinstance(deployment, SeenScaling) else None
        self._made.clear()
        self._answered.clear()
        if self._journal is None:
            message = "no component of the deployment is scaled by Towtank"
            self._events.append(Event(context.clock.now_us(), self.name, "not_observable", "", message))
            return
        earlier = self._journal.steps_after(0)
        self._steps, self._numbers = len(earlier), len(self._journal.numbers_after(0))
        self._first, self._was_read = self._counts(self._journal, context.clock.now_us()), False
        gone = {step.instance for step in earlier if step.name == "gone"}
        self._events += [self._event(step) for step in earlier if step.instance and step.instance not in gone]

    def sample(self, t_us: int) -> Iterable[Sample]:
        """Counts of now."""
        journal = self._journal
        if journal is None:
            return []
        self._was_read = True
        return self._counts(journal, t_us)

    def _counts(self, journal: Journal, t_us: int) -> list[Sample]:
        return [
            Sample(t_us, self.name, component, metric, float(value))
            for component, values in journal.counts_now().items()
            for metric, value in values.items()
        ]

    def _noted(self, journal: Journal) -> list[Sample]:
        fresh = journal.numbers_after(self._numbers)
        self._numbers += len(fresh)
        for numbers in fresh:
            self._add(numbers)
        return [
            Sample(self._at_us(numbers.t_ns), self.name, numbers.component, metric, float(value))
            for numbers in fresh
            for metric, value in numbers.values.items()
        ]

    def _add(self, numbers: Numbers) -> None:
        """Sum up who answered what."""
        for metric, value in numbers.values.items():
            for prefix, total in ((MADE_PREFIX, self._made), (ANSWERED_PREFIX, self._answered)):
                if metric.startswith(prefix):
                    total[metric.removeprefix(prefix)] += round(value)

    def events(self) -> Iterable[Event]:
        """Steps of instances, and decisions that changed their number, since the last call."""
        if self._journal is not None:
            self._events += self._told(self._journal)
        events, self._events = self._events, []
        return events

    def _told(self, journal: Journal) -> list[Event]:
        fresh = journal.steps_after(self._steps)
        self._steps += len(fresh)
        return [self._event(step) for step in fresh]

    def _event(self, step: Step) -> Event:
        detail = {"workload": step.component, **step.detail}
        at = self._at_us(step.t_ns)
        if step.name == "scaled":
            now, before = step.detail["now"], step.detail["before"]
            facts = {"from": before, "to": now, "note": step.detail.get("note") or None}
            words = f"{step.component} is to have {now} instance{'' if now == 1 else 's'}, before {before}"
            return Event(at, self.name, "scaled", step.component, words, json.dumps(facts))
        words = _WORDS[step.name].format(component=step.component)
        return Event(at, self.name, f"pod_{step.name}", step.instance, words, json.dumps(detail))

    def facts(self) -> Mapping[str, Any]:
        """Who answered what, over the whole observation; see `base.StatesFacts`."""
        return {"answered_by_instances": dict(self._answered), "answered_by_ingress": dict(self._made)}

    def close(self) -> Iterable[Sample]:
        """Tell what has its own instants, and say what the ingress itself had to answer."""
        if self._journal is None:
            return ()
        # What there was at the beginning holds until the first reading, which may come after the first request.
        held_back = [*(self._first if self._was_read else ()), *self._noted(self._journal)]
        self._events += self._told(self._journal)
        self._journal = None
        for reason, count in self._made.items():
            status, why, advice = MADE.get(reason, (0, reason, "see docs/serverless.md"))
            message = f"the ingress, not an instance, answered {count} requests with {status}: {why}"
            facts = json.dumps({"count": count, "status": status, "advice": advice})
            self._events.append(
                Event(
                    self._at_us(time.monotonic_ns()),
                    self.name,
                    f"ingress_answered_{reason}",
                    "",
                    message,
                    facts,
                )
            )
        return held_back

    def _at_us(self, t_ns: int) -> int:
        return 0 if self._context is None else self._context.clock.at_us(t_ns)
