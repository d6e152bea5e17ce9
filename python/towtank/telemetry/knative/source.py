"""The `knative` source: reads what autoscaler, activators, queue-proxies and Envoy publish, at each interval.

Samples bear the time of the reading; counters are differences since the one before. Names are those of the source
`scaling` where it has the same: figures and tables then need not know which of them counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from towtank.errors import PlatformError, TelemetryError
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.connection import Connection
from towtank.platforms.kubernetes.kinds import POD
from towtank.platforms.kubernetes.view import ClusterView
from towtank.telemetry import cluster
from towtank.telemetry.base import Event, ObserveContext, Sample
from towtank.telemetry.exposition import rows
from towtank.telemetry.knative.doors import Doors
from towtank.telemetry.knative.numbers import MADE, MADE_PREFIX, Counted, Part, Values, take, wanted
from towtank.telemetry.knative.options import KnativeOptions
from towtank.telemetry.options import read_options

AT_ONCE = 8
"""Pods that are asked side by side."""
LOOK_EVERY_US = 10_000_000
"""How often it is looked which pods the autoscaler, the activator and the ingress have."""
PORTS: dict[Part, int] = {"autoscaler": 9090, "activator": 9090, "queue-proxy": 9091}
METRICS_PATH = "/metrics"
REVISION = "serving.knative.dev/revision"
_ANSWERED = {
    "activator_answered_": "answered_by_activator",
    "queue_proxy_answered_": "answered_by_queue_proxy",
    "instances_answered_": "answered_by_instances",
    "ingress_answered_": "answered_through_ingress",
    MADE_PREFIX: "answered_by_ingress",
}
_NOT_READ = "Its numbers are missing meanwhile; is there a way to its pods (`control`), and are they up?"
_NO_NUMBERS = (
    "Say `metrics.backend-destination: prometheus` in the ConfigMap config-observability of Knative, or leave the "
    "source out."
)


class KnativeSource:
    """Samples what Knative's parts publish about the revisions of a deployment."""

    name = "knative"
    patience_s = 2 * cluster.ANSWER_WITHIN_S

    def __init__(self) -> None:
        self._options = KnativeOptions()
        self._context: ObserveContext | None = None
        self._view: ClusterView | None = None
        self._doors: dict[Part, Doors] = {}
        self._pods: dict[Part, list[Json]] = {}
        self._looked_us: int | None = None
        self._counted = Counted()
        self._totals: Counter[str] = Counter()
        self._events: list[Event] = []
        self._unread: set[str] = set()
        self._decided = False
        self._last_us = 0
        self._pool: ThreadPoolExecutor | None = None

    def look_ahead_at(
        self, options: Mapping[str, Any], deployments: Sequence[Any], root: Path
    ) -> Sequence[str]:
        """Whether there is a Knative whose pods may be seen."""
        wanted_options = read_options(self.name, KnativeOptions, options)
        return cluster.ask_clusters(deployments, root, partial(self._missing, wanted_options))

    def _missing(
        self, options: KnativeOptions, connection: Connection, namespace: str | None
    ) -> Iterator[str]:
        lacking = cluster.missing_rights(connection, self.name, namespace)
        if lacking:
            yield from lacking
            return
        found, _ = connection.api.list(POD.path(options.namespace), labelSelector="app=autoscaler")
        if not found:
            yield (
                f"there is no autoscaler of Knative in the namespace {options.namespace}: name its namespace under "
                "`knative: {namespace: …}`"
            )

    def start(self, context: ObserveContext) -> None:
        """Take the first reading: what was counted before is of no run."""
        self.close()
        self._options = read_options(self.name, KnativeOptions, context.options)
        self._context, self._view = context, cluster.view_of(context)
        self._counted, self._totals, self._events = Counted(), Counter(), []
        self._unread, self._looked_us, self._decided, self._pods = set(), None, False, {}
        view = self._view
        if view is None:
            self._events.append(cluster.not_in_a_cluster(self.name, context))
            return
        self._doors = self._make_doors(view)
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="towtank-knative")
        self._last_us = context.clock.now_us()
        try:
            self._read(self._last_us)
        except (PlatformError, TelemetryError) as error:
            self.close()
            raise TelemetryError(
                f"telemetry source {self.name!r}: {error.message}", hint=error.hint
            ) from error
        self._counted.begin()

    def _make_doors(self, view: ClusterView) -> dict[Part, Doors]:
        options = self._options
        places = {
            part: (view.namespace if part == "queue-proxy" else options.namespace, port, METRICS_PATH)
            for part, port in PORTS.items()
        }
        if options.envoy is not None:
            places["envoy"] = options.envoy.namespace, options.envoy.port, options.envoy.path
        return {
            part: Doors(
                view.api,
                namespace,
                port=port,
                path=path,
                wanted=options.control,
                timeout_s=cluster.ANSWER_WITHIN_S,
            )
            for part, (namespace, port, path) in places.items()
        }

    def sample(self, t_us: int) -> Iterable[Sample]:
        """Ask every endpoint once."""
        values = self._read(t_us)
        self._note(values)
        took_s, self._last_us = (t_us - self._last_us) / 1e6, t_us
        if took_s > 0:
            for of_one in values.values():
                _add_rates(of_one, took_s)
        return [
            Sample(t_us, self.name, instance, metric, value)
            for instance, of_one in values.items()
            for metric, value in of_one.items()
            if value or not _is_count(metric)
        ]

    def _note(self, values: Values) -> None:
        for of_one in values.values():
            self._decided |= "autoscaler_desired" in of_one
            self._totals.update({name: round(value) for name, value in of_one.items() if _is_count(name)})

    def _read(self, t_us: int) -> Values:
        """New values of all parts; one that does not answer is told, and raises only when none does."""
        view, pool = self._view, self._pool
        if view is None or pool is None:
            return {}
        self._look(view, t_us)
        asked = [
            (part, pod, pool.submit(self._doors[part].read, pod))
            for part, pods in self._pods.items()
            for pod in pods
        ]
        found: Values = {}
        failed: list[PlatformError | TelemetryError] = []
        for part, pod, answer in asked:
            name = str(pod["metadata"]["name"])
            try:
                said = rows(answer.result(), wanted(part))
            except (PlatformError, TelemetryError) as error:
                failed.append(error)
                self._tell_unread(part, name, error.message, t_us)
                continue
            self._unread.discard(name)
            for instance, of_one in take(part, name, said, view.namespace, self._counted).items():
                known = found.setdefault(instance, {})
                for metric, value in of_one.items():
                    known[metric] = known.get(metric, 0.0) + value
        if failed and len(failed) == len(asked):
            raise failed[0]
        return found

    def _look(self, view: ClusterView, t_us: int) -> None:
        """Find the pods to ask: those of revisions at each reading, as they are watched anyway, the others rarely."""
        self._pods["queue-proxy"] = [
            pod
            for pod in view.pods
            if (pod["metadata"].get("labels") or {}).get(REVISION) and _has_address(pod)
        ]
        if self._looked_us is not None and t_us - self._looked_us < LOOK_EVERY_US:
            return
        self._looked_us = t_us
        system, envoy = self._options.namespace, self._options.envoy
        for part in ("autoscaler", "activator"):
            self._pods[part] = self._list(view, system, f"app={part}")
        if envoy is not None:
            self._pods["envoy"] = self._list(view, envoy.namespace, envoy.selector)
        for part, pods in self._pods.items():
            if not pods and part != "queue-proxy":
                self._tell_unread(part, f"no {part}", f"no pod of {part} was found", t_us)

    @staticmethod
    def _list(view: ClusterView, namespace: str, selector: str) -> list[Json]:
        path = POD.path(namespace)
        answer = view.api.glance(path, timeout_s=cluster.ANSWER_WITHIN_S, labelSelector=selector)
        return [pod for pod in json.loads(answer).get("items") or [] if _has_address(pod)]

    def _tell_unread(self, part: Part, name: str, message: str, t_us: int) -> None:
        if name not in self._unread:
            self._unread.add(name)
            event = Event(t_us, self.name, "not_read", name, f"{part}: {message}")
            # a pod that comes or goes is not there to be asked: that is no finding
            self._events.append(event if part == "queue-proxy" else cluster.advised(event, _NOT_READ))

    def events(self) -> Iterable[Event]:
        """What was noticed since the last call."""
        events, self._events = self._events, []
        return events

    def facts(self) -> Mapping[str, Any]:
        """Who answered what over the whole observation, and which way questions took; see `base.StatesFacts`."""
        found: dict[str, Any] = {
            "control": {part: sorted(doors.ways) for part, doors in self._doors.items() if doors.ways}
        }
        for prefix, name in _ANSWERED.items():
            mine = {
                metric.removeprefix(prefix): count
                for metric, count in self._totals.items()
                if metric.startswith(prefix) and count
            }
            if mine:
                found[name] = mine
        return found

    def close(self) -> Iterable[Sample]:
        """Say what the ingress itself had to answer; nothing is held back."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        if self._view is not None and self._context is not None:
            self._events += self._at_the_end(self._context.clock.now_us())
        self._pool, self._view = None, None
        return ()

    def _at_the_end(self, now_us: int) -> Iterator[Event]:
        for reason, status, why, advice in MADE.values():
            count = self._totals[f"{MADE_PREFIX}{reason}"]
            if count:
                message = f"the ingress, not an instance, answered {count} requests with {status}: {why}"
                facts = json.dumps({"count": count, "status": status, "advice": advice})
                yield Event(now_us, self.name, f"ingress_answered_{reason}", "", message, facts)
        if not self._decided:
            message = "Knative's autoscaler published nothing about the revisions of this deployment"
            yield cluster.advised(Event(now_us, self.name, "nothing_seen", "", message), _NO_NUMBERS)


def _has_address(pod: Json) -> bool:
    return bool((pod.get("status") or {}).get("podIP"))


def _is_count(metric: str) -> bool:
    return metric.startswith(tuple(_ANSWERED))


def _add_rates(values: dict[str, float], took_s: float) -> None:
    """Requests per second of the ingress, and of the activators."""
    for prefix, rate in (
        ("ingress_answered_", "ingress_requests_per_s"),
        ("activator_answered_", "activator_requests_per_s"),
    ):
        counts = [value for name, value in values.items() if name.startswith(prefix)]
        if counts:
            values[rate] = sum(counts) / took_s
