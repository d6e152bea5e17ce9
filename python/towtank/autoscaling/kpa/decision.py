"""One decision of Knative's autoscaler: from averages and ready instances to the number that it wants."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from towtank.autoscaling.kpa.settings import TICK_S, Decider

UNLIMITED_BURST = -1.0
LEAST_ACTIVATORS = 2


@dataclass(frozen=True)
class Memory:
    """What a decision leaves to the next one.

    Parameters
    ----------
    panic_since_s : float, optional
        When the threshold was last crossed; None outside of panic.
    most_in_panic : int
        The most instances that were wanted since the panic began.
    recent : tuple of (int, int)
        Tick and number wanted, the highest first, as far as they still hold back a scale-down.
    """

    panic_since_s: float | None = None
    most_in_panic: int = 0
    recent: tuple[tuple[int, int], ...] = ()

    @classmethod
    def beginning(cls, t_s: float, ready: int) -> Memory:
        """An autoscaler that finds several instances begins in panic, so that it takes none away before it knows."""
        return cls(t_s if ready > 1 else None, ready)


@dataclass(frozen=True)
class Decision:
    """What one tick decided.

    Parameters
    ----------
    desired : int
        Instances, before the bounds of the revision.
    panicking : bool
    excess_burst_capacity : int
        Room for a burst beyond what is asked for; below 0 requests are held in front of the instances.
    """

    desired: int
    panicking: bool
    excess_burst_capacity: int


def decide(
    decider: Decider, memory: Memory, *, t_s: float, stable: float, panic: float, ready: int
) -> tuple[Decision, Memory]:
    """Decide how many instances there should be.

    Parameters
    ----------
    decider : Decider
    memory : Memory
        What the last decision left.
    t_s : float
        Now; any clock that does not run backwards.
    stable, panic : float
        Averages over the two windows, of all instances together.
    ready : int
        Instances that take requests.

    Returns
    -------
    Decision, Memory

    Notes
    -----
    pkg/autoscaler/scaling/autoscaler.go. Rates are bounds on one tick; the threshold is compared with what the panic
    window asks for before those bounds.
    """
    now_ready = max(1, ready)
    most = math.ceil(decider.max_scale_up_rate * now_ready)
    least = math.floor(now_ready / decider.max_scale_down_rate) if decider.reachable else 0
    by_panic = math.ceil(panic / decider.target)
    wanted = _bounded(math.ceil(stable / decider.target), least, most, decider)
    over = by_panic / now_ready >= decider.panic_threshold
    memory = _panic(memory, over=over, t_s=t_s, window_s=decider.stable_window_s)
    if memory.panic_since_s is not None:
        wanted = max(wanted, _bounded(by_panic, least, most, decider), memory.most_in_panic)
        memory = replace(memory, most_in_panic=wanted)
    if decider.scale_down_delay_s > 0 and decider.reachable:
        wanted, memory = _delayed(wanted, memory, t_s, decider.scale_down_delay_s)
    capacity = excess_burst_capacity(decider, ready=ready, panic=panic)
    return Decision(wanted, memory.panic_since_s is not None, capacity), memory


def _bounded(wanted: int, least: int, most: int, decider: Decider) -> int:
    within = min(max(wanted, least), most)
    return max(within, decider.activation_scale) if wanted > 0 and decider.activation_scale > 1 else within


def _panic(memory: Memory, *, over: bool, t_s: float, window_s: float) -> Memory:
    """Begin, prolong or end the panic; it ends one stable window after the threshold was last crossed."""
    if over:
        return replace(memory, panic_since_s=t_s)
    if memory.panic_since_s is not None and memory.panic_since_s + window_s < t_s:
        return replace(memory, panic_since_s=None, most_in_panic=0)
    return memory


def _delayed(wanted: int, memory: Memory, t_s: float, delay_s: float) -> tuple[int, Memory]:
    """The highest number of the last ticks (a sliding maximum, one value a tick)."""
    tick = math.floor(t_s / TICK_S)
    ticks = math.ceil(delay_s / TICK_S)
    held = [one for one in memory.recent if tick - one[0] < ticks and one[1] > wanted]
    recent = (*held, (tick, wanted))
    return recent[0][1], replace(memory, recent=recent)


def excess_burst_capacity(decider: Decider, *, ready: int, panic: float) -> int:
    """Room of the ready instances less what is in flight and what must be kept free for a burst."""
    if decider.target_burst_capacity == 0:
        return 0
    if decider.target_burst_capacity < 0:
        return int(UNLIMITED_BURST)
    return math.floor(ready * decider.total - decider.target_burst_capacity - panic)


def activators(decider: Decider, *, ready: int) -> int:
    """How many activators Knative puts in front of a revision (pkg/reconciler/autoscaling/kpa)."""
    if decider.target_burst_capacity == 0:
        return LEAST_ACTIVATORS
    covered = ready * decider.total + max(0.0, decider.target_burst_capacity)
    return max(LEAST_ACTIVATORS, math.ceil(covered / decider.activator_capacity))
