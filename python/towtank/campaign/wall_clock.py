"""How the time of day relates to the monotonic clock, and how well that is known: for records with times of day."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class WallClock:
    """How the time of day relates to CLOCK_MONOTONIC.

    Parameters
    ----------
    offset_ns : int
        Time of day − monotonic time, ns.
    uncertainty_ns : int
        The offset is known to ± this.
    """

    offset_ns: int
    uncertainty_ns: int

    @classmethod
    def read(cls) -> Self:
        """Read both clocks; of several readings the one with the shortest way around."""
        readings = []
        for _ in range(5):
            before = time.monotonic_ns()
            wall = time.time_ns()
            after = time.monotonic_ns()
            readings.append((after - before, wall - (before + after) // 2))
        width, offset = min(readings)
        return cls(offset, width // 2 + 1)

    def with_later(self, later: WallClock) -> WallClock:
        """The relation over a time: what the clocks drifted apart in between is uncertain."""
        drift = abs(later.offset_ns - self.offset_ns)
        middle = (self.offset_ns + later.offset_ns) // 2
        return WallClock(middle, max(self.uncertainty_ns, later.uncertainty_ns) + (drift + 1) // 2)
