"""The `kubelet` source: pods and nodes in detail, from the kubelets themselves, through the API server.

cAdvisor's counters carry the time at which the kubelet read them. Rates are differences over those times, both of the
node's own clock; what was not read anew since the last look is no new sample.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from towtank.errors import PlatformError, TelemetryError
from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.connection import Connection
from towtank.platforms.kubernetes.kinds import NODE
from towtank.platforms.kubernetes.view import ClusterView
from towtank.telemetry import cadvisor, cluster
from towtank.telemetry.base import Event, ObserveContext, Sample
from towtank.telemetry.options import KubeletOptions, read_options

AT_ONCE = 8
"""Kubelets that are asked side by side."""
FILESYSTEMS_EVERY_US = 10_000_000
"""The kubelet itself looks once a minute how full disks are."""
_NOT_READ = "CPU and memory of pods on this node are missing for a while: is its kubelet up and reachable?"
_DAMAGED = (
    "The number of that pod, or node, is missing in each such reading; run.json has the count of lines."
)
_PERIODS, _THROTTLED = "cpu_periods_per_s", "cpu_throttled_periods_per_s"
_OF_POD = {"filesystem_used_bytes": "usedBytes"}
_OF_NODE = {**_OF_POD, "filesystem_available_bytes": "availableBytes"}
Values = dict[str, dict[str, float]]
"""Instance → metric → value."""


class KubeletSource:
    """Samples CPU, memory (working set), network, disks, file systems, throttling and pressure of pods and nodes."""

    name = "kubelet"
    patience_s = 2 * cluster.ANSWER_WITHIN_S

    def __init__(self) -> None:
        self._options = KubeletOptions()
        self._view: ClusterView | None = None
        self._meters: dict[str, _Meter] = {}
        self._filesystems_us: dict[str, int] = {}
        self._looked_at: dict[str, str] = {}
        self._unread: set[str] = set()
        self._events: list[Event] = []
        self._pool: ThreadPoolExecutor | None = None
        self._helpers_s: dict[str, float] = {}
        self._damaged: dict[str, list[cadvisor.Damaged]] = {}
        self._damaged_lines = 0

    def look_ahead_at(
        self, options: Mapping[str, Any], deployments: Sequence[Any], root: Path
    ) -> Sequence[str]:
        """Whether a kubelet answers through the API server."""
        read_options(self.name, KubeletOptions, options)
        return cluster.ask_clusters(deployments, root, kubelet_problems)

    def start(self, context: ObserveContext) -> None:
        """Take the first reading of all counters."""
        self._options = read_options(self.name, KubeletOptions, context.options)
        self._view = cluster.view_of(context)
        self._meters, self._filesystems_us, self._looked_at = {}, {}, {}
        self._unread, self._events, self._helpers_s = set(), [], {}
        if self._view is None:
            self._events.append(cluster.not_in_a_cluster(self.name, context))
            return
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="towtank-kubelet")
        try:
            self._read(context.clock.now_us())
        except PlatformError as error:
            self.close()
            raise cluster.cannot_be_read(self.name, error) from error

    def sample(self, t_us: int) -> Iterable[Sample]:
        """Ask every kubelet once; yields what its kubelet has read anew."""
        return [
            Sample(t_us, self.name, instance, metric, value)
            for instance, values in self._read(t_us).items()
            for metric, value in values.items()
        ]

    def events(self) -> Iterable[Event]:
        """What was noticed since the last call."""
        events, self._events = self._events, []
        return events

    def facts(self) -> Mapping[str, Any]:
        """What asking the kubelets took, beside what the sampler knows of."""
        facts: dict[str, Any] = {"helpers_cost_s": round(sum(self._helpers_s.values()), 4)}
        return facts | ({"damaged_lines": self._damaged_lines} if self._damaged_lines else {})

    def close(self) -> Iterable[Sample]:
        """Nothing is held back."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
        self._pool, self._view = None, None
        return ()

    def _read(self, t_us: int) -> Values:
        """New values of all nodes; a node that does not answer is told, and raises only when none does."""
        view, pool = self._view, self._pool
        if view is None or pool is None:
            return {}
        nodes = view.used_nodes
        if self._options.nodes == "all":
            nodes = sorted(str(node["metadata"]["name"]) for node in view.nodes or [])
        ours = frozenset(str(pod["metadata"]["name"]) for pod in view.pods)
        asked = [(node, pool.submit(self._read_node, view, node, ours, t_us)) for node in nodes]
        found: Values = {}
        failed: list[PlatformError | TelemetryError] = []
        for node, answer in asked:
            try:
                found |= answer.result()
                self._unread.discard(node)
            except (PlatformError, TelemetryError) as error:
                failed.append(error)
                if node not in self._unread:
                    self._unread.add(node)
                    instance = cluster.NODE + node
                    event = Event(t_us, self.name, "not_read", instance, error.message)
                    self._events.append(cluster.advised(event, _NOT_READ))
        self._tell_damaged(t_us)
        if failed and len(failed) == len(nodes):
            raise failed[0]
        return found

    def _tell_damaged(self, t_us: int) -> None:
        """Count lines that were left out, and tell the first of them."""
        for node, lines in self._damaged.items():
            if lines and not self._damaged_lines:
                message = f"the kubelet wrote a line that cannot be understood: {lines[0].line[:200]!r}"
                event = Event(t_us, self.name, "damaged_lines", cluster.NODE + node, message)
                self._events.append(cluster.advised(event, _DAMAGED))
            self._damaged_lines += len(lines)
        self._damaged.clear()

    def _read_node(self, view: ClusterView, node: str, ours: frozenset[str], t_us: int) -> Values:
        """New values of one node and its pods; in a thread of the pool."""
        begun_s = time.thread_time()
        try:
            return self._ask_node(view, node, ours, t_us)
        finally:
            self._helpers_s[node] = self._helpers_s.get(node, 0.0) + time.thread_time() - begun_s

    def _ask_node(self, view: ClusterView, node: str, ours: frozenset[str], t_us: int) -> Values:
        meter = self._meters.setdefault(node, _Meter())
        text = view.api.glance(_path(node, "metrics/cadvisor"), timeout_s=cluster.ANSWER_WITHIN_S)
        rows = cadvisor.rows(text.decode("utf-8", errors="replace"), view.namespace)
        found = meter.read(
            self._whole([row for row in rows if not row.pod or row.pod in ours], node), node, t_us
        )
        last_us = self._filesystems_us.get(node)
        if self._options.filesystems and (last_us is None or t_us - last_us >= FILESYSTEMS_EVERY_US):
            self._filesystems_us[node] = t_us
            answer = view.api.glance(_path(node, "stats/summary"), timeout_s=cluster.ANSWER_WITHIN_S)
            for instance, (looked_at, values) in _filesystems(answer, node, view.namespace, ours).items():
                if self._looked_at.get(instance) != looked_at:
                    self._looked_at[instance] = looked_at
                    found.setdefault(instance, {}).update(values)
        return found

    def _whole(self, rows: Sequence[cadvisor.Row | cadvisor.Damaged], node: str) -> list[cadvisor.Row]:
        """Rows but those of numbers of which a line is damaged: a sum without it would be too low."""
        damaged = [row for row in rows if isinstance(row, cadvisor.Damaged)]
        self._damaged[node] = damaged
        spoiled = {(row.pod, row.name) for row in damaged}
        good = (row for row in rows if isinstance(row, cadvisor.Row))
        return [row for row in good if (row.pod, row.name) not in spoiled] if spoiled else list(good)


