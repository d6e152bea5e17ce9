"""The `openwhisk` source: every activation of a deployment's actions, with how long it waited, initialised and ran.

OpenWhisk writes a record of each activation some time after its end. So all of them are asked for when the run is over;
during it only the host's clock is looked at. `start` of a record is where its container began with it, in milliseconds
of the host's clock, and `waitTime` is what lay before (docs/annotations.md of OpenWhisk).
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towtank.clock_relation import NS_PER_S, OffsetBounds, search_edge
from towtank.errors import PlatformError, TelemetryError
from towtank.platforms.openwhisk.api import MOST_LISTED, Api
from towtank.platforms.openwhisk.deployment import SeenInOpenWhisk, annotation, failure, in_package
from towtank.platforms.rest import said
from towtank.telemetry.asked_after import AskedAfter
from towtank.telemetry.base import Event, ObserveContext, Sample
from towtank.telemetry.http.clock import KeptRelation, step_told
from towtank.telemetry.options import ActivationOptions, read_options

Json = Mapping[str, Any]
NS_PER_MS = 1_000_000
PATIENCE_S = 120.0
"""Longest wait for the end: records that come late, pages of a long run, and the clock's last search."""


@dataclass(frozen=True)
class Activation:
    """One record, its times on the host's clock.

    Parameters
    ----------
    id, action : str
    start_ms : int
        When the container began with it, initialisation included.
    wait_ms, init_ms, run_ms : int or None
        Before that; initialising, None where the container was warm; and the rest.
    failed : str
        Why, in OpenWhisk's words; empty where it did not.
    """

    id: str
    action: str
    start_ms: int
    wait_ms: int | None
    init_ms: int | None
    run_ms: int | None
    failed: str

    @classmethod
    def of(cls, record: Json) -> Activation:
        """Read a record."""
        init = _whole(annotation(record, "initTime"))
        duration = _whole(record.get("duration"))
        run = None if duration is None else max(0, duration - (init or 0))
        start, name = _whole(record.get("start")) or 0, str(record.get("name"))
        wait = _whole(annotation(record, "waitTime"))
        return cls(str(record.get("activationId")), name, start, wait, init, run, failure(record))

    def phases(self) -> Iterator[tuple[str, int]]:
        """Metric → ms, as far as the record says."""
        for name, value in (("wait", self.wait_ms), ("init", self.init_ms), ("run", self.run_ms)):
            if value is not None:
                yield f"activation_{name}_s", value


