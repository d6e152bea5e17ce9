"""How many pods there are in which state, what they request, and on which nodes: counted with each message of a watch.

A look at it costs the same for five pods and for five thousand.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.quantities import quantity
from towtank.platforms.kubernetes.watching import Change
from towtank.platforms.kubernetes.workloads import workload_of

READY, PENDING, TERMINATING, UNSCHEDULED = "ready", "pending", "terminating", "unscheduled"
MILLICORES, MEMORY_BYTES = "millicores", "memory_bytes"
"""What pods on nodes request; whole numbers, so that nothing is left when all of them are gone."""


class Census:
    """Counts pods by workload; told by the thread of a watch, asked from any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies: dict[str, Counter[str]] = {}
        self._placed: Counter[str] = Counter()

    def on_pod(self, change: Change, pod: Json, before: Json | None, _t_ns: int) -> None:
        """A pod has changed: what it was counts no more."""
        with self._lock:
            if before is not None:
                self._count(before, -1)
            if change != "DELETED":
                self._count(pod, 1)

    def by_workload(self) -> Mapping[str, Counter[str]]:
        """Of each workload with pods: how many are in each state, and what those on nodes request together.

        `ready`, `pending` and `terminating` are all that have not run to their end; `unscheduled` are those of the
        pending ones that no node has taken.
        """
        with self._lock:
            return {name: Counter(tally) for name, tally in self._tallies.items()}

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes with pods, by name."""
        with self._lock:
            return frozenset(self._placed)

    def is_on(self, node: str) -> bool:
        """Whether there are pods on a node."""
        with self._lock:
            return node in self._placed

    def _count(self, pod: Json, by: int) -> None:
        node = str((pod.get("spec") or {}).get("nodeName") or "")
        if node:
            _add(self._placed, node, by)
        if pods.is_done(pod):
            return
        workload = workload_of(pod)
        tally = self._tallies.setdefault(workload, Counter())
        for name, number in _of_pod(pod, on_node=bool(node)):
            _add(tally, name, by * number)
        if not tally:
            del self._tallies[workload]


def _add(counter: Counter[str], name: str, number: int) -> None:
    counter[name] += number
    if not counter[name]:
        del counter[name]


def _of_pod(pod: Json, *, on_node: bool) -> Iterator[tuple[str, int]]:
    yield TERMINATING if pods.is_leaving(pod) else READY if pods.is_ready(pod) else PENDING, 1
    if on_node:
        millicores, memory_bytes = requested(pod)
        yield MILLICORES, millicores
        yield MEMORY_BYTES, memory_bytes
    elif not pods.is_leaving(pod):
        yield UNSCHEDULED, 1


def requested(pod: Json) -> tuple[int, int]:
    """What a running pod requests: CPU in thousandths of a core, and memory in bytes.

    Its own requests where it has them (``spec.resources``), else those of all containers that run beside each other;
    and the overhead of its runtime. What containers of the start requested does not count any more.
    """
    spec = pod.get("spec") or {}
    of_pod = (spec.get("resources") or {}).get("requests") or {}
    beside = [one for one in spec.get("initContainers") or [] if one.get("restartPolicy") == "Always"]
    of_containers = [
        (one.get("resources") or {}).get("requests") or {}
        for one in [*(spec.get("containers") or []), *beside]
    ]
    overhead = spec.get("overhead") or {}
    cores, memory = (
        (
            quantity(of_pod[name])
            if name in of_pod
            else sum(quantity(one.get(name, 0)) for one in of_containers)
        )
        + quantity(overhead.get(name, 0))
        for name in ("cpu", "memory")
    )
    return round(cores * 1000), round(memory)
