"""Starting processes inside a node's namespaces: each is recorded before its program runs.

A launch is three processes: the caller, a helper that enters the namespaces, and the helper's child, which is inside
(a pid namespace takes effect with the next child) and outlives the helper. The child waits until the caller has written
its pid and start time down; if the caller dies first, the child ends without having run anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from testbed import cgroups, syscalls
from testbed.errors import NotReadyError
from testbed.record import Process, Record

GROUP_OF_DAEMONS = "system"


@dataclass(frozen=True)
class Daemon:
    """What is to run: its name, its node, its words, its variables, and where its output goes."""

    name: str
    node: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    log: Path = Path(os.devnull)

    @property
    def group(self) -> str:
        """Its control group below the testbed's: one for each daemon, so that its cost can be read there."""
        return f"{self.node}/{GROUP_OF_DAEMONS}/{self.name}"


def start_init(record: Record, node: str, setup: Callable[[], None], program: Path) -> Process:
    """Make a node's namespaces; their first process runs `setup` inside, then becomes `program`.

    When it ends, the kernel ends everything else in its pid namespace.
    """
    init = Daemon("init", node, [str(program)])

    def enter() -> None:
        cgroups.join(node)  # becomes `/` of the new control group namespace
        flags = 0
        for flag in syscalls.NAMESPACES.values():
            flags |= flag
        syscalls.unshare(flags)
        cgroups.join(init.group)

    return _launch(record, init, enter, setup)


def start(record: Record, daemon: Daemon) -> Process:
    """Start a daemon on its node, in a control group of its own."""
    init = record.get(daemon.node, "init")
    if init is None:
        raise NotReadyError(f"{daemon.node} has ended; `python -m testbed up` builds it anew")

    def enter() -> None:
        cgroups.join(daemon.group)
        _enter_namespaces(init.pid)

    return _launch(record, daemon, enter, lambda: None)


def _enter_namespaces(pid: int) -> None:
    """Enter every namespace of process `pid`; all are opened first, for one of them hides /proc."""
    opened = [
        (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), flag)
        for name, flag in syscalls.NAMESPACES.items()
    ]
    for descriptor, flag in opened:
        syscalls.setns(descriptor, flag)
    os.chdir("/")


def _launch(record: Record, daemon: Daemon, enter: Callable[[], None], setup: Callable[[], None]) -> Process:
    cgroups.create(daemon.group)
    answer, tell = os.pipe()  # the pid, then what went wrong; closed by exec
    wait, go = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    helper = os.fork()
    if helper == 0:
        os.close(answer)
        os.close(go)
        _helper(daemon, enter, setup, tell, wait)
    os.close(tell)
    os.close(wait)
    with os.fdopen(answer, "r", encoding="utf-8") as lines:
        first = lines.readline().strip()
        os.waitpid(helper, 0)
        try:
            if first.isdigit():
                process = Process.of(daemon.name, daemon.node, int(first))
                record.keep(process)
                os.write(go, b"!")
        finally:
            os.close(go)
        problem = lines.read().strip()
    if not first.isdigit() or problem:
        raise NotReadyError(f"{daemon.name} on {daemon.node} could not be started: {problem or first}")
    return process


def _helper(
    daemon: Daemon, enter: Callable[[], None], setup: Callable[[], None], tell: int, wait: int
) -> None:
    """Enter, leave a child inside, and end; neither of the two ever returns."""
    try:
        output = os.open(daemon.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        _keep_nothing_of_the_caller()  # now: inside a node, /proc is another
        enter()
        inside = os.fork()
        if inside:
            os.write(tell, f"{inside}\n".encode())
            os._exit(0)
        if os.read(wait, 1) != b"!":
            os._exit(1)
        os.setsid()
        setup()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execve(daemon.command[0], list(daemon.command), dict(daemon.environment))  # noqa: S606 -- no shell, on purpose
    except BaseException as problem:  # noqa: BLE001 -- told to the caller; nothing else may run in this copy of it
        os.write(tell, f"{type(problem).__name__}: {problem}\n".encode())
    finally:
        os._exit(1)


def _keep_nothing_of_the_caller() -> None:
    """Mark all descriptors but input, output and errors as closed by exec.

    A daemon that kept one would hold the lock of a `flock FILE python -m testbed up` for as long as the testbed is up.
    """
    for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2:
            with suppress(OSError):  # the one that the list itself was read from
                os.set_inheritable(descriptor, False)  # noqa: FBT003 -- takes no keyword
