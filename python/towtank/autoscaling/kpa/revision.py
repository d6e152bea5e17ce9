"""One revision under Knative's autoscaler: statistics in, numbers of instances out, on any clock."""

from __future__ import annotations

from dataclasses import dataclass

from towtank.autoscaling.kpa.activation import UNKNOWN, Status, apply, observed
from towtank.autoscaling.kpa.decision import Decision, Memory, activators, decide
from towtank.autoscaling.kpa.settings import KpaSettings
from towtank.autoscaling.kpa.windows import Buckets


@dataclass(frozen=True)
class Outcome:
    """What is known after a tick.

    Parameters
    ----------
    desired : int
        What the decision asks for; −1 before the first.
    replicas : int
        How many instances there should be now.
    stable, panic : float
        Averages over the two windows.
    target : float
        Value of the metric that an instance should have.
    panicking : bool
    excess_burst_capacity : int
    activators : int
    held : bool
        Requests are held in front of the instances: in Knative the activator is in their path.
    """

    desired: int
    replicas: int
    stable: float
    panic: float
    target: float
    panicking: bool
    excess_burst_capacity: int
    activators: int
    held: bool


class Revision:
    """The state of one revision.

    Parameters
    ----------
    settings : KpaSettings
    t_s : float
        Now, on the clock that every call goes by.
    """

    def __init__(self, settings: KpaSettings, t_s: float) -> None:
        self._settings = settings
        self._decider = settings.decider()
        weighted = settings.metric_aggregation_algorithm == "weighted-exponential"
        self._stable = Buckets(settings.window, weighted=weighted)
        self._panic = Buckets(settings.panic_window_s, weighted=weighted)
        self._memory = Memory.beginning(t_s, 0)
        started = max(settings.initial_scale, settings.min_scale)
        self._status = Status("activating" if started else "inactive", t_s)
        self._replicas = started
        self._decision: Decision | None = None
        self._reported_early = 0.0

    def record(self, t_s: float, *, concurrency: float, requests: float, ready: int) -> None:
        """Take the statistics of a second in.

        Parameters
        ----------
        t_s : float
        concurrency : float
            Requests at a time, averaged over the second: held ones and those that instances work on.
        requests : float
            Requests that arrived.
        ready : int
            Instances that take requests; without any, a second without load says nothing, as nobody reports it.
        """
        early, self._reported_early = self._reported_early, 0.0
        by_rps = self._settings.metric == "rps"
        value = requests - early if by_rps else max(0.0, concurrency - early)
        if ready > 0 or concurrency > 0 or requests > 0:
            self._record(t_s, value)

    def wanted(self, t_s: float, ready: int) -> Outcome | None:
        """Take notice of the first request that found nobody, at once; None when a decision can wait for its tick.

        Notes
        -----
        Knative's activator reports the first request as one at a time and takes that off its next report
        (pkg/activator/handler/concurrency_reporter.go); the autoscaler then decides at once if it wanted none
        (`Poke` in pkg/autoscaler/scaling/multiscaler.go).
        """
        if self._reported_early:
            return None
        self._reported_early = 1.0
        self._record(t_s, 1.0)
        if self._decision is not None and self._decision.desired != 0:
            return None
        return self.tick(t_s, ready)

    def tick(self, t_s: float, ready: int) -> Outcome:
        """Decide; every `TICK_S`."""
        if not self._stable.empty(t_s):
            self._decision, self._memory = decide(
                self._decider,
                self._memory,
                t_s=t_s,
                stable=self._stable.average(t_s),
                panic=self._panic.average(t_s),
                ready=ready,
            )
        return self.reconcile(t_s, ready)

    def reconcile(self, t_s: float, ready: int) -> Outcome:
        """Apply the last decision as far as time allows; may be called at any time between two ticks."""
        desired = UNKNOWN if self._decision is None else self._decision.desired
        applied = apply(self._settings, self._status, desired, t_s)
        if applied.replicas is not None:
            self._replicas = applied.replicas
        capacity = self._capacity()
        self._status = observed(
            self._settings,
            self._status,
            want=applied.want,
            ready=ready,
            excess_burst_capacity=capacity,
            t_s=t_s,
        )
        return Outcome(
            desired=desired,
            replicas=self._replicas,
            stable=self._stable.average(t_s),
            panic=self._panic.average(t_s),
            target=self._decider.target,
            panicking=self._memory.panic_since_s is not None,
            excess_burst_capacity=capacity,
            activators=activators(self._decider, ready=ready),
            held=self._status.proxied_since_s is not None,
        )

    def _capacity(self) -> int:
        """Before the first decision: of one instance (pkg/autoscaler/scaling/multiscaler.go)."""
        if self._decision is not None:
            return self._decision.excess_burst_capacity
        burst = self._decider.target_burst_capacity
        return int(burst) if burst in (-1, 0) else int(self._decider.total - burst)

    def _record(self, t_s: float, value: float) -> None:
        self._stable.record(t_s, value)
        self._panic.record(t_s, value)
