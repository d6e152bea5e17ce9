"""Whether this machine can carry the testbed: asked, and where that is not enough tried out beforehand."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from testbed import binaries, cgroups, syscalls
from testbed.errors import NotPossibleError
from testbed.settings import Folders

KERNEL_MESSAGES = Path("/dev/kmsg")
"""The kubelet reads it to learn of processes that ran out of memory, and does not start without it."""


def check(folders: Folders) -> None:
    """Refuse a machine on which the testbed cannot be isolated. Nothing is changed.

    Raises
    ------
    NotPossibleError
        What is missing.
    """
    if sys.platform != "linux":
        raise NotPossibleError(f"the testbed needs Linux, this is {sys.platform}")
    if os.geteuid() != 0:
        raise NotPossibleError("the testbed needs root (namespaces, mounts, control groups)")
    if not KERNEL_MESSAGES.exists():
        raise NotPossibleError(f"{KERNEL_MESSAGES} is missing, without which a kubelet does not start")
    hierarchies = cgroups.hierarchies()
    cgroups.check_controllers(hierarchies)
    for hierarchy in hierarchies:
        if not os.access(hierarchy.path, os.W_OK):
            raise NotPossibleError(f"the control groups at {hierarchy.path} are mounted read-only")
    binaries.check_programs()
    folders.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folders.root) as trial:
        _try_out(Path(trial))


def _try_out(folder: Path) -> None:
    """Make namespaces and an overlay mount like those of a node, in a child that ends at once."""
    answer, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            flags = 0
            for flag in syscalls.NAMESPACES.values():
                flags |= flag
            syscalls.unshare(flags)
            syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
            for name in ("lower", "upper", "work", "merged"):
                (folder / name).mkdir()
            layers = f"lowerdir={folder / 'lower'},upperdir={folder / 'upper'},workdir={folder / 'work'}"
            syscalls.mount("overlay", folder / "merged", kind="overlay", data=layers)
        except OSError as refused:
            os.write(tell, str(refused).encode())
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(answer, "r", encoding="utf-8") as said:
        problem = said.read()
    os.waitpid(child, 0)
    if problem:
        raise NotPossibleError(f"a node's namespaces cannot be made on this machine: {problem}")
