"""Knative's autoscaler as a policy: its windows are fed by the ingress, which is activator and queue-proxy in one."""

from __future__ import annotations

from towtank.autoscaling.kpa.revision import Outcome, Revision
from towtank.autoscaling.kpa.settings import TICK_S, KpaSettings
from towtank.platforms.scaling.config import QUEUE_PER_REQUEST
from towtank.platforms.scaling.policy import Policy, Seen, Shortage, Wanted

_SLACK_S = 0.5
"""Statistics come each second, give or take: a tick is every other one."""


class KpaPolicy(Policy):
    """One revision.

    Parameters
    ----------
    settings : KpaSettings
    t_s : float
        Now.
    """

    def __init__(self, settings: KpaSettings, t_s: float) -> None:
        super().__init__(max(settings.initial_scale, settings.min_scale))
        self._limit = settings.container_concurrency
        self._revision = Revision(settings, t_s)
        self._ticked_s = t_s
        self._held: bool | None = None

    def look(self, seen: Seen) -> Wanted:
        """Record the second, and decide where a tick is due."""
        stats = seen.stats
        self._revision.record(
            stats.t_s,
            concurrency=stats.concurrency,
            requests=stats.arrivals / stats.seconds,
            ready=stats.ready,
        )
        if stats.t_s - self._ticked_s < TICK_S - _SLACK_S:
            return self._wanted(self._revision.reconcile(stats.t_s, stats.ready))
        self._ticked_s = stats.t_s
        return self._wanted(self._revision.tick(stats.t_s, stats.ready))

    def short(self, shortage: Shortage) -> Wanted | None:
        """As the activator: the first request at zero is told at once."""
        if shortage.ready > 0:
            return None
        found = self._revision.wanted(shortage.t_s, shortage.ready)
        return None if found is None else self._wanted(found)

    def _wanted(self, found: Outcome) -> Wanted:
        return Wanted(
            found.replicas,
            {
                **({"autoscaler_desired": found.desired} if found.desired >= 0 else {}),
                "autoscaler_stable": found.stable,
                "autoscaler_panic": found.panic,
                "autoscaler_target": found.target,
                "autoscaler_panic_mode": float(found.panicking),
                "autoscaler_excess_burst_capacity": found.excess_burst_capacity,
                "autoscaler_activators": found.activators if found.held else 0,
            },
            self._limits(held=found.held),
        )

    def _limits(self, *, held: bool) -> dict[str, object]:
        """With the activator in the path requests wait there; without it, in queues of bounded length."""
        if held == self._held:
            return {}
        self._held = held
        bounded = not held and self._limit > 0
        return {"pending_per_instance": QUEUE_PER_REQUEST * self._limit if bounded else None}
