"""Lives of pods as events of a run: each step at the instant at which its message came."""

from __future__ import annotations

import json

from towtank.clock import RunClock
from towtank.platforms.kubernetes.journal import Step
from towtank.platforms.kubernetes.view import ClusterView
from towtank.telemetry.base import Event

_WORDS = {
    "created": "created for {workload}", "scheduled": "scheduled on {node}", "pulling": "pulls an image",
    "pulled": "has its image", "started": "a container of it started", "ready": "ready", "unready": "not ready",
    "terminating": "is ended", "gone": "gone",
}  # fmt: skip


class PodLives:
    """Turns steps that were seen into events, once each.

    Every run tells the whole life of the pods that it has, also of those that an earlier run of the same deployment
    began with: then their first steps lie before the load. Pods that were gone before are no part of it.

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
        self._gone_before = frozenset(step.pod for step in view.steps() if step.name == "gone")
        self._workloads: dict[str, str] = {}
        self._early: list[Step] = []

    def events(self) -> list[Event]:
        """Steps since the last call."""
        steps = self._view.steps(self._taken)
        self._taken += len(steps)
        for step in steps:
            if step.workload:
                self._workloads[step.pod] = step.workload
        waiting, self._early = [*self._early, *steps], []
        found = []
        for step in waiting:
            if step.pod in self._gone_before:
                continue
            if step.pod in self._workloads:
                found.append(self._event(step))
            else:  # pulls are told of every pod of the namespace; whose it is comes with another watch
                self._early.append(step)
        return found

    def _event(self, step: Step) -> Event:
        workload = self._workloads[step.pod]
        facts = {
            "workload": workload,
            "node": step.node,
            "object_time": step.object_time,
            "said": step.detail,
        }
        return Event(
            self._clock.at_us(step.t_ns), self._source, f"pod_{step.name}", step.pod,
            _WORDS[step.name].format(workload=workload, node=step.node or "a node"),
            json.dumps({key: value for key, value in facts.items() if value}),
        )  # fmt: skip
