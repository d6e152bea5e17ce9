"""The `process` source: every local instance with all its processes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from towtank.platforms.base import HasChangingInstances, Instance
from towtank.telemetry.base import Event, ObserveContext, Sample
from towtank.telemetry.control_group import NS_PER_S, ControlGroup, Throttling
from towtank.telemetry.options import ProcessOptions, read_options
from towtank.telemetry.procfs import (
    TICKS_PER_S,
    Stat,
    TreeCounter,
    count_open_files,
    descend,
    read_io,
    read_stat,
)


class ProcessSource:
    """Samples CPU, memory, threads, descriptors and storage traffic per instance.

    The whole tree of processes counts, also children that ended between two samples. An instance with a control
    group is read from there, exactly; otherwise its tree is walked. Instances that are not on this machine are
    left out and said to be with an event `not_observable`; one whose processes are all gone yields nothing and
    an event `vanished`.
    """

    name = "process"

    def __init__(self) -> None:
        self._readers: list[_Reader] = []
        self._events: list[Event] = []
        self._changing: HasChangingInstances | None = None
        self._came: set[str] = set()
        self._open_files = True

    def start(self, context: ObserveContext) -> None:
        """Take the first reading of every instance's counters."""
        options = read_options(self.name, ProcessOptions, context.options)
        now_ns = time.monotonic_ns()
        t_us = context.clock.at_us(now_ns)
        self._readers, self._events, self._came = [], [], set()
        self._open_files = options.open_files
        self._changing = context.deployment if isinstance(context.deployment, HasChangingInstances) else None
        for instance in context.instances:
            if instance.pid is None and not instance.cgroup:
                message = f"{instance.name} is not a process of this machine"
                self._events.append(Event(t_us, self.name, "not_observable", instance.name, message))
                continue
            self._follow(instance, now_ns, t_us)
        self._follow_changes(now_ns, t_us)

    def _follow(self, instance: Instance, now_ns: int, t_us: int) -> None:
        reader = _Reader(instance, open_files=self._open_files)
        self._readers.append(reader)
        self._look(reader, now_ns, t_us)

    def _follow_changes(self, now_ns: int, t_us: int) -> None:
        """Begin with instances that have come, and let go of those that were meant to come and go and are gone."""
        if self._changing is None:
            return
        there = {instance.name: instance for instance in self._changing.instances_now()}
        known = {reader.instance.name for reader in self._readers}
        self._readers = [
            r for r in self._readers if r.instance.name not in self._came or r.instance.name in there
        ]
        for name in there.keys() - known:
            self._came.add(name)
            self._follow(there[name], now_ns, t_us)

    def sample(self, t_us: int) -> Iterable[Sample]:
        """Read every instance once; rates are means since the previous reading."""
        found: list[Sample] = []
        self._follow_changes(time.monotonic_ns(), t_us)
        for reader in self._readers:
            values = self._look(reader, time.monotonic_ns(), t_us)
            name = reader.instance.name
            found.extend(Sample(t_us, self.name, name, metric, value) for metric, value in values.items())
        return found

    def events(self) -> Iterable[Event]:
        """What was noticed since the last call."""
        events, self._events = self._events, []
        return events

    def close(self) -> Iterable[Sample]:
        """Nothing is held back."""
        self._readers = []
        return ()

    def _look(self, reader: _Reader, now_ns: int, t_us: int) -> dict[str, float]:
        values = reader.read(now_ns)
        for kind, message in reader.noticed:
            self._events.append(Event(t_us, self.name, kind, reader.instance.name, message))
        reader.noticed.clear()
        return values


@dataclass(frozen=True)
class _Counters:
    """Counters of an instance at a moment; rates are differences of two."""

    t_ns: int
    cpu_ns: int
    read_bytes: int
    write_bytes: int
    throttling: Throttling | None


