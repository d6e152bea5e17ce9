"""What the control groups of an instance say: exact CPU time, memory and throttling, ended children included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NS_PER_S = 1_000_000_000
_NS_PER_US = 1000


@dataclass(frozen=True)
class Throttling:
    """CPU limit at work: enforcement periods so far, those in which it held back, and the time it held back."""

    periods: int
    throttled_periods: int
    throttled_ns: int


class ControlGroup:
    """Reads the groups of one instance, one folder per hierarchy (version 1) or one for all (version 2).

    Parameters
    ----------
    folders : sequence of Path
        What `Instance.cgroup` names; those that do not exist are ignored.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._procs = _first(folders, "cgroup.procs")
        self._cpu_v1 = _first(folders, "cpuacct.usage")
        self._cpu_stats = [folder / "cpu.stat" for folder in folders if (folder / "cpu.stat").is_file()]
        self._memory_v1 = _first(folders, "memory.usage_in_bytes")
        self._memory_v2 = _first(folders, "memory.current")

    def pids(self) -> list[int] | None:
        """Processes in it; None when the group does not exist (any more)."""
        text = _read(self._procs)
        return None if text is None else [int(pid) for pid in text.split()]

    def cpu_ns(self) -> int | None:
        """CPU time of all that ever was in it."""
        text = _read(self._cpu_v1)
        if text is not None:
            return int(text)
        for path in self._cpu_stats:
            (used_us,) = _numbers(_read(path) or b"", b"usage_usec")
            if used_us is not None:
                return used_us * _NS_PER_US
        return None

    def memory_bytes(self) -> int | None:
        """Memory charged to it without the file cache, which is given back when others need it.

        Shared memory counts: the kernel books it as cache, but cannot give it back.
        """
        for path, cache, shared in (
            (self._memory_v1, b"total_cache", b"total_shmem"),
            (self._memory_v2, b"file", b"shmem"),
        ):
            used = _read(path)
            if used is not None and path is not None:
                cached, kept = _numbers(_read(path.parent / "memory.stat") or b"", cache, shared)
                return max(0, int(used) - (cached or 0) + (kept or 0))
        return None

    def throttling(self) -> Throttling | None:
        """None where no CPU limit can be set."""
        for path in self._cpu_stats:
            periods, throttled, v1_ns, v2_us = _numbers(
                _read(path) or b"", b"nr_periods", b"nr_throttled", b"throttled_time", b"throttled_usec"
            )
            if periods is not None:
                held_back_ns = v1_ns if v1_ns is not None else (v2_us or 0) * _NS_PER_US
                return Throttling(periods, throttled or 0, held_back_ns)
        return None


def _first(folders: Sequence[Path], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        # Neither pathlib nor a buffer nor decoding: each costs as much as the reading, some hundred times a second.
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            return file.read()
    except OSError:  # removed, perhaps between open and read
        return None


def _numbers(text: bytes, *names: bytes) -> list[int | None]:
    """Pick from lines of a word and a number; the files have dozens of lines of which two are needed."""
    text = b"\n" + text
    found: list[int | None] = []
    for name in names:
        _, here, rest = text.partition(b"\n" + name + b" ")
        found.append(int(rest.partition(b"\n")[0]) if here else None)
    return found
