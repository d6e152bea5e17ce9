"""Lives of pods as events of a run: each step at the instant at which its message came."""

from __future__ import annotations

import json

from towtank.clock import RunClock
from towtank.platforms.kubernetes.journal import MOST_STEPS, Step
from towtank.platforms.kubernetes.view import ClusterView
from towtank.telemetry.base import Event
from towtank.telemetry.cluster import advised

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
        self._gone_before = frozenset(step.uid for step in view.steps() if step.name == "gone")
        self._workloads: dict[str, str] = {}
        self._incomplete = False

    def events(self) -> list[Event]:
        """Steps since the last call; and once, that there were more than are kept."""
        steps = self._view.steps(self._taken)
        self._taken += len(steps)
        found = [self._event(step) for step in steps if step.uid not in self._gone_before]
        if self._view.steps_left_out and not self._incomplete:
            self._incomplete = True
            found.append(self._not_kept())
        return found

    def _event(self, step: Step) -> Event:
        if step.workload:
            self._workloads[step.uid] = step.workload
        workload = self._workloads.get(step.uid, "")
        facts = {
            "workload": workload,
            "node": step.node,
            "object_time": step.object_time,
            "said": step.detail,
            "uid": step.uid,
        }
        return Event(
            self._clock.at_us(step.t_ns), self._source, f"pod_{step.name}", step.pod,
            _WORDS[step.name].format(workload=workload, node=step.node or "a node"),
            json.dumps({key: value for key, value in facts.items() if value}),
        )  # fmt: skip

    def _not_kept(self) -> Event:
        message = (
            f"pods of this deployment have made more than {MOST_STEPS:,} steps since it was created: later ones are "
            "not told, and how long new pods took is known of a part of them"
        )
        event = Event(self._clock.now_us(), self._source, "pod_steps_left_out", "", message)
        return advised(event, "Let a deployment serve fewer runs, with `deploy: per-run`.")