class _Reader:
    """Follows one instance."""

    def __init__(self, instance: Instance, *, open_files: bool) -> None:
        self.instance = instance
        self.noticed: list[tuple[str, str]] = []
        self._open_files = open_files
        self._group = ControlGroup(instance.cgroup) if instance.cgroup else None
        # Decided once: totals of a group and of a tree have different zeros.
        self._exact = self._group is not None and self._group.cpu_ns() is not None
        self._known: dict[int, Stat] = {}
        self._cpu = TreeCounter()
        self._read = TreeCounter()
        self._written = TreeCounter()
        self._last: _Counters | None = None
        self._main: tuple[int, int] | None = None
        self._restarts = 0
        self._vanished = False

    def read(self, now_ns: int) -> dict[str, float]:
        """Metrics now; empty for the first reading, for a vanished instance and for no time at all."""
        tree = self._tree()
        if not tree:
            self._note_vanished()
            return {}
        self._vanished = False
        self._follow_main(tree)
        counters = self._count(tree, now_ns)
        last, self._last = self._last, counters
        if last is None or counters.t_ns <= last.t_ns:
            return {}
        return {**self._levels(tree), **_rates(last, counters)}

    def _tree(self) -> dict[int, Stat]:
        """Living processes of the instance."""
        pids = self._group.pids() if self._group is not None else None
        if pids is not None:
            return {pid: stat for pid in pids if (stat := read_stat(pid)) is not None}
        candidates = [(self.instance.pid, self.instance.start_ticks)] if self.instance.pid else []
        # Whoever was once a descendant stays one, also when its parent has ended and it hangs elsewhere.
        candidates += [stat.identity for stat in self._known.values()]
        roots = []
        for pid, start_ticks in dict(candidates).items():
            stat = read_stat(pid)
            if stat is not None and start_ticks in (None, stat.start_ticks):
                roots.append(stat)
        self._known = descend(roots)
        return self._known

    def _note_vanished(self) -> None:
        if not self._vanished:
            self._vanished = True
            self.noticed.append(("vanished", f"no process of {self.instance.name} is left"))
        self._last = None

    def _follow_main(self, tree: dict[int, Stat]) -> None:
        """Notice when the main process, the oldest one, was replaced by another."""
        main = tree.get(self._main[0]) if self._main else tree.get(self.instance.pid or -1)
        if main is not None and (self._main is None or main.identity == self._main):
            self._main = main.identity
            return
        oldest = min(tree.values(), key=lambda stat: stat.start_ticks)
        if self._main is not None:
            self._restarts += 1
            message = f"process {self._main[0]} of {self.instance.name} ended; {oldest.pid} is its oldest now"
            self.noticed.append(("restarted", message))
        self._main = oldest.identity

    def _count(self, tree: dict[int, Stat], now_ns: int) -> _Counters:
        traffic = {s.identity: (s.ppid, io) for s in tree.values() if (io := read_io(s.pid)) is not None}
        read = self._read.update({who: (ppid, io[0]) for who, (ppid, io) in traffic.items()})
        written = self._written.update({who: (ppid, io[1]) for who, (ppid, io) in traffic.items()})
        throttling = self._group.throttling() if self._group is not None else None
        return _Counters(now_ns, self._cpu_ns(tree), read, written, throttling)

    def _cpu_ns(self, tree: dict[int, Stat]) -> int:
        """CPU time since some moment of the past."""
        if self._exact and self._group is not None:
            before = self._last.cpu_ns if self._last is not None else 0
            return self._group.cpu_ns() or before  # a group that was just removed: no more than before
        spent = {s.identity: (s.ppid, s.own_ticks + s.children_ticks) for s in tree.values()}
        return self._cpu.update(spent) * NS_PER_S // TICKS_PER_S

    def _levels(self, tree: dict[int, Stat]) -> dict[str, float]:
        memory = self._group.memory_bytes() if self._group is not None else None
        if memory is None:
            memory = sum(stat.memory_bytes for stat in tree.values())
        levels: dict[str, float] = {
            "memory_bytes": memory,
            "processes": len(tree),
            "threads": sum(stat.threads for stat in tree.values()),
            "restarts": self._restarts,
        }
        if self._open_files:
            levels["open_files"] = sum(map(count_open_files, tree))
        return levels


def _rates(last: _Counters, now: _Counters) -> dict[str, float]:
    """Means over the time between two readings."""
    elapsed_ns = now.t_ns - last.t_ns
    per_s = NS_PER_S / elapsed_ns
    rates = {
        "cpu_cores": max(0, now.cpu_ns - last.cpu_ns) / elapsed_ns,
        "disk_read_bytes_per_s": (now.read_bytes - last.read_bytes) * per_s,
        "disk_write_bytes_per_s": (now.write_bytes - last.write_bytes) * per_s,
    }
    if last.throttling is not None and now.throttling is not None:
        periods = now.throttling.periods - last.throttling.periods
        throttled = now.throttling.throttled_periods - last.throttling.throttled_periods
        rates["cpu_throttled_ratio"] = throttled / periods if periods > 0 else 0.0
        rates["cpu_throttled_s_per_s"] = (
            now.throttling.throttled_ns - last.throttling.throttled_ns
        ) / elapsed_ns
    return rates
