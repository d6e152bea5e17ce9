"""Starts and ends of containers, as agents saw them: joined to pods by uid and id, checked against object times."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from towtank.clock import RunClock
from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.workloads import workload_of
from towtank.telemetry.base import Event
from towtank.telemetry.cluster import NODE, advised

_MOST_WAITING = 10_000
"""Of pods that are not known; most are of others."""
_OBJECT_TIME_S = 1.0
"""Resolution of an object's own time."""
_WORDS = {"started": "container {name} started", "ended": "container {name} ended"}


class Seen(NamedTuple):
    """A change that an agent saw: when, on our clock, and how well that is known."""

    t_ns: int
    uncertainty_ns: int
    node: str
    what: str
    uid: str
    container: str


@dataclass(frozen=True)
class _Known:
    """A container of a pod of ours."""

    pod: str
    workload: str
    node: str
    name: str
    started_at: str
    init: bool


class Containers:
    """Turns what agents saw into events of pods, once each.

    A container's id stands in its pod's status about a second after it started: what is not known yet waits. Sandboxes,
    and containers of pods that are not of the deployment, are never known.

    Parameters
    ----------
    clock : RunClock
    source : str
    """

    def __init__(self, clock: RunClock, source: str) -> None:
        self._clock = clock
        self._source = source
        self._waiting: deque[Seen] = deque(maxlen=_MOST_WAITING)
        self._known: dict[str, _Known] = {}
        self._differ = False

    def saw(self, seen: Seen) -> None:
        """An agent saw a change."""
        self._waiting.append(seen)

    def events(self, living: Iterable[Json]) -> list[Event]:
        """Changes that can be told by now.

        Parameters
        ----------
        living : iterable of Json
            Pods of the deployment, as they are now.
        """
        for pod in living:
            self._known.update(_containers(pod))
        found: list[Event] = []
        waiting, self._waiting = self._waiting, deque(maxlen=_MOST_WAITING)
        for seen in waiting:
            known = self._known.get(seen.container)
            # Nodes of one machine see each other's groups.
            if known is not None and known.node == seen.node:
                found += self._told(seen, known)
            else:
                self._waiting.append(seen)
        return found

    def _told(self, seen: Seen, known: _Known) -> Iterator[Event]:
        object_time = known.started_at if seen.what == "started" else ""
        facts = {
            "workload": known.workload, "node": seen.node, "object_time": object_time, "uid": seen.uid,
            "container": known.name, "container_id": seen.container, "init": known.init,
            "uncertainty_us": seen.uncertainty_ns // 1000,
        }  # fmt: skip
        yield Event(
            self._clock.at_us(seen.t_ns), self._source, f"pod_container_{seen.what}", known.pod,
            _WORDS[seen.what].format(name=known.name),
            json.dumps({key: value for key, value in facts.items() if value not in ("", False)}),
        )  # fmt: skip
        off_s = _off_s(seen, object_time)
        if off_s and not self._differ:
            self._differ = True
            message = (
                f"container {known.name} of pod {known.pod} started {abs(off_s):.1f} s "
                f"{'after' if off_s > 0 else 'before'} the time that its own object says ({object_time})"
            )
            event = Event(
                self._clock.at_us(seen.t_ns),
                self._source,
                "container_times_differ",
                NODE + seen.node,
                message,
            )
            yield advised(
                event, "Are the clocks of this machine and of the node set by the same time servers?"
            )


def _off_s(seen: Seen, object_time: str) -> float:
    """By how much an instant lies outside of the second that the object names, ± a second; 0 within."""
    if not object_time:
        return 0.0
    try:
        said_s = datetime.fromisoformat(object_time).timestamp()
    except ValueError:
        return 0.0
    wall_s = (time.time_ns() - time.monotonic_ns() + seen.t_ns) / 1e9
    slack_s = _OBJECT_TIME_S + seen.uncertainty_ns / 1e9
    if wall_s < said_s - slack_s:
        return wall_s - said_s
    late_s = wall_s - said_s - _OBJECT_TIME_S
    return late_s if late_s > slack_s else 0.0


def _containers(pod: Json) -> dict[str, _Known]:
    """Containers of a pod by their id, those that have ended among them."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    found: dict[str, _Known] = {}
    main = pods.main_containers(pod)
    for one in pods.containers(pod):
        state, before = one.get("state") or {}, one.get("lastState") or {}
        now = {
            "containerID": one.get("containerID"),
            **(state.get("running") or state.get("terminated") or {}),
        }
        for about in (now, before.get("terminated") or {}):
            plain = str(about.get("containerID") or "").rpartition("//")[2]
            if plain:
                found.setdefault(
                    plain,
                    _Known(
                        str(metadata["name"]), workload_of(pod), str(spec.get("nodeName") or ""),
                        str(one.get("name")), str(about.get("startedAt") or ""), one not in main,
                    ),
                )  # fmt: skip
    return found
