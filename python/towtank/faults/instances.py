"""Faults that hit instances: kill them, stop them, take their CPU away."""

from __future__ import annotations

from functools import partial

from towtank.faults.base import Order, cannot, each
from towtank.platforms.base import (
    Deployment,
    KillsInstances,
    LimitsCpu,
    RestartsInstances,
    StopsInstances,
    Undo,
)


class Kill:
    """Ends instances; where somebody has to, they are started again at the end."""

    def begin(self, deployment: Deployment, order: Order) -> Undo:
        """See `Action.begin`."""
        killer = deployment if isinstance(deployment, KillsInstances) else cannot(deployment, order)
        comes_back = order.lasts_s is not None
        if comes_back and not isinstance(deployment, RestartsInstances):
            cannot(deployment, order)

        def kill(name: str) -> Undo:
            killer.kill_instance(name, grace_s=order.options.grace)
            if comes_back and isinstance(deployment, RestartsInstances):
                return partial(deployment.restart_instance, name)
            return _nothing

        return each(order, kill)


class Stop:
    """Stops instances, and lets them go on."""

    def begin(self, deployment: Deployment, order: Order) -> Undo:
        """See `Action.begin`."""
        stopper = deployment if isinstance(deployment, StopsInstances) else cannot(deployment, order)
        return each(order, lambda name: stopper.stop_instance(name, lasts_s=order.lasts_s))


class Cpu:
    """Leaves instances less CPU."""

    def begin(self, deployment: Deployment, order: Order) -> Undo:
        """See `Action.begin`."""
        limiter = deployment if isinstance(deployment, LimitsCpu) else cannot(deployment, order)
        return each(order, lambda name: limiter.limit_cpu(name, order.options.cores, lasts_s=order.lasts_s))


def _nothing() -> None:
    """What is dead stays dead until the run is over, or the platform itself brings it back."""
