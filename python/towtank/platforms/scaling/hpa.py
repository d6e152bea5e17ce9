"""Kubernetes' horizontal pod autoscaler as a policy: CPU of process trees, requests as the ingress counts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import psutil

from towtank.autoscaling.hpa.controller import CONCURRENCY, CPU, RPS, Hpa
from towtank.autoscaling.hpa.metrics import Pod, Sample
from towtank.autoscaling.hpa.settings import HpaSettings
from towtank.platforms.scaling.lives import Life
from towtank.platforms.scaling.policy import Policy, Seen, Wanted
from towtank.platforms.scaling.seam import NS_PER_S

MILLI = 1000
CpuOf = Callable[[int], float | None]
"""pid → CPU seconds of its tree since its start; None when it is gone."""


def cpu_of_tree(pid: int) -> float | None:
    """CPU seconds of a process, its children and those of them that have ended."""
    try:
        root = psutil.Process(pid)
        own = root.cpu_times()
        spent = float(own.user + own.system + own.children_user + own.children_system)
        for child in root.children(recursive=True):
            try:
                times = child.cpu_times()
            except psutil.Error:
                continue
            spent += times.user + times.system
    except psutil.Error:
        return None
    return spent


class HpaPolicy(Policy):
    """One HPA object with its metrics.

    Parameters
    ----------
    settings : HpaSettings
    cpu_request : float, optional
        Cores that an instance requests; needed with `cpu`.
    t_s : float
        Now.
    cpu_of : callable
    """

    def __init__(
        self, settings: HpaSettings, *, cpu_request: float | None, t_s: float, cpu_of: CpuOf = cpu_of_tree
    ) -> None:
        super().__init__(settings.min_replicas)
        self._settings = settings
        self._request_milli = None if cpu_request is None else round(cpu_request * MILLI)
        self._hpa = Hpa(settings)
        self._cpu_of = cpu_of
        self._wanted = settings.min_replicas
        self._decided_s = self._measured_s = t_s
        self._spent: dict[str, tuple[float, float]] = {}
        self._load: dict[str, list[tuple[float, float, float]]] = {}
        self._metrics: dict[str, dict[str, Sample]] = {}
        self._values: dict[str, float] = {}

    def look(self, seen: Seen) -> Wanted:
        """Measure every `metrics_resolution`, decide every `sync_period`."""
        for name, one in seen.stats.instances.items():
            self._load.setdefault(name, []).append((seen.stats.seconds, one.concurrency, one.requests))
        half_s = 0.5
        if seen.t_s - self._measured_s >= self._settings.metrics_resolution - half_s:
            self._measure(seen)
            self._measured_s = seen.t_s
        note = ""
        if seen.t_s - self._decided_s >= self._settings.sync_period - half_s:
            self._decided_s = seen.t_s
            found = self._hpa.decide(
                seen.t_s, current=self._wanted, pods=self._pods(seen.lives), metrics=self._metrics
            )
            self._wanted, note = found.replicas, found.reason
            if found.recommended is not None:
                self._values["autoscaler_recommended"] = found.recommended
        return Wanted(self._wanted, {"autoscaler_desired": self._wanted, **self._values}, note=note)

    def gone(self, name: str) -> None:
        """Forget what it used."""
        self._spent.pop(name, None)
        self._load.pop(name, None)

    def _measure(self, seen: Seen) -> None:
        """Means of every instance since the last measurement."""
        cpu: dict[str, Sample] = {}
        for life in seen.lives:
            spent_s = None if life.pid is None else self._cpu_of(life.pid)
            before = self._spent.get(life.name)
            if spent_s is None:
                continue
            self._spent[life.name] = (seen.t_s, spent_s)
            if before is not None and seen.t_s > before[0]:
                window_s = seen.t_s - before[0]
                used = max(0.0, spent_s - before[1]) / window_s
                cpu[life.name] = Sample(round(used * MILLI), seen.t_s, window_s)
        self._metrics = {
            CPU: cpu,
            CONCURRENCY: self._means(seen.t_s, lambda of: sum(s * c for s, c, _ in of)),
            RPS: self._means(seen.t_s, lambda of: sum(n for _, _, n in of)),
        }
        self._load = {}
        self._note(seen.lives)

    def _means(
        self, t_s: float, total: Callable[[Sequence[tuple[float, float, float]]], float]
    ) -> dict[str, Sample]:
        found = {}
        for name, seconds in self._load.items():
            length_s = sum(s for s, _, _ in seconds)
            if length_s > 0:
                found[name] = Sample(round(total(seconds) / length_s * MILLI), t_s, length_s)
        return found

    def _note(self, lives: Sequence[Life]) -> None:
        """Means over the instances, for the record."""
        ready = [life.name for life in lives if life.is_ready]
        targets: Mapping[str, tuple[float | None, float]] = {
            CPU: (self._settings.cpu, 100 / (self._request_milli or MILLI)),
            CONCURRENCY: (self._settings.concurrency, 1 / MILLI),
            RPS: (self._settings.requests_per_second, 1 / MILLI),
        }
        for metric, (target, scale) in targets.items():
            values = [
                self._metrics[metric][name].value_milli for name in ready if name in self._metrics[metric]
            ]
            if target is not None and values:
                self._values[f"autoscaler_seen_{metric}"] = sum(values) / len(values) * scale
                self._values[f"autoscaler_target_{metric}"] = target

    def _pods(self, lives: Sequence[Life]) -> list[Pod]:
        return [
            Pod(
                life.name,
                phase="Pending" if life.started_ns is None else "Running",
                deleted=not life.is_wanted,
                started_s=None if life.started_ns is None else life.started_ns / NS_PER_S,
                ready=life.answers,
                ready_changed_s=(life.changed_ns or life.created_ns) / NS_PER_S,
                request_milli=self._request_milli,
            )
            for life in lives
        ]
