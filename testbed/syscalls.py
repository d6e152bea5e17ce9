"""The few Linux calls that Python 3.11 lacks: namespaces and mounts."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

NAMESPACES = {
    "mnt": CLONE_NEWNS, "cgroup": CLONE_NEWCGROUP, "uts": CLONE_NEWUTS,
    "ipc": CLONE_NEWIPC, "pid": CLONE_NEWPID, "net": CLONE_NEWNET,
}  # fmt: skip
"""Every kind of namespace that a node has of its own, as it is called below /proc/<pid>/ns."""

MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19
MS_SHARED = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)


def _check(returned: int, what: str) -> None:
    if returned != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Give the calling process namespaces of its own (a new pid namespace begins with its next child)."""
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """Enter the namespace that `descriptor` refers to."""
    _check(_libc.setns(descriptor, kind), "setns")


def mount(source: str | Path, target: str | Path, *, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount, bind, move, or change how mounts propagate: mount(2)."""
    returned = _libc.mount(
        str(source).encode(), str(target).encode(), kind.encode() or None,
        ctypes.c_ulong(flags), data.encode() or None,
    )  # fmt: skip
    _check(returned, f"mount {kind or 'bind'} {source} on {target}")


def bind(source: str | Path, target: str | Path) -> None:
    """Let `source` appear at `target` too."""
    mount(source, target, flags=MS_BIND | MS_REC)
