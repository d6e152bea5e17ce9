"""What Knative's autoscaler would have wanted, from what was observed: the load of each second, or its own averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from towtank.autoscaling.kpa.decision import Memory, decide
from towtank.autoscaling.kpa.revision import Revision
from towtank.autoscaling.kpa.settings import TICK_S, KpaSettings

_SLACK_S = 0.5
"""Seconds are told give or take: a tick is every other one."""
_JITTER_S = 0.1
"""Averages are read give or take."""


@dataclass(frozen=True)
class Second:
    """A second as it was observed.

    Parameters
    ----------
    t_s : float
        Its end.
    concurrency : float
        Requests at a time, averaged over it: held ones and those that instances work on.
    requests : float
        Requests that arrived.
    ready : int
        Instances that took requests at its end.
    told_s : float, optional
        When, within it, a request was reported at once because no instance was there.
    """

    t_s: float
    concurrency: float
    requests: float
    ready: int
    told_s: float | None = None


@dataclass(frozen=True)
class Averages:
    """What an autoscaler says that it went by.

    Parameters
    ----------
    t_s : float
    stable, panic : float
        Averages over its two windows.
    ready : int
    panicking : bool, optional
        Whether it was in panic when it had decided, where that is known.
    """

    t_s: float
    stable: float
    panic: float
    ready: int
    panicking: bool | None = None


def by_load(settings: KpaSettings, seconds: Sequence[Second], *, first_tick: int = 0) -> dict[int, int]:
    """What is wanted at each tick, from the load alone.

    Parameters
    ----------
    settings : KpaSettings
    seconds : sequence of Second
        In order, about one second apart.
    first_tick : {0, 1}
        Which of the first two seconds ends with a tick.

    Returns
    -------
    dict
        Index of the second → instances wanted at the tick at its end; without those at which nothing is known yet.
    """
    if not seconds:
        return {}
    revision = Revision(settings, seconds[0].t_s - 1.0)
    ticked_s = seconds[0].t_s - (1.0 if first_tick else TICK_S)
    found = {}
    for index, second in enumerate(seconds):
        if second.told_s is not None:
            revision.wanted(second.told_s, 0)
        revision.record(
            second.t_s, concurrency=second.concurrency, requests=second.requests, ready=second.ready
        )
        if second.t_s - ticked_s < TICK_S - _SLACK_S:
            revision.reconcile(second.t_s, second.ready)
            continue
        ticked_s = second.t_s
        desired = revision.tick(second.t_s, second.ready).desired
        if desired >= 0:
            found[index] = desired
    return found


def by_averages(settings: KpaSettings, seen: Sequence[Averages], *, panicking: bool = False) -> list[int]:
    """What is wanted, decision by decision, from the averages that the autoscaler itself had.

    Each decision goes by the mode that the one before is known to have left: where panic may end at one tick or the
    next, as it may when the stable window is a multiple of the tick, one decision differs, and not all that follow.

    Parameters
    ----------
    settings : KpaSettings
    seen : sequence of Averages
        In order; one tick may have been seen several times: what says the same again, sooner than the next tick
        would, is the same decision, and prolongs no panic.
    panicking : bool
        It was in panic when they begin.
    """
    if not seen:
        return []
    decider, first = settings.decider(), seen[0]
    memory = Memory(first.t_s, first.ready) if panicking else Memory()
    found: list[int] = []
    decided = None
    for one in seen:
        if decided is None or not _is_told_again(one, decided):
            decision, after = decide(
                decider, memory, t_s=one.t_s, stable=one.stable, panic=one.panic, ready=one.ready
            )
            memory = _as_told(one, memory, after, decision.desired)
            desired, decided = decision.desired, one
        found.append(desired)
    return found


def _is_told_again(one: Averages, decided: Averages) -> bool:
    """Whether averages are those that were decided from already."""
    is_same = (one.stable, one.panic, one.panicking) == (decided.stable, decided.panic, decided.panicking)
    return is_same and one.t_s - decided.t_s < TICK_S - _JITTER_S


def _as_told(one: Averages, before: Memory, after: Memory, desired: int) -> Memory:
    """What a decision leaves to the next one: in the mode that the autoscaler says it is in."""
    if one.panicking is None or one.panicking == (after.panic_since_s is not None):
        return after
    if not one.panicking:
        return replace(after, panic_since_s=None, most_in_panic=0)
    if before.panic_since_s is None:
        return replace(after, panic_since_s=one.t_s, most_in_panic=desired)
    return replace(after, panic_since_s=before.panic_since_s, most_in_panic=before.most_in_panic)
