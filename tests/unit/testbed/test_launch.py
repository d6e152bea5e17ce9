"""What a daemon of the testbed gets from whoever started it: nothing."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from testbed import cgroups, launch
from testbed.record import Process, Record
from testbed.settings import Options

from support.cluster import eventually


def test_a_daemon_does_not_keep_the_lock_of_its_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`flock FILE python -m testbed up`: the lock is free when the command ends, not when the testbed does."""
    monkeypatch.setattr(cgroups, "create", lambda _: None)
    monkeypatch.setattr(cgroups, "join", lambda _: None)
    monkeypatch.setattr(launch, "_enter_namespaces", lambda _: None)  # it stays on this machine
    record = Record.new(tmp_path / "record.json", Options())
    record.keep(Process.of("init", "node1", os.getpid()))

    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)  # as a shell passes its own on
    fcntl.flock(lock, fcntl.LOCK_EX)
    daemon = launch.Daemon("sleep", "node1", ["/bin/sleep", "60"], log=tmp_path / "log")
    process = launch.start(record, daemon)
    try:
        runs = Path(f"/proc/{process.pid}/exe")
        eventually(
            lambda: runs.readlink().name in ("sleep", "coreutils", "busybox"), 20, "it has become sleep"
        )

        def has_no_more_than_its_own() -> bool:  # a moment later: programs open files while they start
            return {entry.name for entry in Path(f"/proc/{process.pid}/fd").iterdir()} == {"0", "1", "2"}

        eventually(has_no_more_than_its_own, 20, "it has kept nothing of its caller's")
        os.close(lock)
        with (tmp_path / "lock").open() as again:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        process.end()
