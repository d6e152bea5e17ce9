"""The `kubernetes` source: how many pods are wanted, there and ready, nodes, autoscalers, and lives of pods and nodes.

All of it is known from watches: a reading asks nobody. Events have the instant at which their message came; counts are
those of the reading.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from towtank.errors import TelemetryError
from towtank.platforms.kubernetes import census
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.connection import Connection
from towtank.platforms.kubernetes.node_journal import is_ready
from towtank.platforms.kubernetes.quantities import quantity
from towtank.platforms.kubernetes.view import ClusterView
from towtank.platforms.kubernetes.watching import Change, Watcher
from towtank.platforms.kubernetes.workloads import replicas
from towtank.telemetry import cluster
from towtank.telemetry.base import Event, ObserveContext, Sample
from towtank.telemetry.node_life import NodeLives
from towtank.telemetry.options import WatchOptions, read_options
from towtank.telemetry.pod_life import PodLives

COUNTED = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
"""Kinds that say how many pods they want."""
_BLIND_ADVICE = (
    "Let the cluster expose the metric: metrics-server for CPU and memory (shares of them need `resources.requests` of "
    "every container), an adapter for others. Just after a start it passes by itself: settle longer."
)
_TOTAL = ""
"""Instance of what is said of the whole deployment."""


class KubernetesSource:
    """Counts pods by workload, and nodes; says what autoscalers see and want; tells lives of both as events."""

    name = "kubernetes"

    def __init__(self) -> None:
        self._view: ClusterView | None = None
        self._context: ObserveContext | None = None
        self._wanted: list[tuple[str, Watcher]] = []
        self._lives: PodLives | None = None
        self._nodes: NodeLives | None = None
        self._scaled: deque[tuple[int, str, int, int]] = deque()
        self._events: list[Event] = []
        self._autoscalers: dict[str, Json] = {}
        self._blind: dict[str, str] = {}

    def look_ahead_at(
        self, options: Mapping[str, Any], deployments: Sequence[Any], root: Path
    ) -> Sequence[str]:
        """Whether workloads may be watched; what the platform itself needs, it says."""
        read_options(self.name, WatchOptions, options)
        return cluster.ask_clusters(deployments, root, self._missing)

    def _missing(self, connection: Connection, namespace: str | None) -> list[str]:
        return cluster.missing_rights(connection, self.name, namespace)

    def start(self, context: ObserveContext) -> None:
        """Begin to watch the workloads; pods, nodes and autoscalers are watched by the deployment itself."""
        read_options(self.name, WatchOptions, context.options)
        self.close()
        self._context, self._view, self._events = context, cluster.view_of(context), []
        self._autoscalers, self._blind = {}, {}
        self._scaled.clear()
        view = self._view
        if view is None:
            self._lives = self._nodes = None
            self._events.append(cluster.not_in_a_cluster(self.name, context))
            return
        self._lives = PodLives(view, context.clock, self.name)
        self._nodes = NodeLives(view, context.clock, self.name)
        kinds = {one.owned.kind: one.owned.of for one in view.workloads if one.owned.kind in COUNTED}
        for kind, of in kinds.items():
            self._wanted.append((kind, view.watch(of, partial(self._on_workload, kind))))
        unseen = {kind: watcher.denied for kind, watcher in self._wanted if watcher.denied}
        unseen |= {
            name: view.watchers[name].denied
            for name in ("nodes", "autoscalers")
            if view.watchers[name].denied
        }
        for name, why in unseen.items():
            event = Event(
                context.clock.now_us(), self.name, "not_observable", name, f"{name} may not be watched: {why}"
            )
            self._events.append(
                cluster.advised(event, "Grant the right: docs/kubernetes.md has the manifest.")
            )

    def _on_workload(self, kind: str, change: Change, thing: Json, before: Json | None, t_ns: int) -> None:
        """From the thread of a watch: other numbers of pods are wanted."""
        if before is None or change == "DELETED":
            return
        was, now = replicas(before)[0], replicas(thing)[0]
        if was != now:
            self._scaled.append((t_ns, f"{kind}/{thing['metadata']['name']}", was, now))

    def sample(self, t_us: int) -> Iterable[Sample]:
        """What is known now.

        Raises
        ------
        TelemetryError
            The API server is not heard: what was known is not true any more.
        """
        view = self._view
        if view is None:
            return []
        if words := view.unheard():
            raise TelemetryError(words)
        found = dict(_pods(view.census.by_workload()))
        for kind, watcher in self._wanted:
            if watcher.denied:
                continue
            for thing in watcher.things:
                of_one = found.setdefault(f"{kind}/{thing['metadata']['name']}", _counts(Counter()))
                of_one["replicas_desired"] = replicas(thing)[0]
        if all(not watcher.denied for _, watcher in self._wanted):
            desired = sum(values.get("replicas_desired", 0) for values in found.values())
            found[_TOTAL]["replicas_desired"] = desired
        found[_TOTAL] |= _nodes(view)
        for autoscaler in view.autoscalers:
            self._look_whether_it_sees(autoscaler, t_us)
            for name, values in _autoscaler(autoscaler):
                found.setdefault(name, {}).update(values)
        counted = [
            Sample(t_us, self.name, instance, metric, float(value))
            for instance, values in found.items()
            for metric, value in values.items()
        ]
        return counted if self._nodes is None else [*counted, *self._nodes.sizes(t_us)]

    def _look_whether_it_sees(self, autoscaler: Json, t_us: int) -> None:
        """Tell once that an autoscaler cannot read its metrics, in its own words, and once that it can again."""
        name = f"HorizontalPodAutoscaler/{autoscaler['metadata']['name']}"
        why = _blind(autoscaler)
        if bool(why) == bool(self._blind.get(name)):
            return
        self._blind[name] = why
        if not why:
            self._events.append(
                Event(t_us, self.name, "autoscaler_sees", name, f"{name} reads its metrics again")
            )
            return
        event = Event(t_us, self.name, "autoscaler_blind", name, f"{name} cannot scale: {why}")
        self._events.append(cluster.advised(event, _BLIND_ADVICE))

    def events(self) -> Iterable[Event]:
        """What was noticed since the last call."""
        events, self._events = self._events, []
        if self._lives is not None and self._nodes is not None:
            events += self._lives.events()
            events += self._nodes.events()
        while self._scaled and self._context is not None:
            t_ns, name, was, now = self._scaled.popleft()
            detail = json.dumps({"from": was, "to": now})
            words = f"{name} is to have {now} pods, before {was}"
            events.append(Event(self._context.clock.at_us(t_ns), self.name, "scaled", name, words, detail))
        return events

    def facts(self) -> Mapping[str, Any]:
        """Of which type the machines of the nodes are, and what autoscalers go by; see `base.StatesFacts`."""
        machines = {} if self._nodes is None else self._nodes.facts()
        return {**machines, **({"autoscalers": self._autoscalers} if self._autoscalers else {})}

    def close(self) -> Iterable[Sample]:
        """End the watches of workloads; what autoscalers go by is kept for what they should have done."""
        if self._view is not None:
            self._autoscalers = {
                str(one["metadata"]["name"]): one.get("spec") or {} for one in self._view.autoscalers
            }
        for _, watcher in self._wanted:
            watcher.close()
        self._wanted, self._view = [], None
        return ()


def _pods(by_workload: Mapping[str, Counter[str]]) -> Iterator[tuple[str, dict[str, float]]]:
    """Numbers of pods, of the whole deployment and of each workload."""
    yield _TOTAL, _counts(sum(by_workload.values(), Counter()))
    for workload, tally in by_workload.items():
        yield workload, _counts(tally)


def _counts(tally: Counter[str]) -> dict[str, float]:
    """`current` is what counts for a controller: pods that nobody has deleted."""
    return {
        "replicas_current": tally[census.READY] + tally[census.PENDING],
        "replicas_ready": tally[census.READY],
        "replicas_pending": tally[census.PENDING],
        "replicas_unscheduled": tally[census.UNSCHEDULED],
        "replicas_terminating": tally[census.TERMINATING],
        "cpu_requested_cores": tally[census.MILLICORES] / 1000,
        "memory_requested_bytes": tally[census.MEMORY_BYTES],
    }


def _nodes(view: ClusterView) -> dict[str, float]:
    nodes = view.nodes
    if nodes is None:
        return {}
    return {
        "nodes": len(nodes),
        "nodes_ready": sum(map(is_ready, nodes)),
        "nodes_used": len(view.census.nodes),
    }


def _autoscaler(thing: Json) -> Iterator[tuple[str, dict[str, float]]]:
    """What an autoscaler wants, and each metric that it sees beside its target."""
    name = f"HorizontalPodAutoscaler/{thing['metadata']['name']}"
    spec, status = thing.get("spec") or {}, thing.get("status") or {}
    counts = {
        # 0 is what it says before it has decided anything; only one that may scale to nothing means it.
        "replicas_desired": status.get("desiredReplicas") or (0 if spec.get("minReplicas") == 0 else None),
        "replicas_current": status.get("currentReplicas"),
        "replicas_least": spec.get("minReplicas"),
        "replicas_most": spec.get("maxReplicas"),
    }
    yield name, {metric: value for metric, value in counts.items() if value is not None}
    for prefix, side, found in (
        ("seen", "current", status.get("currentMetrics") or []),
        ("target", "target", spec.get("metrics") or []),
    ):
        for one in found:
            for metric, value in _measured(one, side, prefix):
                yield f"{name}/{metric}", value


def _blind(autoscaler: Json) -> str:
    """Why an autoscaler cannot compute how many it wants, as it says itself; empty where it can, or says nothing."""
    for one in (autoscaler.get("status") or {}).get("conditions") or ():
        # Of nothing that is scaled to zero on purpose there is nothing to see.
        if one.get("type") == "ScalingActive" and one.get("status") == "False":
            reason = str(one.get("reason"))
            return "" if reason == "ScalingDisabled" else f"{reason}: {one.get('message')}"
    return ""


def _measured(one: Json | None, side: str, prefix: str) -> Iterator[tuple[str, dict[str, float]]]:
    """A metric of an autoscaler: its name and its value; what it does not know yet yields nothing."""
    for kind in ("resource", "containerResource", "pods", "object", "external"):
        about = (one or {}).get(kind)
        if not about:
            continue
        metric = str(about.get("name") or (about.get("metric") or {}).get("name"))
        values = about.get(side) or {}
        if values.get("averageUtilization") is not None:
            yield metric, {f"{prefix}_ratio": float(values["averageUtilization"]) / 100}
        elif values.get("averageValue") is not None or values.get("value") is not None:
            yield metric, {f"{prefix}_value": quantity(values.get("averageValue") or values.get("value"))}
