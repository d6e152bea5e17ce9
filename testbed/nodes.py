"""What a node sees of the machine: its own /run, /var/lib, /var/log, /proc, /sys and control groups."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from testbed import cgroups, launch, syscalls
from testbed.record import Process, Record
from testbed.settings import INSIDE, INSIDE_CONFIG, INSIDE_PROGRAMS, Folders, Node

OWN_LIB = INSIDE / "lib"
OWN_LOG = INSIDE / "log"

# The kubelet wants these values and would write them, for the whole machine. It sees them as it wants them instead.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def start(record: Record, folders: Folders, node: Node) -> Process:
    """Make the node's namespaces, held by a first process that also collects orphans."""
    own = folders.node(node)
    for name in ("run", "lib", "log", "etc"):
        (own / name).mkdir(parents=True, exist_ok=True)
    setup = _setup(own, folders.programs, node.name, cgroups.hierarchies())
    return launch.start_init(record, node.name, setup, INSIDE_PROGRAMS / "pause")


def _setup(own: Path, programs: Path, name: str, hierarchies: list[cgroups.Hierarchy]) -> Callable[[], None]:
    def setup() -> None:
        # What the host mounts or unmounts later is followed (nothing of it stays busy); nothing goes back.
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_SLAVE)
        _own_run(own, programs)
        syscalls.bind(OWN_LIB, "/var/lib")
        syscalls.bind(OWN_LOG, "/var/log")
        _own_proc()
        _own_sys(hierarchies)
        # Pods may ask for mounts that propagate within the node.
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_SHARED)
        socket.sethostname(name)

    return setup


def _own_run(own: Path, programs: Path) -> None:
    """An empty /run with the testbed's programs and the node's configuration in it.

    It is filled beside and moved into place, since the checkout may itself lie below what it hides.
    """
    stage = own / "run"
    syscalls.mount("tmpfs", stage, kind="tmpfs", data="mode=755")
    syscalls.mount("none", stage, flags=syscalls.MS_PRIVATE)
    below = INSIDE.relative_to("/run")
    for path in (below / "kernel", "lock", "tmp", "netns"):
        (stage / path).mkdir(parents=True)
    for shown, value in KERNEL_SETTINGS.items():
        (stage / below / "kernel" / shown.replace("/", ".")).write_text(value + "\n", "utf-8")
    for source, target in (
        (programs, INSIDE_PROGRAMS),
        (own / "etc", INSIDE_CONFIG),
        (own / "lib", OWN_LIB),
        (own / "log", OWN_LOG),
    ):
        place = stage / target.relative_to("/run")
        place.mkdir(exist_ok=True)
        syscalls.bind(source, place)
    if not Path("/var/run").is_symlink():
        syscalls.bind(stage, "/var/run")
    syscalls.mount(stage, "/run", flags=syscalls.MS_MOVE)


def _own_proc() -> None:
    syscalls.mount("proc", "/proc", kind="proc")
    for shown in KERNEL_SETTINGS:
        setting = Path("/proc/sys") / shown
        if setting.exists():
            syscalls.bind(INSIDE / "kernel" / shown.replace("/", "."), setting)


def _own_sys(hierarchies: list[cgroups.Hierarchy]) -> None:
    """Interfaces of the own network, and control groups from the node's own root downwards."""
    syscalls.mount("sysfs", "/sys", kind="sysfs")
    if len(hierarchies) == 1 and hierarchies[0].version == 2:
        syscalls.mount("cgroup2", hierarchies[0].path, kind="cgroup2")
        return
    syscalls.mount("tmpfs", "/sys/fs/cgroup", kind="tmpfs", data="mode=755")
    for hierarchy in hierarchies:
        hierarchy.path.mkdir(parents=True, exist_ok=True)
        if hierarchy.version == 2:
            syscalls.mount("cgroup2", hierarchy.path, kind="cgroup2")
        else:
            syscalls.mount("cgroup", hierarchy.path, kind="cgroup", data=hierarchy.options)
