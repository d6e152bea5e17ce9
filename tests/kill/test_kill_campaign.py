"""`kill -9` of towtank, its engine and its guard at random (seeded) moments, full disks, starved engines.

Afterwards: no process of ours is left, the same command completes the experiment, finished runs are byte for byte what
they were, and foreign processes live on.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import small_study as study
from towtank.load.engine import START_AHEAD_S

pytestmark = [pytest.mark.kill, pytest.mark.timeout(300)]


@pytest.fixture
def folder(tmp_path):
    """Where a study lives; nothing of it may be alive afterwards."""
    yield tmp_path / "study"
    study.wait_until(lambda: not study.alive_below(tmp_path), what="every process of the study has ended")


def finished(results: Path) -> dict[str, bytes]:
    """Every file of every complete run."""
    found = {}
    for name, record in study.records(results).items():
        if record["state"] == "complete":
            for path in sorted((results / "runs" / name).rglob("*")):
                if path.is_file():
                    found[str(path)] = path.read_bytes()
    return found


def complete(results: Path) -> int:
    return sum(record["state"] == "complete" for record in study.records(results).values())


def gone(tokens: set[str]) -> bool:
    return not study.left_over(tokens)


def assert_intact(results: Path, before: dict[str, bytes]) -> None:
    after = finished(results)
    assert {path: after.get(path) for path in before} == before


def finish(file: Path, results: Path, runs: int) -> None:
    """The same command completes what was begun, and leaves nothing."""
    done = study.towtank("run", file, "--plain", "--no-report", timeout=200)
    assert done.returncode in (0, 6), done.stderr
    planned = {
        record["planned_id"] for record in study.records(results).values() if record["state"] == "complete"
    }
    assert len(planned) == runs
    assert not list((results / "intents").iterdir())
    assert not (results / "scratch").exists()


@pytest.mark.parametrize("seed", range(4))
def test_towtank_is_killed(folder, seed):
    chance = random.Random(seed)
    file = study.write_study(folder, blocks=2, duration="400ms")
    results = folder / "results" / "small"
    tokens: set[str] = set()
    for _ in range(2):
        process = study.start("run", file, "--plain", "--no-report")
        end = time.monotonic() + chance.uniform(0.6, 5.0)
        while time.monotonic() < end and process.poll() is None:
            tokens |= study.tokens_of(results)
            time.sleep(0.02)
        process.kill()
        process.communicate()
        tokens |= study.tokens_of(results)
        before = finished(results)
        study.wait_until(
            functools.partial(gone, tokens), longest_s=15, what="lifelines end the engine and the guard"
        )
    finish(file, results, 4)
    assert_intact(results, before)


def children_named(parent: int, word: str) -> list[int]:
    """Engines or guards that one towtank has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                if (
                    words[0].endswith(b"towtank-engine")
                    and words[1] == word.encode()
                    and int(stat[1]) == parent
                ):
                    found.append(int(entry.name))
    return found


def kill_all(parent: subprocess.Popen[str], word: str) -> list[int]:
    """SIGKILL to the engines or guards of one towtank; those that were there."""
    killed = []
    for pid in children_named(parent.pid, word):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
    return killed


def wait_for_load(process: subprocess.Popen[str], results: Path) -> None:
    """Until the first load is on: its start is ordered when the log gets its first bytes, and comes soon after."""
    study.wait_until(
        lambda: (
            process.poll() is not None
            or any(log.stat().st_size > 0 for log in results.glob("runs/*/requests/thread-0.log"))
        ),
        what="the load is on",
    )
    assert process.poll() is None, "it ended before there was a load"
    time.sleep(START_AHEAD_S + 0.1)


@pytest.mark.parametrize("seed", range(2))
def test_the_engine_is_killed(folder, seed):
    """The run is invalid, the campaign goes on, nothing else is lost."""
    chance = random.Random(seed)
    file = study.write_study(folder, blocks=2, duration="2s", repeats=1)
    results = folder / "results" / "small"
    process = study.start("run", file, "--plain", "--no-report")
    wait_for_load(process, results)
    time.sleep(chance.uniform(0, 1.0))
    killed = kill_all(process, "run")
    _, err = process.communicate(timeout=150)
    assert process.returncode in (0, 6), err
    lost = [r for r in study.records(results).values() if "engine_lost" in reasons(r)]
    assert len(killed) == 1
    assert len(lost) == 1, "exactly the run whose engine was killed"
    assert lost[0]["verdicts"]["instrument"] == "invalid"
    assert "SIGKILL" in lost[0]["failure"]
    assert not list((results / "intents").iterdir())


def reasons(record: dict) -> set[str]:
    verdicts = record["verdicts"] or {"instrument_reasons": []}
    return {reason["name"] for reason in verdicts["instrument_reasons"]}


@pytest.mark.parametrize("seed", range(2))
def test_the_guard_is_killed_during_the_load(folder, seed):
    """Its instances are ended by their token; the run is invalid, and nothing is said of the deployment."""
    chance = random.Random(seed)
    file = study.write_study(folder, blocks=2, duration="2s", repeats=1)
    results = folder / "results" / "small"
    process = study.start("run", file, "--plain", "--no-report")
    wait_for_load(process, results)
    time.sleep(chance.uniform(0, 1.0))
    assert len(kill_all(process, "guard")) == 1
    _, err = process.communicate(timeout=150)
    assert process.returncode in (0, 6), err
    assert "Traceback" not in err
    lost = [r for r in study.records(results).values() if "platform_lost" in reasons(r)]
    assert len(lost) == 1, "exactly the run whose guard was killed"
    assert (lost[0]["verdicts"]["instrument"], lost[0]["verdicts"]["system"]) == ("invalid", "intact")
    assert not list((results / "intents").iterdir()), err
    finish(file, results, 4)


