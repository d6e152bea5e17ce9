"""Waiting until a deployment is back at its baseline, and knowing what the machine does meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from towtank.campaign import machine, processes
from towtank.campaign.stopping import StopRequest
from towtank.design.model import Settle
from towtank.platforms.base import Deployment, KnowsBaseline, ScalesToZero, Target
from towtank.units import format_duration, format_ratio

SHORTEST_LOOK_S = 0.25
"""CPU shares over less than this are noise: the kernel counts in hundredths of a second."""


@dataclass(frozen=True)
class Settled:
    """How settling went.

    Parameters
    ----------
    reached : bool
        Every condition held at once for `hold`.
    waited_s : float
    baseline : Interval
        What the machine did in the last look before the load.
    problem : str
        What did not hold, when it was not reached.
    """

    reached: bool
    waited_s: float
    baseline: machine.Interval
    problem: str = ""


def settle(
    rule: Settle, targets: Mapping[str, Target], stop: StopRequest, deployment: Deployment | None = None
) -> Settled:
    """Wait until `rule.until` holds for `rule.hold`, at most `rule.timeout`.

    A deployment that knows its baseline is asked for it; the CPU of this machine is looked at in any case.

    Raises
    ------
    Interrupted
    """
    begun = time.monotonic()
    look_s = max(SHORTEST_LOOK_S, min(rule.hold, 1.0))
    held_s = 0.0
    before = machine.now()
    while True:
        stop.sleep(look_s)
        after = machine.now()
        interval = machine.between(before, after)
        problem = _problem(rule, targets, interval) or _elsewhere(rule, deployment)
        held_s = 0.0 if problem else held_s + interval.seconds
        waited = time.monotonic() - begun
        if not problem and held_s >= rule.hold:
            return Settled(reached=True, waited_s=waited, baseline=interval)
        if waited >= rule.timeout:
            said = problem or f"it held for {format_duration(held_s)} only"
            wanted = f"{said}; waited {format_duration(waited)}"
            return Settled(reached=False, waited_s=waited, baseline=interval, problem=wanted)
        before = after


def _elsewhere(rule: Settle, deployment: object) -> str:
    """What a deployment says of itself that is not on this machine."""
    until = rule.until
    if until.replicas == "zero":
        words = (
            deployment.above_zero()
            if isinstance(deployment, ScalesToZero)
            else "`replicas: zero` is not for this deployment, which cannot say whether it has no instance"
        )
        if words:
            return words
    if not isinstance(deployment, KnowsBaseline) or (until.cpu_below is None and until.replicas is None):
        return ""
    return deployment.unsettled(cpu_below=until.cpu_below, replicas=until.replicas == "baseline")


def _problem(rule: Settle, targets: Mapping[str, Target], interval: machine.Interval) -> str:
    bound = rule.until.cpu_below
    if bound is not None and interval.without_own_ratio > bound:
        return f"CPU is at {format_ratio(interval.without_own_ratio)}, wanted below {format_ratio(bound)}"
    if rule.until.replicas == "baseline":
        gone = [
            instance.name
            for target in targets.values()
            for instance in target.instances
            if instance.pid is not None and processes.start_ticks(instance.pid) != instance.start_ticks
        ]
        if gone:
            return f"{', '.join(gone)} not running"
    return ""
