"""What /proc says of single processes, and whole trees of them, counted so that nothing is lost or counted twice.

psutil offers the same per process, at ten times the cost; telemetry must not be a load of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_DEEPEST = 64
"""Generations below a root; deeper is a loop in what we remember of processes that are gone."""


class Stat(NamedTuple):
    """One line of /proc/PID/stat; see proc_pid_stat(5).

    `own_ticks` is the process's CPU time (utime + stime); `children_ticks` that of children that ended and
    were waited for (cutime + cstime), their own such children included.
    """

    pid: int
    ppid: int
    own_ticks: int
    children_ticks: int
    threads: int
    start_ticks: int
    memory_bytes: int

    @property
    def identity(self) -> tuple[int, int]:
        """A pid comes back with another process; a pid with its start time does not, until the next boot."""
        return self.pid, self.start_ticks


def read_stat(pid: int) -> Stat | None:
    """Read one process; None when it is gone (a zombie is: it has ended)."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - pathlib costs as much as the reading
            line = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name may contain blanks and brackets; fields start behind the last one.
    fields = line[line.rfind(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Stat(
        pid=pid,
        ppid=int(fields[1]),
        own_ticks=int(fields[11]) + int(fields[12]),
        children_ticks=int(fields[13]) + int(fields[14]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
        memory_bytes=int(fields[21]) * PAGE_BYTES,
    )


def read_io(pid: int) -> tuple[int, int] | None:
    """Bytes that a process caused to be read from and written to storage; None when gone or not permitted.

    Like CPU time, those of children that ended are added when they are waited for.
    """
    try:
        with open(f"/proc/{pid}/io", "rb", buffering=0) as file:  # noqa: PTH123
            values = dict(line.split(b": ") for line in file.read().splitlines())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return int(values[b"read_bytes"]), int(values[b"write_bytes"])


def count_open_files(pid: int) -> int:
    """Open descriptors; 0 when gone or not permitted."""
    try:
        # Linux ≥ 6.2 says the number itself as the size of the folder; older ones say 0.
        return os.stat(f"/proc/{pid}/fd").st_size or len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH116, PTH208
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0


def children(pid: int) -> Iterator[int]:
    """Direct children of all threads of a process."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except (FileNotFoundError, ProcessLookupError):
        return
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                yield from map(int, file.read().split())
        except (FileNotFoundError, ProcessLookupError):
            continue


def descend(roots: Iterable[Stat], *, enter: Callable[[Stat], bool] = lambda _: True) -> dict[int, Stat]:
    """Collect processes and all their descendants: pid → stat.

    Parameters
    ----------
    roots : iterable of Stat
    enter : callable
        False for a process whose children do not belong to it.
    """
    found: dict[int, Stat] = {}
    pending = list(roots)
    while pending:
        stat = pending.pop()
        if stat.pid in found:
            continue
        found[stat.pid] = stat
        if enter(stat):
            pending.extend(child for pid in children(stat.pid) if (child := read_stat(pid)) is not None)
    return found


class TreeCounter:
    """Adds up a counter over a changing set of processes whose parents inherit the counts of ended children.

    A process's value holds its own count and that of the children it has waited for. So when a process is gone,
    its count is found again in its nearest living ancestor; when there is none among ours (it was an orphan), its
    last value is kept. Counts of children that nobody waited for are lost, as they are for the kernel.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], tuple[int, int]] = {}
        self._sum = 0
        self.total = 0

    def update(self, values: Mapping[tuple[int, int], tuple[int, int]]) -> int:
        """Take a new reading and return the total since the first one.

        Parameters
        ----------
        values : mapping
            Identity (pid, start time) → parent's pid, and count.
        """
        living = {pid for pid, _ in values}
        parents = {pid: parent for (pid, _), (parent, _) in self._last.items()}
        orphaned = sum(
            count
            for identity, (parent, count) in self._last.items()
            if identity not in values and not _has_living_ancestor(parent, living, parents)
        )
        new_sum = sum(count for _, count in values.values())
        if self._last:
            self.total += max(0, new_sum + orphaned - self._sum)
        self._last, self._sum = dict(values), new_sum
        return self.total


def _has_living_ancestor(pid: int, living: set[int], parents: Mapping[int, int]) -> bool:
    for _ in range(_DEEPEST):
        if pid in living:
            return True
        if pid not in parents:
            return False
        pid = parents[pid]
    return False
