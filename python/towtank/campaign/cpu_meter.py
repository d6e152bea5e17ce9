"""How much CPU a process and all that it started use, watched from a thread."""

from __future__ import annotations

import threading
import time
from typing import Self

from towtank.campaign import processes

_INTERVAL_S = 0.25


class CpuMeter:
    """CPU of a process and its descendants, read four times a second from a thread; a context manager.

    Parameters
    ----------
    pid : int
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._readings: list[tuple[float, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="driver-cpu", daemon=True)

    def __enter__(self) -> Self:
        self._read()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def total_s(self) -> float:
        """CPU seconds seen; what was used after the last reading is missing."""
        return self._readings[-1][1] if self._readings else 0.0

    @property
    def busiest_cores(self) -> float:
        """Cores used in the busiest second or more between two readings."""
        busiest, first = 0.0, 0
        for moment, used in self._readings:
            while moment - self._readings[first][0] >= 1.0:
                past, before = self._readings[first]
                busiest = max(busiest, (used - before) / (moment - past))
                first += 1
        return busiest

    def _watch(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            self._read()

    def _read(self) -> None:
        found = processes.tree(self._pid, processes.all_stats())
        used = sum(stat.cpu_s + stat.reaped_cpu_s for stat in found)
        if found and used >= self.total_s:
            self._readings.append((time.monotonic(), used))
