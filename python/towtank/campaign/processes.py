"""Processes by identity: a pid alone means nothing, because the kernel gives it away again.

A process is ours when its environment carries our token (``TOWTANK_TOKEN``), or when pid, start time and
boot id are those that we wrote down. Signals go through a pidfd, so that they cannot hit a successor.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TOKEN_VARIABLE = "TOWTANK_TOKEN"  # noqa: S105 - a name, not a secret
_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_ROUNDS = 20
"""How often a tree is scanned again, because it may fork while it is being ended."""


@dataclass(frozen=True)
class Stat:
    """What /proc/PID/stat says; CPU times in seconds."""

    pid: int
    name: str
    state: str
    parent: int
    start_ticks: int
    cpu_s: float
    reaped_cpu_s: float
    """CPU of children that have ended and were waited for."""


def read_stat(pid: int) -> Stat | None:
    """Read a process; None when it is gone.

    Fields as in proc(5): 2 comm, 3 state, 4 ppid, 14/15 utime/stime, 16/17 cutime/cstime, 22 starttime.
    """
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    opening, closing = text.index("("), text.rindex(")")
    fields = text[closing + 2 :].split()
    return Stat(
        pid=pid,
        name=text[opening + 1 : closing],
        state=fields[0],
        parent=int(fields[1]),
        start_ticks=int(fields[19]),
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_PER_S,
        reaped_cpu_s=(int(fields[13]) + int(fields[14])) / _TICKS_PER_S,
    )


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None when it has ended, reaped or not."""
    stat = read_stat(pid)
    return stat.start_ticks if stat is not None and stat.state not in "ZX" else None


def all_stats() -> list[Stat]:
    """Every process that can be read."""
    return [stat for pid in _pids() if (stat := read_stat(pid)) is not None]


def tree(root: int, stats: Iterable[Stat]) -> list[Stat]:
    """A process and all its descendants."""
    children: dict[int, list[Stat]] = {}
    found: list[Stat] = []
    for stat in stats:
        children.setdefault(stat.parent, []).append(stat)
        if stat.pid == root:
            found.append(stat)
    for stat in found:  # grows while it is walked
        found.extend(children.get(stat.pid, ()))
    return found


def with_token(token: str) -> list[int]:
    """Pids of all processes whose environment carries this token."""
    mark = f"{TOKEN_VARIABLE}={token}".encode()
    return [pid for pid in _pids() if pid != os.getpid() and _marked(pid, mark)]


def end_marked(token: str, *, grace_s: float = 0.0) -> int:
    """End every process with this token: SIGTERM, `grace_s`, SIGKILL; the number of processes ended."""
    mark = f"{TOKEN_VARIABLE}={token}".encode()
    ended: set[int] = set()
    if grace_s > 0:
        first = with_token(token)
        for pid in first:
            if _signal(pid, mark, signal.SIGTERM):
                ended.add(pid)
        _wait_gone(token, grace_s if first else 0.0)
    for _ in range(_ROUNDS):
        pids = with_token(token)
        if not pids:
            break
        for pid in pids:
            if _signal(pid, mark, signal.SIGKILL):
                ended.add(pid)
        _wait_gone(token, 0.5)
    return len(ended)


def _signal(pid: int, mark: bytes, number: signal.Signals) -> bool:
    """Signal a process if it carries the mark; checked *after* the pidfd is held, so no successor is hit."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not _marked(pid, mark):
            return False
        signal.pidfd_send_signal(handle, number)
        if number == signal.SIGKILL:
            select.select([handle], [], [], 1.0)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(handle)


def _wait_gone(token: str, longest_s: float) -> None:
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline and with_token(token):
        time.sleep(0.01)


def _marked(pid: int, mark: bytes) -> bool:
    """Whether the environment carries the mark; a zombie has none and counts as gone."""
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return mark in environment.split(b"\0")


def _pids() -> Iterator[int]:
    with contextlib.suppress(OSError):
        for entry in os.listdir(_PROC):  # noqa: PTH208 - iterdir is three times slower here
            if entry.isdigit():
                yield int(entry)
