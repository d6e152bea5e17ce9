"""Nodes of a cluster as a run sees them: when they came and went, how large they are, and of which type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from towtank.clock import RunClock
from towtank.platforms.kubernetes.node_journal import MOST_STEPS, NodeStep, machine_of
from towtank.platforms.kubernetes.quantities import quantity
from towtank.platforms.kubernetes.view import ClusterView
from towtank.telemetry.base import Event, Sample
from towtank.telemetry.cluster import NODE, advised

MOST_FACTS = 1_000
"""Nodes whose type is kept in run.json; more are counted."""
_SIZES = {"cpu": "cpu_allocatable_cores", "memory": "memory_allocatable_bytes"}
_WORDS = {
    "added": "the node was added", "ready": "the node is Ready", "unready": "the node is not Ready",
    "removed": "the node was removed",
}  # fmt: skip


class NodeLives:
    """Tells steps of nodes as events, once each, and the size of each node once.

    A run tells everything since its deployment was created: nodes that an earlier run of it has brought may go before
    this one's load begins, and then they do so at negative times.

    Parameters
    ----------
    view : ClusterView
    clock : RunClock
    source : str
        Name of the source that tells it.
    """

    def __init__(self, view: ClusterView, clock: RunClock, source: str) -> None:
        self._view = view
        self._clock = clock
        self._source = source
        self._taken = 0
        self._machines: dict[str, str] = {}
        self._incomplete = False

    def events(self) -> list[Event]:
        """Steps since the last call; and once, that there were more than are kept."""
        steps = self._view.nodes_seen.steps_from(self._taken)
        self._taken += len(steps)
        found = [self._event(step) for step in steps]
        if self._view.nodes_seen.left_out and not self._incomplete:
            self._incomplete = True
            message = f"nodes came and went more than {MOST_STEPS:,} times: later ones are not told"
            event = Event(self._clock.now_us(), self._source, "node_steps_left_out", "", message)
            found.append(advised(event, "Let a deployment serve fewer runs, with `deploy: per-run`."))
        return found

    def sizes(self, t_us: int) -> Iterator[Sample]:
        """What pods may request of each node that was not told of yet."""
        for node in self._view.nodes or ():
            name = str(node["metadata"]["name"])
            offered = (node.get("status") or {}).get("allocatable") or {}
            if name in self._machines or not offered:
                continue
            self._machines[name] = machine_of(node)
            for resource, metric in _SIZES.items():
                if resource in offered:
                    yield Sample(t_us, self._source, f"{NODE}{name}", metric, quantity(offered[resource]))

    def facts(self) -> Mapping[str, Any]:
        """Types of the machines of all nodes that were there, by node; empty where they are not labelled."""
        shown = dict(list(self._machines.items())[:MOST_FACTS])
        more = len(self._machines) - len(shown)
        return {"machines": shown, **({"machines_left_out": more} if more else {})}

    def _event(self, step: NodeStep) -> Event:
        detail = {"object_time": step.object_time, "machine": step.machine}
        return Event(
            self._clock.at_us(step.t_ns), self._source, f"node_{step.name}", f"{NODE}{step.node}", _WORDS[step.name],
            json.dumps({key: value for key, value in detail.items() if value}),
        )  # fmt: skip
