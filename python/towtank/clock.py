"""The run clock: CLOCK_MONOTONIC with its zero at the instant the load starts."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunClock:
    """Turns instants of CLOCK_MONOTONIC into run time.

    Parameters
    ----------
    zero_ns : int
        CLOCK_MONOTONIC at the start of the load, nanoseconds. Chosen before the engine starts.
    """

    zero_ns: int

    def now_us(self) -> int:
        """Run time now, µs; negative before the load starts."""
        return self.at_us(time.monotonic_ns())

    def at_us(self, monotonic_ns: int) -> int:
        """Run time of an instant of CLOCK_MONOTONIC, µs."""
        return (monotonic_ns - self.zero_ns) // 1000


def boot_id() -> str:
    """Tell two boots of this machine apart: monotonic times and pids mean nothing across them."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def machine_id() -> str:
    """This machine's id, hashed: it tells machines apart and cannot be traced back; "unknown" where there is none."""
    try:
        known = Path("/etc/machine-id").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        known = ""
    return hashlib.sha256(f"towtank {known}".encode()).hexdigest()[:12] if known else "unknown"