def kubelet_problems(connection: Connection, namespace: str | None) -> list[str]:
    """Why no kubelet of a cluster would answer: a right that is missing, or what the first ready node says."""
    lacking = cluster.missing_rights(connection, KubeletSource.name, namespace)
    if lacking:
        return lacking
    try:
        nodes, _ = connection.api.list(NODE.path())
        ready = [one for one in nodes if pods.holds(one, "Ready")]
        for node in ready[:1]:
            path = _path(str(node["metadata"]["name"]), "metrics/cadvisor")
            connection.api.glance(path, timeout_s=cluster.ANSWER_WITHIN_S)
    except PlatformError as error:
        return [f"the kubelet cannot be asked through the API server: {error.message}"]
    return []


def _path(node: str, part: str) -> str:
    return f"{NODE.path(name=node)}/proxy/{part}"


class _Meter:
    """Turns the counters of one node into rates, each new value once."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, str], _Reading] = {}

    def read(self, rows: Iterable[cadvisor.Row], node: str, t_us: int) -> Values:
        """New values by instance; a counter that is seen for the first time, or began anew, has none yet."""
        grouped: dict[tuple[str, str], list[cadvisor.Row]] = defaultdict(list)
        for row in rows:
            grouped[row.pod, row.name].append(row)
        kept: dict[tuple[str, str, str], _Reading] = {}
        found: Values = {}
        for (pod, name), lines in grouped.items():
            new = False
            values: list[float] = []
            for row in _counting(lines, cadvisor.WANTED[name].first):
                key = pod, name, row.part
                reading = _Reading.after(self._last.get(key), row, t_us, is_counter=name in cadvisor.COUNTERS)
                new |= reading is not self._last.get(key)
                kept[key] = reading
                values += [reading.shown] if reading.shown is not None else []
            if new and values:
                instance = pod or cluster.NODE + node
                found.setdefault(instance, {})[cadvisor.WANTED[name].metric] = sum(values)
        self._last = kept
        for values_of in found.values():
            _share_throttled(values_of)
        return found


class _Reading:
    """A line as it was last read anew, and what is shown of it."""

    def __init__(self, t_ms: float, value: float, shown: float | None) -> None:
        self.t_ms = t_ms
        self.value = value
        self.shown = shown

    @classmethod
    def after(cls, last: _Reading | None, row: cadvisor.Row, t_us: int, *, is_counter: bool) -> _Reading:
        """The reading of a line; the last one itself when the kubelet has not looked since."""
        t_ms = float(row.t_ms) if row.t_ms is not None else t_us / 1000
        if last is not None and t_ms <= last.t_ms:
            return last
        if not is_counter:
            return cls(t_ms, row.value, row.value)
        if last is None or row.value < last.value:
            return cls(t_ms, row.value, None)
        return cls(t_ms, row.value, (row.value - last.value) / (t_ms - last.t_ms) * 1000)


def _counting(lines: Sequence[cadvisor.Row], first: cadvisor.Level) -> Sequence[cadvisor.Row]:
    """The lines of the level that counts, so that nothing is counted twice."""
    if first == "other":
        return lines
    second: cadvisor.Level = "container" if first == "pod" else "pod"
    for level in (first, second):
        chosen = [row for row in lines if row.level == level]
        if chosen:
            return chosen
    return lines


def _share_throttled(values: dict[str, float]) -> None:
    """Both rates of periods become their share, as the source `process` has it."""
    periods, throttled = values.pop(_PERIODS, None), values.pop(_THROTTLED, None)
    if periods is not None and throttled is not None:
        values["cpu_throttled_ratio"] = throttled / periods if periods > 0 else 0.0


def _filesystems(
    answer: bytes, node: str, namespace: str, ours: frozenset[str]
) -> dict[str, tuple[str, dict[str, float]]]:
    """What pods and their node have on disk, from the summary API: when the kubelet looked, and what it saw."""
    try:
        summary: Json = json.loads(answer)
        about = [
            (str(one["podRef"]["name"]), one.get("ephemeral-storage") or {})
            for one in summary.get("pods") or []
            if one["podRef"].get("namespace") == namespace and one["podRef"].get("name") in ours
        ]
        found = {}
        for instance, disk in [*about, (cluster.NODE + node, (summary.get("node") or {}).get("fs") or {})]:
            keys = _OF_NODE if instance.startswith(cluster.NODE) else _OF_POD
            values = {shown: float(disk[key]) for shown, key in keys.items() if disk.get(key) is not None}
            if values:
                found[instance] = str(disk.get("time")), values
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise TelemetryError(
            f"the kubelet of node {node} answered something that is no summary: {answer[:80]!r}"
        ) from error
    return found
