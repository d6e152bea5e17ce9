"""The testbed's control groups: one tree of its own in every hierarchy of the machine, version 1 and 2."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import NotPossibleError, TestbedError
from testbed.settings import NAME

MOUNTS = Path("/proc/self/mountinfo")
NEEDED = ("cpu", "cpuset", "memory", "pids")


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy: where, which version, and the mount options that choose it."""

    path: Path
    version: int
    options: str = ""

    @property
    def tree(self) -> Path:
        """The testbed's part of it."""
        return self.path / NAME


def hierarchies(mounts: Path = MOUNTS) -> list[Hierarchy]:
    """Every mounted hierarchy, each once.

    Raises
    ------
    NotPossibleError
        When there is none.
    """
    found: dict[str, Hierarchy] = {}
    for line in mounts.read_text("utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        path = Path(before.split()[4])
        if kind == "cgroup2":
            found.setdefault("2", Hierarchy(path, 2))
        elif kind == "cgroup":
            words = [word for word in options.split(",") if word not in {"rw", "ro"}]
            chosen = ",".join(["none", *words] if any(w.startswith("name=") for w in words) else words)
            found.setdefault(chosen, Hierarchy(path, 1, chosen))
    if not found:
        raise NotPossibleError("no control groups are mounted (/proc/self/mountinfo); nodes need them")
    return list(found.values())


def check_controllers(all_of_them: list[Hierarchy]) -> None:
    """Refuse a machine where a node could not have the controllers that a kubelet needs."""
    have: set[str] = set()
    for hierarchy in all_of_them:
        if hierarchy.version == 1:
            have |= set(hierarchy.options.split(","))
        else:
            passed_on = hierarchy.path / "cgroup.subtree_control"
            have |= set(passed_on.read_text("utf-8").split()) if passed_on.exists() else set()
    lacking = [name for name in NEEDED if name not in have]
    if lacking:
        raise NotPossibleError(
            f"control groups on this machine lack: {', '.join(lacking)} (version 2: not in "
            "/sys/fs/cgroup/cgroup.subtree_control, which is the machine's own and left alone)"
        )


def create(group: str) -> None:
    """Make `towtank-testbed/<group>` in every hierarchy."""
    for hierarchy in hierarchies():
        path = hierarchy.path
        for part in (NAME, *Path(group).parts):
            if hierarchy.version == 2 and path != hierarchy.path:
                _pass_on(path)
            path = path / part
            path.mkdir(exist_ok=True)
            if hierarchy.version == 1 and "cpuset" in hierarchy.options.split(","):
                _inherit_cpuset(path)


def _pass_on(path: Path) -> None:
    """Version 2: controllers reach the groups below only when a group passes them on."""
    have = (path / "cgroup.controllers").read_text("utf-8").split()
    (path / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in have), "utf-8")


def _inherit_cpuset(path: Path) -> None:
    """Version 1: a new cpuset is empty, and nothing may run in it until it is filled."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (path / name).read_text("utf-8").strip():
            (path / name).write_text((path.parent / name).read_text("utf-8"), "utf-8")


def join(group: str) -> None:
    """Move the calling process into `towtank-testbed/<group>` in every hierarchy."""
    for hierarchy in hierarchies():
        (hierarchy.tree / group / "cgroup.procs").write_text("0", "utf-8")


def members() -> set[int]:
    """Every process in the testbed's groups, pods included, that this one could end."""
    return _processes() - {0, os.getpid()}


def inhabited() -> bool:
    """Whether any process is in the testbed's groups, those of other pid namespaces (read as 0) included."""
    return bool(_processes())


def _processes() -> set[int]:
    found: set[int] = set()
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy.tree):
            try:
                found |= {int(word) for word in (Path(folder) / "cgroup.procs").read_text("utf-8").split()}
            except OSError:
                continue  # the group ended while it was read
    return found


def end_members(timeout_s: float = 20) -> None:
    """End what still runs in the testbed's groups; each process is held by a descriptor and looked up again."""
    deadline = time.monotonic() + timeout_s
    while remaining := members():
        for pid in remaining:
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            try:
                if pid in members():
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            except ProcessLookupError:
                pass
            finally:
                os.close(descriptor)
        if time.monotonic() > deadline:
            raise TestbedError(
                f"processes {sorted(remaining)} of the testbed do not end; see /proc/<pid>/stack"
            )
        time.sleep(0.05)


def exist() -> list[Path]:
    """The testbed's trees that exist on this machine."""
    return [hierarchy.tree for hierarchy in hierarchies() if hierarchy.tree.exists()]


def identities() -> dict[str, int]:
    """The testbed's trees with what tells them from others in the same places, before or after: their inode numbers."""
    return {str(tree): tree.stat().st_ino for tree in exist()}


def remove(timeout_s: float = 20) -> None:
    """Remove the testbed's groups, innermost first. The kernel may hold one a moment after its last process."""
    deadline = time.monotonic() + timeout_s
    while trees := exist():
        held = ""
        for tree in trees:
            for folder, _, _ in os.walk(tree, topdown=False):
                try:
                    Path(folder).rmdir()
                except FileNotFoundError:
                    continue
                except OSError as busy:
                    held = f"{folder}: {busy.strerror}"
        if held and time.monotonic() > deadline:
            raise TestbedError(f"a control group cannot be removed: {held}")
        time.sleep(0.02 if held else 0)
