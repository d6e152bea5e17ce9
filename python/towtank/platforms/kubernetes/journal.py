"""What happens to pods and nodes of a deployment, as it is seen: steps of every pod's life, and the system's failures.

Instants are those at which the message came, on CLOCK_MONOTONIC; an object's own times have a resolution of a second
and stand beside them as a check. Scaling up and down is no failure; containers that end, evictions and lost nodes are.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Literal

from towtank.platforms.base import SystemEvent
from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.watching import Change
from towtank.platforms.kubernetes.workloads import workload_of

StepName = Literal[
    "created", "scheduled", "pulling", "pulled", "started", "ready", "unready", "terminating", "gone"
]
MOST_STEPS = 100_000
"""5,000 pods, twenty steps each; more is counted and not kept."""
_MOST_WAITING = 2_000
"""Pulls of pods that were not seen yet. Those of foreign pods wait, too, until later ones push them out; a pod of the
deployment itself is seen within milliseconds of them."""
_PULL_REASONS: dict[str, StepName] = {"Pulling": "pulling", "Pulled": "pulled"}


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a pod's life: when the message of it came, and the object's own time.

    The pod's node and what brought it (``Kind/name``) are empty where the message does not say them. Its uid tells it
    from an earlier pod of the same name, as those of a StatefulSet have it.
    """

    t_ns: int
    pod: str
    name: StepName
    object_time: str = ""
    detail: str = ""
    node: str = ""
    workload: str = ""
    uid: str = ""


