"""One HPA object: metrics in, numbers of instances out, on any clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from towtank.autoscaling.hpa.behavior import (
    Memory,
    Recommendation,
    bounded_by_controller,
    bounded_by_rules,
    stabilise,
    stabilise_down,
)
from towtank.autoscaling.hpa.metrics import Pod, Sample, Tolerance, by_average, by_utilisation, group
from towtank.autoscaling.hpa.settings import HpaSettings
from towtank.errors import PlatformError

CPU, CONCURRENCY, RPS = "cpu", "concurrency", "requests_per_second"


@dataclass(frozen=True)
class Outcome:
    """What one decision came to.

    Parameters
    ----------
    replicas : int
        How many instances there should be.
    recommended : int, optional
        What the metrics asked for; None when they said nothing.
    reason : str
        Why nothing was decided; empty otherwise.
    """

    replicas: int
    recommended: int | None
    reason: str = ""


class Hpa:
    """The state of one HPA.

    Parameters
    ----------
    settings : HpaSettings
    """

    def __init__(self, settings: HpaSettings) -> None:
        self._settings = settings
        self._up, self._down = settings.rules("up"), settings.rules("down")
        self._tolerance = Tolerance(down=self._down.tolerance, up=self._up.tolerance)
        periods = [policy.period for rules in (self._up, self._down) for policy in rules.policies]
        self._longest_s = max(periods)
        self._memory: Memory | None = None

    def decide(
        self, t_s: float, *, current: int, pods: Sequence[Pod], metrics: Mapping[str, Mapping[str, Sample]]
    ) -> Outcome:
        """Decide; every `sync_period`.

        Parameters
        ----------
        t_s : float
        current : int
            Instances that were asked for last.
        pods : sequence of Pod
        metrics : mapping
            `CPU`, `CONCURRENCY` or `RPS` → instance → what was measured of it.

        Notes
        -----
        reconcileAutoscaler in pkg/controller/podautoscaler/horizontal.go
        """
        settings = self._settings
        memory = self._memory or Memory((Recommendation(t_s, current),))
        self._memory = memory
        if current == 0 and settings.min_replicas != 0:
            return Outcome(0, None, "no instance is asked for, which switches the HPA off")
        if current > settings.max_replicas:
            return self._set(Outcome(settings.max_replicas, None), current, t_s)
        if current < settings.min_replicas:
            return self._set(Outcome(settings.min_replicas, None), current, t_s)
        recommended, reason = self._recommended(t_s, current, pods, metrics)
        if recommended is None:
            return Outcome(current, None, reason)
        if settings.behavior is None:
            wanted, self._memory = stabilise_down(memory, recommended, t_s, settings.downscale_stabilization)
            replicas = bounded_by_controller(
                wanted, current=current, least=settings.min_replicas, most=settings.max_replicas
            )
        else:
            wanted, self._memory = stabilise(
                memory,
                recommended,
                current=current,
                t_s=t_s,
                up_s=self._up.window_s,
                down_s=self._down.window_s,
            )
            replicas = bounded_by_rules(
                self._memory,
                wanted,
                current=current,
                t_s=t_s,
                least=settings.min_replicas,
                most=settings.max_replicas,
                up=self._up,
                down=self._down,
            )
        return self._set(Outcome(replicas, recommended, reason), current, t_s)

    def _set(self, outcome: Outcome, current: int, t_s: float) -> Outcome:
        if self._memory is not None and self._settings.behavior is not None:
            self._memory = self._memory.changed(t_s, current, outcome.replicas, keep_s=self._longest_s)
        return outcome

    def _recommended(
        self, t_s: float, current: int, pods: Sequence[Pod], metrics: Mapping[str, Mapping[str, Sample]]
    ) -> tuple[int | None, str]:
        """The highest of all metrics; where one says nothing, the others may only ask for more."""
        found: list[int] = []
        problems: list[str] = []
        for name in self._metrics():
            try:
                found.append(self._of_metric(name, t_s, current, pods, metrics.get(name, {})))
            except PlatformError as error:
                problems.append(f"{name}: {error.message}")
        if not found or (problems and max(found) < current):
            return None, "; ".join(problems)
        return max(found), "; ".join(problems)

    def _metrics(self) -> list[str]:
        settings = self._settings
        asked = {CPU: settings.cpu, CONCURRENCY: settings.concurrency, RPS: settings.requests_per_second}
        return [name for name, target in asked.items() if target is not None]

    def _of_metric(
        self, name: str, t_s: float, current: int, pods: Sequence[Pod], samples: Mapping[str, Sample]
    ) -> int:
        settings = self._settings
        groups = group(
            pods,
            samples,
            by_cpu=name == CPU,
            t_s=t_s,
            initialization_s=settings.cpu_initialization_period,
            readiness_s=settings.initial_readiness_delay,
        )
        if name == CPU and settings.cpu is not None:
            return by_utilisation(
                current, pods, samples, groups, target_percent=settings.cpu, tolerance=self._tolerance
            )
        target = settings.concurrency if name == CONCURRENCY else settings.requests_per_second
        return by_average(
            current, samples, groups, target_milli=round((target or 0) * 1000), tolerance=self._tolerance
        )