@pytest.mark.parametrize("seed", range(2))
def test_the_guard_is_killed_at_any_moment(folder, seed):
    """Before, during or after a load: the run is invalid, or the campaign stops and can be resumed."""
    chance = random.Random(seed)
    file = study.write_study(folder, blocks=2, duration="1s", repeats=1)
    results = folder / "results" / "small"
    process = study.start("run", file, "--plain", "--no-report")
    study.wait_until(lambda: children_named(process.pid, "guard"), what="a guard is there")
    time.sleep(chance.uniform(0, 0.5))
    killed: list[int] = []

    def hit() -> bool:  # between two runs there is none for a moment
        killed.extend(kill_all(process, "guard"))
        return bool(killed) or process.poll() is not None

    study.wait_until(hit, what="a guard was killed")
    assert killed, "the campaign had ended"
    _, err = process.communicate(timeout=150)
    assert process.returncode in (0, 4, 6), err
    assert "Traceback" not in err
    assert not list((results / "intents").iterdir()), err
    finish(file, results, 4)


def test_towtank_and_guard_are_killed_and_clean_ends_the_rest(folder):
    """Nobody is left to end the instances but `clean`, which knows their token; a foreign process lives on."""
    file = study.write_study(folder, blocks=2, duration="20s")
    results = folder / "results" / "small"
    process = study.start("run", file, "--plain", "--no-report")
    study.wait_until(lambda: children_named(process.pid, "run"), what="the load is on")
    guards = children_named(process.pid, "guard")
    process.send_signal(signal.SIGSTOP)  # so that nobody reacts in between
    for pid in guards:
        os.kill(pid, signal.SIGKILL)
    process.kill()
    process.communicate()
    tokens = study.tokens_of(results)
    assert tokens
    with subprocess.Popen(["sleep", "100"]) as foreign:
        for path in results.glob("intents/*.json"):  # as if the pid had been given away again
            path.write_text(json.dumps({**json.loads(path.read_text()), "owner_pid": foreign.pid}))
        done = study.towtank("clean", results)
        assert done.returncode == 0, done.stderr
        assert not study.left_over(tokens)
        assert not list(results.glob("intents/*"))
        assert foreign.poll() is None
        foreign.kill()


def test_a_second_ctrl_c_hurries(folder):
    file = study.write_study(folder, duration="20s", path="/health", extra="stop: {signal: TERM, grace: 2s}")
    results = folder / "results" / "small"
    process = study.start("run", file, "--plain", "--no-report")
    study.wait_until(lambda: list(results.glob("runs/*/requests/thread-0.log")), what="the load is on")
    for _ in range(2):
        study.interrupt(process)
        time.sleep(0.1)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert not list((results / "intents").iterdir())


# --- disk full -------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A tmpfs of 100 MiB for results."""
    if os.geteuid() != 0:
        pytest.skip("root is needed to mount a tmpfs")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take all room on a disk."""
    path = place / "filler"
    with contextlib.suppress(OSError), path.open("wb") as stream:
        while True:
            stream.write(b"\0" * 65536)
            stream.flush()
    return path


@pytest.mark.root
def test_a_disk_that_fills_up_during_a_run(folder, small_disk):
    file = study.write_study(folder, blocks=2, duration="1500ms")
    results = small_disk / "small"
    process = study.start("run", file, "--plain", "--no-report", "--results", results)
    study.wait_until(lambda: complete(results) >= 1, longest_s=60, what="one run is kept")
    study.wait_until(
        lambda: process.poll() is not None or children_named(process.pid, "run"), what="the next load is on"
    )
    before = finished(results)
    filler = fill(small_disk)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert "no room left" in err or "are free on the disk" in err
    assert "Traceback" not in err
    assert_intact(results, before)
    filler.unlink()
    done = study.towtank("run", file, "--plain", "--no-report", "--results", results, timeout=200)
    assert done.returncode in (0, 6), done.stderr
    assert len({r["planned_id"] for r in study.records(results).values() if r["state"] == "complete"}) == 4
    assert_intact(results, before)


@pytest.mark.root
def test_a_disk_without_room_is_said_before_anything_starts(folder, small_disk):
    file = study.write_study(folder)
    (small_disk / "big").write_bytes(b"\0" * (60 << 20))
    done = study.towtank("run", file, "--plain", "--results", small_disk / "small")
    assert done.returncode == 4
    assert "are free on the disk" in done.stderr


# --- an engine that gets no CPU --------------------------------------------------------------------------


BURN = """
import os, time
os.sched_setaffinity(0, [0])
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
end = time.monotonic() + 60
while time.monotonic() < end:
    burst = time.monotonic() + 0.15
    while time.monotonic() < burst: pass
    time.sleep(0.1)
"""


@pytest.mark.alone  # takes a core from all others, too
@pytest.mark.root
def test_an_engine_starved_of_cpu_is_called_invalid(folder):
    """A real-time program takes the engine's only core away, again and again."""
    if os.geteuid() != 0:
        pytest.skip("root is needed for a real-time program")
    file = study.write_study(folder, blocks=2, duration="1s", rate=400)
    file.write_text(file.read_text().replace("generator: {nice: 0}", "generator: {nice: -10, cpus: [0]}"))
    with subprocess.Popen([sys.executable, "-S", "-c", BURN]) as thief:
        try:
            done = study.towtank("run", file, "--plain", "--no-report", timeout=200)
        finally:
            thief.kill()
    assert done.returncode == 6, "runs stayed invalid: " + done.stderr
    for record in study.records(folder / "results" / "small").values():
        assert record["verdicts"]["instrument"] == "invalid"
        assert reasons(record) & {"engine_late", "engine_short_of_cpu"}, reasons(record)
    assert "stayed invalid" in done.stderr
