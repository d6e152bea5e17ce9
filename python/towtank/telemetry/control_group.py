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
        for values in map(_read_table, self._cpu_stats):
            if "usage_usec" in values:
                return values["usage_usec"] * _NS_PER_US
        return None

    def memory_bytes(self) -> int | None:
        """Memory charged to it without the file cache, which is given back when others need it.

        Shared memory counts: the kernel books it as cache, but cannot give it back.
        """
        for path, cache, shared in (
            (self._memory_v1, "total_cache", "total_shmem"),
            (self._memory_v2, "file", "shmem"),
        ):
            used = _read(path)
            if used is not None and path is not None:
                stat = _read_table(path.parent / "memory.stat")
                return max(0, int(used) - stat.get(cache, 0) + stat.get(shared, 0))
        return None

    def throttling(self) -> Throttling | None:
        """None where no CPU limit can be set."""
        for values in map(_read_table, self._cpu_stats):
            if "nr_periods" in values:
                ns = values.get("throttled_time", values.get("throttled_usec", 0) * _NS_PER_US)
                return Throttling(values["nr_periods"], values["nr_throttled"], ns)
        return None


def _first(folders: Sequence[Path], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _read(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 - pathlib costs as much as the reading
            return file.read()
    except OSError:  # removed, perhaps between open and read
        return None


def _read_table(path: Path) -> dict[str, int]:
    """Read lines of a word and a number."""
    rows = (line.split() for line in (_read(path) or "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2}
