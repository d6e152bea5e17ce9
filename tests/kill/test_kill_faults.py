"""`kill -9` of towtank, and of its guard, while a fault is on: nothing stays stopped, dead, starved or full."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support import small_study as study
from towtank.faults.disk import NAME

pytestmark = [pytest.mark.kill, pytest.mark.timeout(300)]

FAULTS = """\
faults:
  - {kind: stop, at: 200ms, for: 60s}
  - {kind: disk, at: 100ms, for: 60s, size: 2MiB}
"""


@pytest.fixture
def running(tmp_path):
    """A study whose faults are on: the process, its results, the stopped instance's pid, and the file of the disk."""
    file = study.write_study(tmp_path / "study", blocks=2, duration="30s", extra="stop: {grace: 200ms}")
    file.write_text(file.read_text("utf-8") + FAULTS, encoding="utf-8")
    results = file.parent / "results" / "small"
    process = study.start("run", file, "--plain", "--no-report")
    try:
        study.wait_until(
            lambda: process.poll() is not None or (stopped(results) and full(results)),
            longest_s=60,
            what="an instance is stopped and the disk is filled",
        )
        assert process.poll() is None, process.communicate()[1]
        yield process, results
    finally:
        process.kill()
        process.communicate()


def stopped(results: Path) -> list[int]:
    """Pids of ours that are stopped."""
    return [pid for pid in study.left_over(study.tokens_of(results)) if is_stopped(pid)]


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def full(results: Path) -> list[Path]:
    return list(results.glob(f"scratch/*/data/{NAME}"))


def test_towtank_is_killed(running):
    """The guard ends what is stopped; what fills the disk goes with the next command."""
    process, results = running
    pids, tokens = stopped(results), study.tokens_of(results)
    assert pids
    process.kill()
    process.communicate()
    study.wait_until(
        lambda: not study.left_over(tokens), longest_s=15, what="the guard has ended all, stopped or not"
    )
    assert not any(is_stopped(pid) for pid in pids)
    done = study.towtank("clean", results)
    assert done.returncode == 0, done.stderr
    assert not full(results)
    assert not list(results.glob("intents/*"))


def test_towtank_and_its_guard_are_killed(running):
    """Nobody is left to undo anything but the kernel, and `clean`."""
    process, results = running
    tokens = study.tokens_of(results)
    guards = [pid for pid in children(process.pid) if b"guard" in command_line(pid)]
    assert guards
    process.send_signal(signal.SIGSTOP)  # so that nobody reacts in between
    for pid in guards:
        os.kill(pid, signal.SIGKILL)
    process.kill()
    process.communicate()
    done = study.towtank("clean", results)
    assert done.returncode == 0, done.stderr
    assert not study.left_over(tokens)
    assert not full(results)
    assert not list(results.glob("intents/*"))


def test_an_interrupted_run_undoes_its_faults(running):
    process, results = running
    study.interrupt(process)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert not stopped(results)
    assert not full(results)
    assert not list(results.glob("intents/*"))
    (record, *_) = study.records(results).values()
    assert record["state"] == "running"


def command_line(pid: int) -> list[bytes]:
    return (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0")


def children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(entry.name))
    return found
