"""The `metrics-server` source: CPU and memory of pods and nodes, as the cluster's metrics API tells them.

metrics-server asks the kubelets in a period of its own (15 s as a rule) and answers with what it saw last. A sample
is taken once, when its timestamp is a new one, and keeps that timestamp and the window that it is a mean over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from towtank.errors import PlatformError, TelemetryError
from towtank.platforms.kubernetes.client import ApiError, Json
from towtank.platforms.kubernetes.connection import Connection
from towtank.platforms.kubernetes.kinds import METRICS_API
from towtank.platforms.kubernetes.quantities import quantity
from towtank.platforms.kubernetes.view import ClusterView
from towtank.telemetry import cluster
from towtank.telemetry.base import Event, ObserveContext, Sample
from towtank.telemetry.options import MetricsOptions, read_options

_DURATION = re.compile(r"([0-9.]+)(h|ms|m|s|us|µs|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


class MetricsServerSource:
    """Samples the metrics API: `cpu_cores`, `memory_bytes`, `window_s` and `timestamp_unix_s` of pods and nodes."""

    name = "metrics-server"
    patience_s = 2 * cluster.ANSWER_WITHIN_S

    def __init__(self) -> None:
        self._view: ClusterView | None = None
        self._options = MetricsOptions()
        self._taken: dict[str, tuple[str, str]] = {}
        self._events: list[Event] = []
        self._pods_seen = 0
        self._context: ObserveContext | None = None

    def look_ahead_at(
        self, options: Mapping[str, Any], deployments: Sequence[Any], root: Path
    ) -> Sequence[str]:
        """Whether the cluster has a metrics API, and lets us read it."""
        read_options(self.name, MetricsOptions, options)
        return cluster.ask_clusters(deployments, root, self._missing)

    def _missing(self, connection: Connection, namespace: str | None) -> Iterator[str]:
        if connection.api.find(METRICS_API) is None:
            yield "the cluster has no metrics API: install metrics-server, or leave the source out"
            return
        yield from cluster.missing_rights(connection, self.name, namespace)

    def start(self, context: ObserveContext) -> None:
        """Take the first reading: what is there already is not new afterwards."""
        self._options = read_options(self.name, MetricsOptions, context.options)
        self._context = context
        self._view, self._taken, self._events, self._pods_seen = cluster.view_of(context), {}, [], 0
        if self._view is None:
            self._events.append(cluster.not_in_a_cluster(self.name, context))
            return
        try:
            for _ in self._new(self._view):
                pass
        except ApiError as error:
            if error.code != 404:
                raise cluster.cannot_be_read(self.name, error) from error
            raise TelemetryError(
                f"telemetry source {self.name!r}: the cluster of context {self._view.api.context!r} has no metrics API",
                hint="install metrics-server, or leave the source out",
            ) from error
        except PlatformError as error:
            raise cluster.cannot_be_read(self.name, error) from error

    def sample(self, t_us: int) -> Iterable[Sample]:
        """Read once; yields what has a timestamp that was not seen yet."""
        if self._view is None:
            return []
        found = []
        for instance, values in self._new(self._view):
            self._pods_seen += not instance.startswith(cluster.NODE)
            found += [Sample(t_us, self.name, instance, metric, value) for metric, value in values.items()]
        return found

    def events(self) -> Iterable[Event]:
        """What was noticed since the last call."""
        events, self._events = self._events, []
        return events

    def close(self) -> Iterable[Sample]:
        """Nothing is held back; that nothing was seen of any pod is said."""
        view, context, self._view = self._view, self._context, None
        if view is not None and context is not None and not self._pods_seen and view.pods:
            message = (
                f"the metrics API had nothing new about any of the {len(view.pods)} pods: it follows in periods of its "
                "own, 15 s as a rule, and needs two of them for a new pod"
            )
            event = Event(context.clock.now_us(), self.name, "nothing_seen", "", message)
            self._events.append(
                cluster.advised(event, "Observe with `kubelet`, or let runs last a minute or more.")
            )
        return ()

    def _new(self, view: ClusterView) -> Iterator[tuple[str, dict[str, float]]]:
        """Instances with a new sample, and its values."""
        pods = self._list(view, f"/namespaces/{view.namespace}/pods", labelSelector=view.selector)
        ours = {str(pod["metadata"]["name"]) for pod in view.pods}
        for one in pods:
            name = str(one["metadata"]["name"])
            if name in ours and self._is_new(name, one):
                yield name, _values(one, [part.get("usage") or {} for part in one.get("containers") or []])
        wanted = set(view.used_nodes)
        for one in self._list(view, "/nodes"):
            name = str(one["metadata"]["name"])
            if (self._options.nodes == "all" or name in wanted) and self._is_new(cluster.NODE + name, one):
                yield cluster.NODE + name, _values(one, [one.get("usage") or {}])

    def _list(self, view: ClusterView, path: str, **params: str) -> list[Json]:
        answer = view.api.glance(METRICS_API + path, timeout_s=cluster.ANSWER_WITHIN_S, **params)
        try:
            return list(json.loads(answer).get("items") or [])
        except (ValueError, AttributeError) as error:
            raise TelemetryError(
                f"the metrics API answered something that is no list: {answer[:80]!r}"
            ) from error

    def _is_new(self, instance: str, one: Json) -> bool:
        taken = str(one.get("timestamp")), str(one.get("window"))
        if self._taken.get(instance) == taken:
            return False
        self._taken[instance] = taken
        return True


def _values(one: Json, usages: Sequence[Json]) -> dict[str, float]:
    return {
        "cpu_cores": sum(quantity(usage.get("cpu", 0)) for usage in usages),
        "memory_bytes": sum(quantity(usage.get("memory", 0)) for usage in usages),
        "window_s": duration_s(str(one.get("window") or "")),
        "timestamp_unix_s": datetime.fromisoformat(str(one.get("timestamp"))).timestamp(),
    }


def duration_s(text: str) -> float:
    """Read a duration as Go writes it, such as 1m0.5s."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(text))
