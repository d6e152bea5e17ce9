"""What this machine did between two moments: CPU used by us, by the deployment, by others; clocks."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from towtank.campaign import processes

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_ENGINE_NAME = "towtank-engine"  # of the engine and its guards, as far as the kernel keeps names
_COMM_LENGTH = 15


@dataclass(frozen=True)
class Moment:
    """A reading of counters; times in seconds unless named otherwise.

    Parameters
    ----------
    monotonic_ns : int
    busy_s, steal_s : float
        CPU time of the whole machine since boot: not idle, and taken away by the hypervisor.
    own_s : float
        CPU of Towtank itself: this process, its engine and its guards.
    tree_s : float
        CPU of this process and everything below it, ended children included: Towtank and its deployments.
    wall_offset_ns, boot_offset_ns : int
        CLOCK_REALTIME and CLOCK_BOOTTIME minus CLOCK_MONOTONIC.
    """

    monotonic_ns: int
    busy_s: float
    steal_s: float
    own_s: float
    tree_s: float
    wall_offset_ns: int
    boot_offset_ns: int


@dataclass(frozen=True)
class Interval:
    """What happened between two moments; shares are of the whole machine, 0–1."""

    seconds: float
    cores: int
    busy_ratio: float
    own_ratio: float
    deployment_ratio: float
    foreign_ratio: float
    steal_ratio: float
    wall_step_us: int
    suspended_us: int

    @property
    def without_own_ratio(self) -> float:
        """Share used by all but Towtank itself: what `settle: {until: {cpu_below}}` means."""
        return max(0.0, self.busy_ratio - self.own_ratio)


def now() -> Moment:
    """Read all counters; costs a few milliseconds of a scan of /proc."""
    stats = processes.all_stats()
    mine = processes.tree(os.getpid(), stats)
    busy_s, steal_s = _machine_cpu()
    monotonic = time.monotonic_ns()
    return Moment(
        monotonic_ns=monotonic,
        busy_s=busy_s,
        steal_s=steal_s,
        own_s=sum(stat.cpu_s for stat in mine if stat.pid == os.getpid() or _is_ours(stat.name)),
        tree_s=_tree_cpu(mine),
        wall_offset_ns=_offset(time.CLOCK_REALTIME),
        boot_offset_ns=_offset(time.CLOCK_BOOTTIME),
    )


def between(before: Moment, after: Moment) -> Interval:
    """Compare two moments."""
    seconds = max((after.monotonic_ns - before.monotonic_ns) / 1e9, 1e-9)
    cores = os.cpu_count() or 1
    capacity = seconds * cores

    def share(amount: float) -> float:
        return min(1.0, max(0.0, amount / capacity))

    busy = after.busy_s - before.busy_s
    own = after.own_s - before.own_s
    tree = after.tree_s - before.tree_s
    return Interval(
        seconds=seconds,
        cores=cores,
        busy_ratio=share(busy),
        own_ratio=share(own),
        deployment_ratio=share(tree - own),
        foreign_ratio=share(busy - tree),
        steal_ratio=share(after.steal_s - before.steal_s),
        wall_step_us=(after.wall_offset_ns - before.wall_offset_ns) // 1000,
        suspended_us=(after.boot_offset_ns - before.boot_offset_ns) // 1000,
    )


def _tree_cpu(mine: Iterable[processes.Stat]) -> float:
    """CPU of a tree. A child's time moves to its parent's `reaped` when it ends, so the sum is steady."""
    return sum(stat.cpu_s + stat.reaped_cpu_s for stat in mine)


def _machine_cpu() -> tuple[float, float]:
    """Busy and stolen time of all CPUs, seconds; fields as in proc(5): guest time is part of user."""
    line = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in line[:8])
    return (user + nice + system + irq + softirq) / _TICKS_PER_S, steal / _TICKS_PER_S


def _is_ours(name: str) -> bool:
    return name == _ENGINE_NAME[:_COMM_LENGTH]


def _offset(clock: int) -> int:
    """A clock minus CLOCK_MONOTONIC, ns; the tightest of three tries, so that preemption adds nothing."""
    best: tuple[int, int] | None = None
    for _ in range(3):
        first = time.monotonic_ns()
        there = time.clock_gettime_ns(clock)
        second = time.monotonic_ns()
        if best is None or second - first < best[0]:
            best = (second - first, there - (first + second) // 2)
    return best[1] if best else 0
