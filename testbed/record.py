"""What the testbed made on this machine, written before it is made, so that `down` finds it after any crash."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from testbed.errors import TestbedError
from testbed.settings import Options

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; with the pid it names one process for good.

    None when there is no such process, or only what its parent has not yet collected. While any of its threads is still
    ending it is there, and so may be its sockets.
    """
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        threads = sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if after_name[0] in "ZX" and threads <= 1 else int(after_name[19])


@dataclass(frozen=True)
class Process:
    """A process of the testbed: what it is, on which node, its pid on the host and when it started."""

    name: str
    node: str
    pid: int
    start_ticks: int

    @classmethod
    def of(cls, name: str, node: str, pid: int) -> Process:
        """The running process `pid`."""
        ticks = start_time(pid)
        if ticks is None:
            raise TestbedError(f"{name} on {node} (process {pid}) ended at once")
        return cls(name, node, pid, ticks)

    def alive(self) -> bool:
        """Whether this very process runs, and not another one with its pid."""
        return start_time(self.pid) == self.start_ticks

    def end(self, number: signal.Signals = signal.SIGKILL, timeout_s: float = 20) -> None:
        """Send a signal to this very process and wait for its end."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive():
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return
        finally:
            os.close(descriptor)
        deadline = time.monotonic() + timeout_s
        while self.alive():
            if time.monotonic() > deadline:
                raise TestbedError(f"{self.name} on {self.node} (process {self.pid}) does not end")
            time.sleep(0.01)


@dataclass
class Record:
    """The content of `state/record.json`.

    Parameters
    ----------
    path : Path
        The file.
    options : Options
        What this start was asked for.
    boot_id : str
        Of the boot it was made in: after another boot only files are left.
    trees : dict of str to int
        Which control groups are its own (`cgroups.identities`): once this testbed was killed, one of another folder may
        stand in its place.
    ground : bool
        Whether namespaces and networks of all nodes are whole.
    complete : bool
        Whether `up` has come to its end once.
    processes : dict of str to Process
        By `node/name`.
    """

    path: Path
    options: Options
    boot_id: str
    trees: dict[str, int] = field(default_factory=dict)
    ground: bool = False
    complete: bool = False
    processes: dict[str, Process] = field(default_factory=dict)

    @classmethod
    def new(cls, path: Path, options: Options) -> Record:
        """A record of this boot with nothing in it yet, already on disk."""
        record = cls(path, options, BOOT_ID.read_text("utf-8").strip())
        record.save()
        return record

    @classmethod
    def load(cls, path: Path) -> Record | None:
        """Read the record; None when there is none."""
        try:
            kept = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except json.JSONDecodeError as broken:
            raise TestbedError(
                f"{path} is not what the testbed wrote ({broken}); is it edited by hand?"
            ) from broken
        processes = {key: Process(**value) for key, value in kept["processes"].items()}
        return cls(
            path,
            Options(**kept["options"]),
            kept["boot_id"],
            kept["trees"],
            kept["ground"],
            kept["complete"],
            processes,
        )

    @property
    def of_this_boot(self) -> bool:
        """Whether the machine has not been started anew since."""
        return self.boot_id == BOOT_ID.read_text("utf-8").strip()

    def get(self, node: str, name: str) -> Process | None:
        """The process, if it runs."""
        process = self.processes.get(f"{node}/{name}")
        return process if process is not None and self.of_this_boot and process.alive() else None

    def keep(self, process: Process) -> None:
        """Remember a process."""
        self.processes[f"{process.node}/{process.name}"] = process
        self.save()

    def forget_the_dead(self) -> None:
        """Drop processes that have ended; they are about to be started anew."""
        self.processes = {key: process for key, process in self.processes.items() if process.alive()}
        self.save()

    def save(self) -> None:
        """Write the file; whoever reads it sees the old one or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        kept = {
            "options": self.options.as_dict(),
            "boot_id": self.boot_id,
            "trees": self.trees,
            "ground": self.ground,
            "complete": self.complete,
            "processes": {key: asdict(process) for key, process in self.processes.items()},
        }
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        beside.replace(self.path)
