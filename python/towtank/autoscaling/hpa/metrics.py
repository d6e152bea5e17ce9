"""From what instances use to how many there should be: the HPA's arithmetic for one metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from towtank.errors import PlatformError

FULL_PERCENT = 100
"""What an instance without a metric is taken to use, of its request, before there are fewer."""


@dataclass(frozen=True)
class Pod:
    """An instance as the HPA sees it.

    Parameters
    ----------
    name : str
    phase : {"Pending", "Running", "Failed"}
    deleted : bool
        It is on its way out.
    started_s, ready_changed_s : float, optional
        When it started, and when it last became ready or unready.
    ready : bool, optional
        None while that is not known.
    request_milli : int, optional
        CPU that it requests, in thousandths of a core.
    """

    name: str
    phase: Literal["Pending", "Running", "Failed"] = "Running"
    deleted: bool = False
    started_s: float | None = None
    ready: bool | None = None
    ready_changed_s: float | None = None
    request_milli: int | None = None


@dataclass(frozen=True)
class Sample:
    """What one instance used: in thousandths, averaged over `window_s` up to `t_s`."""

    value_milli: int
    t_s: float = 0.0
    window_s: float = 60.0


@dataclass(frozen=True)
class Tolerance:
    """Deviations from the target that are let pass, as shares of it, downwards and upwards."""

    down: float = 0.1
    up: float = 0.1

    def covers(self, ratio: float) -> bool:
        """Whether usage ÷ target is as good as 1."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True)
class Groups:
    """Instances by what can be said of them: those that count, that start, that have no metric, that do not count."""

    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def group(
    pods: Sequence[Pod],
    samples: Mapping[str, Sample],
    *,
    by_cpu: bool,
    t_s: float,
    initialization_s: float,
    readiness_s: float,
) -> Groups:
    """Sort instances into `Groups`; with CPU, those that still start do not count.

    Notes
    -----
    groupPods in pkg/controller/podautoscaler/replica_calculator.go
    """
    ready, unready, missing, ignored = 0, set(), set(), set()
    for pod in pods:
        if pod.deleted or pod.phase == "Failed":
            ignored.add(pod.name)
        elif pod.phase == "Pending":
            unready.add(pod.name)
        elif pod.name not in samples:
            missing.add(pod.name)
        elif by_cpu and _is_starting(pod, samples[pod.name], t_s, initialization_s, readiness_s):
            unready.add(pod.name)
        else:
            ready += 1
    return Groups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_starting(pod: Pod, sample: Sample, t_s: float, initialization_s: float, readiness_s: float) -> bool:
    if pod.ready is None or pod.ready_changed_s is None or pod.started_s is None:
        return True
    if pod.started_s + initialization_s > t_s:
        # Not ready, or no whole window has been measured since it became so.
        return not pod.ready or sample.t_s < pod.ready_changed_s + sample.window_s
    # Not ready, and it never was.
    return not pod.ready and pod.started_s + readiness_s > pod.ready_changed_s


def by_utilisation(
    current: int,
    pods: Sequence[Pod],
    samples: Mapping[str, Sample],
    groups: Groups,
    *,
    target_percent: int,
    tolerance: Tolerance,
) -> int:
    """Instances that a metric relative to what is requested asks for.

    Parameters
    ----------
    current : int
        Instances that were asked for last.
    pods : sequence of Pod
    samples : mapping
        Name → what was measured.
    groups : Groups
    target_percent : int
    tolerance : Tolerance

    Raises
    ------
    PlatformError
        Nothing was measured of any instance that counts, or an instance requests nothing.

    Notes
    -----
    GetResourceReplicas in pkg/controller/podautoscaler/replica_calculator.go. Utilisation is cut to whole percent.
    """
    requests: dict[str, int] = {}
    for pod in pods:
        if not pod.request_milli:
            raise PlatformError(f"instance {pod.name} requests no CPU, so its utilisation cannot be said")
        requests[pod.name] = pod.request_milli

    def ratio(values: Mapping[str, int]) -> float:
        known = [name for name in values if name in requests]
        asked = sum(requests[name] for name in known)
        if asked == 0:
            raise PlatformError("what was measured is of no instance that is there")
        return sum(values[name] for name in known) * 100 // asked / target_percent

    full = max(FULL_PERCENT, target_percent)
    assumed = {name: request * full // 100 for name, request in requests.items()}
    return _replicas(current, samples, groups, tolerance, ratio=ratio, assumed=assumed)


def by_average(
    current: int,
    samples: Mapping[str, Sample],
    groups: Groups,
    *,
    target_milli: int,
    tolerance: Tolerance,
) -> int:
    """Instances that a metric with a target per instance asks for.

    Parameters are those of `by_utilisation`; the target is in thousandths.

    Notes
    -----
    calcPlainMetricReplicas in pkg/controller/podautoscaler/replica_calculator.go
    """

    def ratio(values: Mapping[str, int]) -> float:
        return sum(values.values()) // len(values) / target_milli

    assumed = dict.fromkeys(groups.missing, target_milli)
    return _replicas(current, samples, groups, tolerance, ratio=ratio, assumed=assumed)


def _replicas(
    current: int,
    samples: Mapping[str, Sample],
    groups: Groups,
    tolerance: Tolerance,
    *,
    ratio: Callable[[Mapping[str, int]], float],
    assumed: Mapping[str, int],
) -> int:
    """Usage of what counts ÷ target × its number; carefully where instances start or have no metric.

    What is not known is taken to be against the change: full use before there are fewer, none before there are more.
    Where that turns the direction round, nothing changes.
    """
    left_out = groups.ignored | groups.unready
    values = {name: sample.value_milli for name, sample in samples.items() if name not in left_out}
    if not values:
        raise PlatformError(
            "nothing was measured of any instance that counts; perhaps all are still starting"
        )
    first = ratio(values)
    growing_with_unready = bool(groups.unready) and first > 1.0
    if not growing_with_unready and not groups.missing:
        return current if tolerance.covers(first) else math.ceil(first * groups.ready)
    if first != 1.0:
        values |= {name: assumed[name] if first < 1.0 else 0 for name in groups.missing}
    if growing_with_unready:
        values |= dict.fromkeys(groups.unready, 0)
    second = ratio(values)
    if tolerance.covers(second) or (first < 1.0 < second) or (second < 1.0 < first):
        return current
    wanted = math.ceil(second * len(values))
    turned = (second < 1.0 and wanted > current) or (second > 1.0 and wanted < current)
    return current if turned else wanted
