"""The `cloud-monitoring` source: what Google's Cloud Monitoring knows of services on Cloud Run (timeSeries.list).

Cloud Run writes its metrics once a minute, and they can be read some minutes later
(cloud.google.com/monitoring/api/metrics_gcp, `run`). So they are asked for when the run is over.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import httpx

from towtank.clock_relation import NS_PER_S, ClockRelation, OffsetBounds
from towtank.errors import PlatformError
from towtank.platforms.cloud_run.api import reason
from towtank.platforms.cloud_run.credentials import GoogleAuth
from towtank.platforms.cloud_run.deployment import SeenInCloudRun
from towtank.platforms.rest import RestClient
from towtank.telemetry.asked_after import AskedAfter
from towtank.telemetry.base import Event, ObserveContext, Sample
from towtank.telemetry.options import CloudMonitoringOptions, read_options

Json = dict[str, Any]
TIMEOUT_S = 60.0
_HINTS = {
    403: "may this account read metrics (roles/monitoring.viewer), and is the Cloud Monitoring API on?",
    404: "does the project exist?",
    429: "the project's quota of the Monitoring API is used up; wait, or have it raised",
}


@dataclass(frozen=True)
class Wanted:
    """A metric of Cloud Run and what becomes of it.

    Parameters
    ----------
    type : str
        Behind `run.googleapis.com/`.
    name : str
        Of the sample; `{label}` is filled in.
    of : {"value", "per second", "mean"}
        A number as it is, a count divided by its interval, or the mean of a distribution.
    factor : float
        To our unit.
    label : str
        Label of the metric that tells series apart.
    """

    type: str
    name: str
    of: Literal["value", "per second", "mean"]
    factor: float = 1.0
    label: str = ""


WANTED = (
    Wanted("container/instance_count", "instances_{label}", "value", label="state"),
    Wanted("request_count", "requests_{label}_per_s", "per second", label="response_code_class"),
    Wanted("container/billable_instance_time", "instances_billed", "per second"),
    Wanted("container/cpu/utilizations", "cpu_ratio", "mean"),
    Wanted("container/memory/utilizations", "memory_ratio", "mean"),
    Wanted("container/startup_latencies", "startup_s", "mean", factor=1e-3),
)


def monitoring(auth: GoogleAuth, endpoint: str) -> RestClient:
    """Cloud Monitoring with these credentials; holds connections until it is closed."""
    client = httpx.Client(auth=auth, timeout=TIMEOUT_S, trust_env=False)
    return RestClient("Cloud Monitoring", endpoint, client, mask=auth.mask, reason=reason, hints=_HINTS)


def try_reading(rest: RestClient, project: str) -> None:
    """Ask for the last minute of any service.

    Raises
    ------
    PlatformError
        Metrics may not be read.
    """
    now_s = datetime.now(UTC).timestamp()
    query: dict[str, str | int] = {
        "filter": f'metric.type = "run.googleapis.com/{WANTED[0].type}"', "view": "HEADERS", "pageSize": 1,
        "interval.startTime": _rfc3339(now_s - 60), "interval.endTime": _rfc3339(now_s),
    }  # fmt: skip
    rest.must("GET", f"/v3/projects/{project}/timeSeries", what="asking for metrics", query=query)


class CloudMonitoringSource(AskedAfter):
    """Asks Cloud Monitoring for the minutes of a run, when these can be read."""

    name = "cloud-monitoring"

    def __init__(self) -> None:
        super().__init__()
        self._rest: RestClient | None = None
        self._options = CloudMonitoringOptions()

    @property
    def patience_s(self) -> float:
        """See `AsksOthers`: until metrics can be read, and one answer a metric."""
        return self._options.settle + TIMEOUT_S

    def start(self, context: ObserveContext) -> None:
        """Find out whether the deployment is on Cloud Run, and that metrics may be read."""
        self._options = read_options(self.name, CloudMonitoringOptions, context.options)
        self._begin(context)
        self._rest = None
        deployment = context.deployment
        if not isinstance(deployment, SeenInCloudRun):
            self._not_observable(context, "the deployment is not on Cloud Run")
            return
        auth = deployment.api().auth
        self._project, self._region = deployment.place
        self._services = deployment.service_ids
        rest = monitoring(auth, self._options.endpoint)
        self._relation = ClockRelation("HTTP Date header")
        try:
            now = datetime.now(UTC)
            self._page(rest, WANTED[0], now.timestamp() - 60, now.timestamp(), "")
        except PlatformError as error:
            rest.close()
            raise self._failed(error) from error
        self._rest = rest

    def sample(self, t_us: int) -> Iterable[Sample]:  # noqa: ARG002 - part of the contract
        """Nothing yet."""
        return ()

    def close(self) -> Iterable[Sample]:
        """The whole run; a second call yields nothing."""
        rest, self._rest = self._rest, None
        context = self._context
        if rest is None or context is None:
            return ()
        try:
            return self._collected(context, lambda *when: self._collect(rest, *when))
        finally:
            rest.close()

    def _collect(self, rest: RestClient, context: ObserveContext, end_ns: int) -> list[Sample]:
        time.sleep(self._options.settle)
        begin_s = math.floor(self._relation.there_ns(self._begun_ns) / NS_PER_S)
        end_s = math.ceil(self._relation.there_ns(end_ns) / NS_PER_S)
        found: dict[tuple[int, str, str], list[float]] = {}
        counts: dict[str, int] = {}
        for wanted in WANTED:
            for instance, metric, at_s, value in self._values(rest, wanted, begin_s, end_s):
                at_us = context.clock.at_us(self._relation.here_ns(round(at_s * NS_PER_S)))
                if begin_s < at_s <= end_s:
                    found.setdefault((at_us, instance, metric), []).append(value)
                    counts[wanted.type] = counts.get(wanted.type, 0) + 1
        self._facts = {"clock": self._relation.facts(), "values": counts}
        if not counts:
            advice = "runs of some minutes have metrics; raise `settle` where these come late"
            message = "Cloud Monitoring has no value of the run"
            detail = json.dumps({"advice": advice})
            self._events.append(Event(context.clock.at_us(end_ns), self.name, "no_data", "", message, detail))
        # Series of several revisions: means are averaged, all else is added up.
        return [
            Sample(at, self.name, instance, metric, sum(values) / (len(values) if _is_mean(metric) else 1))
            for (at, instance, metric), values in sorted(found.items())
        ]

    def _values(
        self, rest: RestClient, wanted: Wanted, begin_s: float, end_s: float
    ) -> Iterator[tuple[str, str, float, float]]:
        """Service, metric, Unix time and value of every point."""
        token = ""
        while True:
            page = self._page(rest, wanted, begin_s, end_s, token)
            for series in page.get("timeSeries") or ():
                own = str((series.get("resource") or {}).get("labels", {}).get("service_name"))
                label = str((series.get("metric") or {}).get("labels", {}).get(wanted.label, ""))
                for point in series.get("points") or ():
                    value = _value(wanted, point)
                    if value is not None and own in self._services:
                        at_s = _unix_s(point["interval"]["endTime"])
                        yield self._services[own], wanted.name.format(label=label), at_s, value
            token = str(page.get("nextPageToken") or "")
            if not token:
                return

    def _page(self, rest: RestClient, wanted: Wanted, begin_s: float, end_s: float, token: str) -> Json:
        named = ", ".join(f'"{own}"' for own in self._services)
        query: dict[str, str | int] = {
            "filter": f'metric.type = "run.googleapis.com/{wanted.type}" AND resource.type = "cloud_run_revision" AND '
            f'resource.labels.location = "{self._region}" AND resource.labels.service_name = one_of({named})',
            "interval.startTime": _rfc3339(begin_s), "interval.endTime": _rfc3339(end_s), "view": "FULL",
        }  # fmt: skip
        if token:
            query["pageToken"] = token
        what = f"asking for {wanted.type}"
        reply = rest.ask("GET", f"/v3/projects/{self._project}/timeSeries", what=what, query=query)
        if not reply.ok:
            raise rest.refused(reply, what)
        if reply.date_s is not None:
            there_ns = reply.date_s * NS_PER_S
            bounds = OffsetBounds.of_exchange(
                reply.sent_ns, there_ns, there_ns, reply.received_ns, resolution_ns=NS_PER_S
            )
            last = self._relation.last
            self._relation.add(bounds if last is None else last.aged(bounds.at_ns).narrowed(bounds))
        if self._relation.last is None:
            raise PlatformError(
                f"{rest.where} answers without a Date header: what time it has cannot be known"
            )
        return dict(reply.content)


def _value(wanted: Wanted, point: Json) -> float | None:
    """Value of a point in our unit; None where it has none."""
    value = point.get("value") or {}
    if wanted.of == "mean":
        distribution = value.get("distributionValue") or {}
        if not int(distribution.get("count") or 0):
            return None
        return float(distribution.get("mean") or 0.0) * wanted.factor
    number = next((value[key] for key in ("int64Value", "doubleValue") if key in value), None)
    if number is None:
        return None
    if wanted.of == "value":
        return float(number) * wanted.factor
    interval = point["interval"]
    seconds = _unix_s(interval["endTime"]) - _unix_s(interval.get("startTime") or interval["endTime"])
    return float(number) * wanted.factor / seconds if seconds > 0 else None


def _is_mean(metric: str) -> bool:
    return any(one.name == metric and one.of == "mean" for one in WANTED)


def _unix_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _rfc3339(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat().replace("+00:00", "Z")