class Journal:
    """Collects; called from the threads of watches, asked from any.

    Nothing counts as a failure before `arm` is called: until then the deployment is only coming up.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: list[Step] = []
        self._left_out = 0
        self._seen: set[str] = set()
        self._waiting: deque[Step] = deque(maxlen=_MOST_WAITING)
        self._events: list[SystemEvent] = []
        self._known: set[tuple[str, str]] = set()
        self._armed = False
        self._owners: dict[str, set[str]] = {}

    def arm(self) -> None:
        """From now on what ends is a failure; what ended before is known."""
        with self._lock:
            self._armed = True
            self._events.clear()

    def disarm(self) -> None:
        """The deployment is being removed: what ends now is meant to."""
        with self._lock:
            self._armed = False

    @property
    def events(self) -> list[SystemEvent]:
        """Failures, oldest first."""
        with self._lock:
            return sorted(self._events, key=lambda event: event.t_ns)

    @property
    def steps(self) -> list[Step]:
        """Steps of all pods, in the order in which they were seen."""
        return self.steps_from(0)

    def steps_from(self, begin: int) -> list[Step]:
        """Steps from the n-th on."""
        with self._lock:
            return self._steps[begin:]

    @property
    def left_out(self) -> int:
        """Steps that were seen and not kept."""
        with self._lock:
            return self._left_out

    # --- what watches tell ---------------------------------------------------------------------------------------

    def on_pod(self, change: Change, pod: Json, before: Json | None, t_ns: int) -> None:
        """A pod has changed."""
        name, uid = str(pod["metadata"]["name"]), str(pod["metadata"]["uid"])
        with self._lock:
            self._count(change, pod)
            node, workload = str((pod.get("spec") or {}).get("nodeName") or ""), workload_of(pod)
            for step, at in _new_steps(pod, before):
                self._keep(Step(t_ns, name, step, at, node=node, workload=workload, uid=uid))
            if change == "DELETED":
                self._keep(Step(t_ns, name, "gone", node=node, workload=workload, uid=uid))
            self._keep_waiting(uid)
            self._note_endings(pod, name, t_ns)
            self._note_eviction(pod, name, t_ns)
            self._note_unready(pod, before, name, t_ns)

    def on_node(self, change: Change, node: Json, before: Json | None, t_ns: int) -> None:
        """A node has changed."""
        name = str(node["metadata"]["name"])
        was = before is None or pods.holds(before, "Ready")
        ready = pods.condition(node, "Ready")
        lost = change == "DELETED" or ready.get("status") != "True"
        if was and lost:
            why = (
                "it was removed" if change == "DELETED" else str(ready.get("message") or ready.get("reason"))
            )
            with self._lock:
                self._fail(t_ns, "node_not_ready", name, f"node {name} is not ready: {why}", {"node": name})

    def on_event(self, change: Change, event: Json, _before: Json | None, t_ns: int) -> None:
        """The cluster says something about a pod: pulling an image is seen only here."""
        about = event.get("involvedObject") or {}
        step = _PULL_REASONS.get(str(event.get("reason")))
        if step is None or about.get("kind") != "Pod" or change == "DELETED":
            return
        at = str(event.get("lastTimestamp") or event.get("eventTime") or "")
        uid = str(about.get("uid") or "")
        pull = Step(t_ns, str(about.get("name")), step, at, str(event.get("message") or ""), uid=uid)
        with self._lock:
            if uid in self._seen:
                self._keep(pull)
            else:  # pulls are told of every pod of the namespace; whose it is comes with another watch
                self._waiting.append(pull)

    # --- with the lock held ----------------------------------------------------------------------------------------

    def _count(self, change: Change, pod: Json) -> None:
        """Keep who belongs together, so that a failure can be told as a share."""
        siblings = self._owners.setdefault(_owner(pod), set())
        if change == "DELETED" or pods.is_done(pod):
            siblings.discard(str(pod["metadata"]["uid"]))
        else:
            siblings.add(str(pod["metadata"]["uid"]))

    def _keep_waiting(self, uid: str) -> None:
        """Keep what was told of a pod before it was seen."""
        if uid in self._seen:
            return
        self._seen.add(uid)
        for step in [step for step in self._waiting if step.uid == uid]:
            self._waiting.remove(step)
            self._keep(step)

    def _keep(self, step: Step) -> None:
        if len(self._steps) < MOST_STEPS:
            self._steps.append(step)
        else:
            self._left_out += 1

    def _fail(self, t_ns: int, kind: str, instance: str, message: str, detail: dict[str, object]) -> None:
        if self._armed:
            self._events.append(SystemEvent(t_ns, kind, instance, message, detail))

    def _note_endings(self, pod: Json, name: str, t_ns: int) -> None:
        never = (pod.get("spec") or {}).get("restartPolicy") == "Never"
        for ended in pods.endings(pod):
            key = (str(pod["metadata"]["uid"]), ended.container_id)
            if not ended.container_id or key in self._known:
                continue
            self._known.add(key)
            if ended.reason == "OOMKilled":
                kind = "oom_killed"
            elif pods.is_leaving(pod) or ended.as_meant or (never and ended.exit_code == 0):
                continue
            else:
                kind = "crashed" if never else "restarted"
            detail: dict[str, object] = {
                "container": ended.container, "exit_code": ended.exit_code, "reason": ended.reason,
                "node": (pod.get("spec") or {}).get("nodeName"), "of": max(1, len(self._owners.get(_owner(pod), ()))),
            }  # fmt: skip
            self._fail(t_ns, kind, name, f"container {ended.container} ended: {ended.how}", detail)

    def _note_eviction(self, pod: Json, name: str, t_ns: int) -> None:
        status = pod.get("status") or {}
        target = pods.condition(pod, "DisruptionTarget")
        if status.get("reason") != "Evicted" and target.get("status") != "True":
            return
        key = (str(pod["metadata"]["uid"]), "evicted")
        if key in self._known:
            return
        self._known.add(key)
        why = str(status.get("message") or target.get("message") or target.get("reason") or "no reason given")
        self._fail(
            t_ns, "evicted", name, f"it was evicted: {why}", {"node": (pod.get("spec") or {}).get("nodeName")}
        )

    def _note_unready(self, pod: Json, before: Json | None, name: str, t_ns: int) -> None:
        if before is None or not pods.is_ready(before) or pods.is_ready(pod) or pods.is_leaving(pod):
            return
        if pods.is_done(pod) or not all(
            (one.get("state") or {}).get("running") for one in pods.main_containers(pod)
        ):
            return  # a container has ended: that says it
        if pods.restarts(pod) > pods.restarts(before):
            return
        why = str(pods.condition(pod, "Ready").get("message") or "its readiness probe fails")
        self._fail(t_ns, "unready", name, f"it was ready and is no more: {why}", {})


def _owner(pod: Json) -> str:
    owners = pod["metadata"].get("ownerReferences") or []
    return str(owners[0].get("uid")) if owners else str(pod["metadata"]["uid"])


def _new_steps(pod: Json, before: Json | None) -> list[tuple[StepName, str]]:
    """Steps that a pod has made since it was last seen, with its own times."""
    found: list[tuple[StepName, str]] = []
    if before is None:
        found.append(("created", str(pod["metadata"].get("creationTimestamp") or "")))
    if _is(pod, "PodScheduled") and not _is(before, "PodScheduled"):
        found.append(("scheduled", _since(pod, "PodScheduled")))
    if _started(pod) > _started(before):
        found.append(("started", max(_start_times(pod), default="")))
    if pods.is_ready(pod) and not (before is not None and pods.is_ready(before)):
        found.append(("ready", _since(pod, "Ready")))
    elif before is not None and pods.is_ready(before) and not pods.is_ready(pod) and not pods.is_leaving(pod):
        found.append(("unready", _since(pod, "Ready")))
    if pods.is_leaving(pod) and not (before is not None and pods.is_leaving(before)):
        found.append(("terminating", str(pod["metadata"]["deletionTimestamp"])))
    return found


def _is(pod: Json | None, name: str) -> bool:
    return pod is not None and pods.holds(pod, name)


def _since(pod: Json, name: str) -> str:
    return str(pods.condition(pod, name).get("lastTransitionTime") or "")


def _start_times(pod: Json | None) -> list[str]:
    if pod is None:
        return []
    running = [(one.get("state") or {}).get("running") for one in pods.main_containers(pod)]
    return [str(one.get("startedAt") or "") for one in running if one]


def _started(pod: Json | None) -> int:
    return len(_start_times(pod))
