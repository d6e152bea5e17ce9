"""Nodes that come and go: added, ready, not ready, removed, at the instants at which it was told."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.watching import Change

NodeStepName = Literal["added", "ready", "unready", "removed"]
MOST_STEPS = 10_000
TYPE_LABEL = "node.kubernetes.io/instance-type"
ZONE_LABEL = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class NodeStep:
    """A step of a node's life: when the message of it came (CLOCK_MONOTONIC), and the cluster's own time.

    `object_time` is empty where the cluster does not say it, `machine` (the type of its machine) where nobody labels
    it.
    """

    t_ns: int
    node: str
    name: NodeStepName
    object_time: str = ""
    machine: str = ""


class NodeJournal:
    """Collects steps of all nodes of a cluster; told by the thread of a watch, asked from any.

    Nodes that are there when it is opened are no news.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = False
        self._steps: list[NodeStep] = []
        self._left_out = 0

    def open(self) -> None:
        """From now on nodes are told of."""
        with self._lock:
            self._open = True

    def steps_from(self, begin: int) -> list[NodeStep]:
        """Steps from the n-th on, in the order in which they were seen."""
        with self._lock:
            return self._steps[begin:]

    @property
    def left_out(self) -> int:
        """Steps that were seen and not kept, for there were more than `MOST_STEPS`."""
        with self._lock:
            return self._left_out

    def on_node(self, change: Change, node: Json, before: Json | None, t_ns: int) -> None:
        """A node has changed."""
        for name, at in _new_steps(change, node, before):
            self._keep(NodeStep(t_ns, str(node["metadata"]["name"]), name, at, machine_of(node)))

    def _keep(self, step: NodeStep) -> None:
        with self._lock:
            if not self._open:
                return
            if len(self._steps) < MOST_STEPS:
                self._steps.append(step)
            else:
                self._left_out += 1


def machine_of(node: Json) -> str:
    """Type of a node's machine; empty where it is not labelled."""
    return str((node["metadata"].get("labels") or {}).get(TYPE_LABEL) or "")


def is_ready(node: Json | None) -> bool:
    """Whether a node is Ready."""
    return node is not None and pods.holds(node, "Ready")


def _new_steps(change: Change, node: Json, before: Json | None) -> list[tuple[NodeStepName, str]]:
    """Steps that a node has made since it was last seen, with its own times; a removed one says none."""
    if change == "DELETED":
        return [("removed", "")]
    found: list[tuple[NodeStepName, str]] = []
    if before is None:
        found.append(("added", str(node["metadata"].get("creationTimestamp") or "")))
    if is_ready(node) != is_ready(before):
        at = str(pods.condition(node, "Ready").get("lastTransitionTime") or "")
        found.append(("ready" if is_ready(node) else "unready", at))
    return found
