"""What a process and all that it starts take: memory at its highest, and processor time, watched from outside."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import psutil

LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Look:
    """What was held at an instant of the wall clock, and the processor time until then."""

    at_s: float
    bytes_of: dict[str, int]
    """Name of a program → bytes."""
    cpu_s: float

    @property
    def held_bytes(self) -> int:
        """All of them together."""
        return sum(self.bytes_of.values())


class Footprint:
    """Watches a process and its descendants in a thread of its own until it ends or `stop` is called.

    Memory is their proportional share (PSS) added up, so that pages that two of them share count once. A process that
    lives for less than a look is not seen.
    """

    def __init__(self, pid: int) -> None:
        self.looks: list[Look] = []
        self._root = psutil.Process(pid)
        self._cpu_s: dict[tuple[int, float], float] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._ending.set()
        self._thread.join()

    def peak(self, since_s: float, until_s: float) -> Look:
        """The look between two instants at which most was held."""
        between = [look for look in self.looks if since_s <= look.at_s <= until_s]
        assert between, f"nothing was seen between {since_s} and {until_s}"
        return max(between, key=lambda look: look.held_bytes)

    def cores(self, since_s: float, until_s: float) -> float:
        """Processor time per second between two instants."""
        between = [look for look in self.looks if since_s <= look.at_s <= until_s]
        assert len(between) > 1, f"too little was seen between {since_s} and {until_s}"
        first, last = between[0], between[-1]
        return (last.cpu_s - first.cpu_s) / (last.at_s - first.at_s)

    def _watch(self) -> None:
        while not self._ending.wait(LOOK_EVERY_S):
            with suppress(psutil.NoSuchProcess):
                self._look([self._root, *self._root.children(recursive=True)])

    def _look(self, processes: list[psutil.Process]) -> None:
        held: dict[str, int] = {}
        for process in processes:
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                name = process.name()
                held[name] = held.get(name, 0) + process.memory_full_info().pss
                used = process.cpu_times()
                self._cpu_s[process.pid, process.create_time()] = used.user + used.system
        self.looks.append(Look(time.time(), held, sum(self._cpu_s.values())))