class ActivationsSource(AskedAfter):
    """Asks OpenWhisk for the activations of a run when it is over."""

    name = "openwhisk"

    def __init__(self) -> None:
        super().__init__()
        self._api: Api | None = None

    @property
    def patience_s(self) -> float:
        """See `AsksOthers`."""
        return PATIENCE_S

    def start(self, context: ObserveContext) -> None:
        """Find out whether the deployment is on OpenWhisk, and that it answers."""
        self._options = read_options(self.name, ActivationOptions, context.options)
        self._begin(context)
        self._api = None
        deployment = context.deployment
        if not isinstance(deployment, SeenInOpenWhisk):
            self._not_observable(context, "the deployment is not on OpenWhisk")
            return
        api = deployment.activations_api()
        self._package = deployment.package
        self._clock = KeptRelation(
            "edge search on the HTTP Date header",
            lambda known: search_edge(lambda: _exchange(api), known=known),
        )
        _exchange(api)
        self._api = api

    def sample(self, t_us: int) -> Iterable[Sample]:  # noqa: ARG002 - part of the contract
        """Nothing yet; looks at the host's clock now and then."""
        if self._api is not None:
            self._clock.renew()
        return ()

    def close(self) -> Iterable[Sample]:
        """Every activation of the run; a second call yields nothing."""
        api, self._api = self._api, None
        context = self._context
        if api is None or context is None:
            return ()
        return self._collected(context, lambda *when: self._collect(api, *when))

    def _collect(self, api: Api, context: ObserveContext, end_ns: int) -> list[Sample]:
        trouble = self._clock.finish()
        if trouble:
            raise PlatformError(trouble)
        relation = self._clock.relation
        self._facts["clock"] = relation.facts()
        time.sleep(max(0.0, self._options.settle - (time.monotonic_ns() - end_ns) / NS_PER_S))
        first_ms = math.floor(relation.there_ns(self._begun_ns) / NS_PER_MS)
        last_ms = math.ceil(relation.there_ns(end_ns) / NS_PER_MS)
        seen, is_whole = self._listed(api, first_ms, last_ms)
        samples: list[Sample] = []
        last_at: dict[str, int] = {}
        for one in sorted(seen, key=lambda one: (one.start_ms, one.id)):
            at_us = context.clock.at_us(relation.here_ns(one.start_ms * NS_PER_MS))
            # Two in one millisecond are a microsecond apart: less than their times are known to.
            at_us = max(at_us, last_at.get(one.action, at_us - 1) + 1)
            last_at[one.action] = at_us
            samples += [Sample(at_us, self.name, one.action, key, ms / 1000) for key, ms in one.phases()]
            if one.init_ms is not None:
                self._events.append(self._cold_start(one, at_us))
        self._tell(context, end_ns, seen, is_whole=is_whole)
        samples.sort(key=lambda sample: sample.t_us)
        return samples

    def _listed(self, api: Api, first_ms: int, last_ms: int) -> tuple[list[Activation], bool]:
        """All of the run's, each once, and whether these are all: a record may come while pages are turned."""
        found: dict[str, Activation] = {}
        asked = 0
        while asked < self._options.most:
            page = api.activations(since_ms=first_ms, upto_ms=last_ms, skip=asked, limit=MOST_LISTED)
            asked += len(page)
            for record in page:
                one = Activation.of(record)
                if in_package(record, self._package) and first_ms <= one.start_ms <= last_ms:
                    found[one.id] = one
            if len(page) < MOST_LISTED:
                return list(found.values()), True
        return list(found.values()), False

    def _cold_start(self, one: Activation, at_us: int) -> Event:
        detail = {
            "activation": one.id, "wait_ms": one.wait_ms, "init_ms": one.init_ms, "run_ms": one.run_ms,
            "uncertainty_ms": round(self._clock.relation.uncertainty_ns / NS_PER_MS, 3),
        }  # fmt: skip
        words = f"{one.action} was initialised for {one.init_ms} ms after {one.wait_ms} ms of waiting"
        return Event(at_us, self.name, "cold_start", one.action, words, json.dumps(detail))

    def _tell(
        self, context: ObserveContext, end_ns: int, seen: Sequence[Activation], *, is_whole: bool
    ) -> None:
        cold = sum(one.init_ms is not None for one in seen)
        failed = Counter(one.failed for one in seen if one.failed)
        self._facts |= {"activations": len(seen), "cold": cold, "failed": sum(failed.values())}
        t_us = context.clock.at_us(end_ns)
        if failed:
            words, count = failed.most_common(1)[0]
            advice = "read the action's own output: wsk activation logs ID"
            message = f"{sum(failed.values())} of {len(seen)} activations failed, {count} of them: {words}"
            detail = json.dumps({"advice": advice, "reasons": dict(failed.most_common(10))})
            self._events.append(Event(t_us, self.name, "activations_failed", "", message, detail))
        if not is_whole:
            message = f"only the last {self._options.most} activations were asked for"
            detail = json.dumps({"advice": "raise `most` of the source, or make the run shorter"})
            self._events.append(Event(t_us, self.name, "activations_cut", "", message, detail))
        if self._clock.relation.step_ns:
            detail = json.dumps({"advice": "let the host's clock settle before measuring"})
            message = step_told("OpenWhisk", self._clock.relation)
            self._events.append(Event(t_us, self.name, "clock_stepped", "", message, detail))


def _exchange(api: Api) -> OffsetBounds:
    """One look at the host's clock.

    Raises
    ------
    TelemetryError
    """
    try:
        reply = api.ping()
    except PlatformError as error:
        raise TelemetryError(f"telemetry source 'openwhisk': {said(error)}") from error
    if reply.date_s is None:
        raise TelemetryError(
            f"telemetry source 'openwhisk': {api.url} answers without a Date header: how its clock relates to ours "
            "cannot be known"
        )
    there_ns = reply.date_s * NS_PER_S
    return OffsetBounds.of_exchange(
        reply.sent_ns, there_ns, there_ns, reply.received_ns, resolution_ns=NS_PER_S
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
