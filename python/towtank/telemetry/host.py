"""The `host` source: this machine, and what share of its load is Towtank's own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from towtank.errors import TelemetryError
from towtank.telemetry.base import ObserveContext, Sample
from towtank.telemetry.options import HostOptions, read_options
from towtank.telemetry.procfs import TICKS_PER_S, Stat, descend, read_stat

LOOPBACK = "lo"
_NS_PER_S = 1_000_000_000
_PRESSURE = {name: Path("/proc/pressure") / name for name in ("cpu", "memory", "io")}
_VIRTUAL_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""Their traffic is that of another disk, or none."""


class HostSource:
    """Samples CPU, memory, disks, network and pressure stall of the machine.

    Ratios of CPU time are shares of all CPUs together. *Own* is the CPU of Towtank's processes (orchestrator,
    engine, guard) and their descendants, but not of the instances that the guard runs.
    """

    name = "host"

    def __init__(self) -> None:
        self._cpus = 1
        self._disks: frozenset[str] = frozenset()
        self._pressure: tuple[str, ...] = ()
        self._own = _OwnShare((), ())
        self._last: _Counters | None = None

    def start(self, context: ObserveContext) -> None:
        """Find out what this machine offers, and take the first reading of counters."""
        options = read_options(self.name, HostOptions, context.options)
        self._cpus = os.cpu_count() or 1
        self._disks = frozenset(_whole_disks())
        self._pressure = tuple(n for n in _PRESSURE if _read_pressure(n)) if options.pressure else ()
        self._own = _OwnShare(context.own_pids, [i.pid for i in context.instances if i.pid is not None])
        try:
            self._last = self._count()
        except (OSError, psutil.Error) as error:
            raise TelemetryError(
                f"the telemetry source 'host' cannot read this machine's counters: {error}",
                hint="is /proc mounted and readable?",
            ) from error

    def sample(self, t_us: int) -> Iterable[Sample]:
        """Read once; rates are means since the previous reading."""
        counters = self._count()
        last, self._last = self._last, counters
        values = self._levels()
        if last is not None and counters.t_ns > last.t_ns:
            values.update(self._rates(last, counters))
        return [Sample(t_us, self.name, "", metric, value) for metric, value in values.items()]

    def close(self) -> Iterable[Sample]:
        """Nothing is held back."""
        self._last = None
        return ()

    def _count(self) -> _Counters:
        network = psutil.net_io_counters(pernic=True, nowrap=False)
        disks = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
        return _Counters(
            t_ns=time.monotonic_ns(),
            cpu=_cpu_seconds(),
            own_cpu_s=self._own.cpu_s(),
            context_switches=psutil.cpu_stats().ctx_switches,
            disk_read_bytes=sum(c.read_bytes for name, c in disks.items() if name in self._disks),
            disk_write_bytes=sum(c.write_bytes for name, c in disks.items() if name in self._disks),
            received_bytes=sum(c.bytes_recv for name, c in network.items() if name != LOOPBACK),
            sent_bytes=sum(c.bytes_sent for name, c in network.items() if name != LOOPBACK),
            loopback_bytes=network[LOOPBACK].bytes_sent if LOOPBACK in network else 0,
            stalled_us={name: _read_pressure(name) for name in self._pressure},
        )

    def _levels(self) -> dict[str, float]:
        memory = psutil.virtual_memory()
        return {
            "load_1m": os.getloadavg()[0],
            "memory_used_bytes": memory.total - memory.available,
            "memory_available_bytes": memory.available,
        }

    def _rates(self, last: _Counters, now: _Counters) -> dict[str, float]:
        elapsed_s = (now.t_ns - last.t_ns) / _NS_PER_S
        return {
            **self._cpu_rates(last, now, elapsed_s),
            "context_switches_per_s": (now.context_switches - last.context_switches) / elapsed_s,
            "disk_read_bytes_per_s": (now.disk_read_bytes - last.disk_read_bytes) / elapsed_s,
            "disk_write_bytes_per_s": (now.disk_write_bytes - last.disk_write_bytes) / elapsed_s,
            "network_received_bytes_per_s": (now.received_bytes - last.received_bytes) / elapsed_s,
            "network_sent_bytes_per_s": (now.sent_bytes - last.sent_bytes) / elapsed_s,
            "loopback_bytes_per_s": (now.loopback_bytes - last.loopback_bytes) / elapsed_s,
            **{
                f"pressure_{name}_{who}_ratio": (value - last.stalled_us[name].get(who, value))
                / 1e6
                / elapsed_s
                for name, stalled in now.stalled_us.items()
                for who, value in stalled.items()
            },
        }

    def _cpu_rates(self, last: _Counters, now: _Counters, elapsed_s: float) -> dict[str, float]:
        spent = {name: max(0.0, now.cpu[name] - last.cpu[name]) for name in now.cpu}
        total_s = sum(spent.values())
        if total_s <= 0:  # a tick of the kernel's clock has not gone by yet
            return {}
        busy = 1.0 - (spent["idle"] + spent["iowait"] + spent["steal"]) / total_s
        own_cores = max(0.0, now.own_cpu_s - last.own_cpu_s) / elapsed_s
        return {
            "cpu_user_ratio": (spent["user"] + spent["nice"]) / total_s,
            "cpu_system_ratio": (spent["system"] + spent["irq"] + spent["softirq"]) / total_s,
            "cpu_iowait_ratio": spent["iowait"] / total_s,
            "cpu_steal_ratio": spent["steal"] / total_s,
            "cpu_busy_ratio": busy,
            "cpu_cores": busy * self._cpus,
            "cpu_own_cores": own_cores,
            "cpu_own_ratio": own_cores / self._cpus,
            "cpu_without_own_ratio": max(0.0, busy - own_cores / self._cpus),
        }


@dataclass(frozen=True)
class _Counters:
    """The machine's counters at a moment."""

    t_ns: int
    cpu: Mapping[str, float]
    own_cpu_s: float
    context_switches: int
    disk_read_bytes: int
    disk_write_bytes: int
    received_bytes: int
    sent_bytes: int
    loopback_bytes: int
    stalled_us: Mapping[str, Mapping[str, int]]


class _OwnShare:
    """CPU time of Towtank's processes.

    The guard is one of ours, but what it runs is the system under test: below a parent of an instance only the
    parent itself counts. Time of ended children is left out for the same reason: the guard inherits that of
    instances.
    """

    def __init__(self, own_pids: Iterable[int], instance_pids: Iterable[int]) -> None:
        self._roots = {pid: stat.start_ticks for pid in own_pids if (stat := read_stat(pid)) is not None}
        instances = [stat for pid in instance_pids if (stat := read_stat(pid)) is not None]
        self._guards = {stat.ppid for stat in instances}
        self._last: dict[tuple[int, int], int] = {}
        self._ticks = 0

    def cpu_s(self) -> float:
        """CPU seconds since the first call."""
        roots = [
            stat
            for pid, start_ticks in self._roots.items()
            if (stat := read_stat(pid)) is not None and stat.start_ticks == start_ticks
        ]
        now = {stat.identity: stat.own_ticks for stat in descend(roots, enter=self._enter).values()}
        if self._last:
            # A process that is new has spent all it has since the last look.
            self._ticks += sum(ticks - self._last.get(who, 0) for who, ticks in now.items())
        self._last = now
        return self._ticks / TICKS_PER_S

    def _enter(self, stat: Stat) -> bool:
        return stat.pid not in self._guards


def _cpu_seconds() -> dict[str, float]:
    """CPU time of the machine by kind; guest time is part of user time and not counted twice."""
    times = psutil.cpu_times()
    return {
        name: getattr(times, name, 0.0)
        for name in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    }


def _whole_disks() -> Iterable[str]:
    """Disks whose traffic is counted once: no partitions, nothing that lies on another disk."""
    folder = Path("/sys/block")
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [name for name in names if not name.startswith(_VIRTUAL_DISKS)]


def _read_pressure(name: str) -> dict[str, int]:
    """Stalled time since boot, µs, of some and of all tasks; empty where the kernel does not offer it."""
    try:
        lines = _PRESSURE[name].read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    return {line.split()[0]: int(line.rpartition("total=")[2]) for line in lines}
