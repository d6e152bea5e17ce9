"""Counting over process trees: nothing lost, nothing twice; and what /proc says of real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towtank.clock import RunClock
from towtank.platforms.base import Instance
from towtank.telemetry import procfs
from towtank.telemetry.base import ObserveContext
from towtank.telemetry.control_group import ControlGroup, Throttling
from towtank.telemetry.process import ProcessSource
from towtank.telemetry.procfs import TreeCounter, read_stat

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"


def counts(**processes: tuple[int, int]) -> dict[tuple[int, int], tuple[int, int]]:
    """`p10=(parent, count)`; start times are all the same."""
    return {(int(name[1:]), 0): value for name, value in processes.items()}


def test_the_first_reading_is_zero() -> None:
    assert TreeCounter().update(counts(p1=(0, 500))) == 0


def test_growth_adds_up_and_newcomers_count_whole() -> None:
    counter = TreeCounter()
    counter.update(counts(p1=(0, 500)))
    assert counter.update(counts(p1=(0, 510), p2=(1, 7))) == 17


def test_a_child_that_was_waited_for_counts_once() -> None:
    counter = TreeCounter()
    counter.update(counts(p1=(0, 100), p2=(1, 40)))
    assert counter.update(counts(p1=(0, 100 + 45))) == 5, "40 were known; 5 were spent since"


def test_a_grandchild_comes_home_through_its_dead_parent() -> None:
    counter = TreeCounter()
    counter.update(counts(p1=(0, 100), p2=(1, 40), p3=(2, 30)))
    assert counter.update(counts(p1=(0, 100 + 70))) == 0


def test_an_orphan_whose_count_nobody_inherits_is_kept() -> None:
    counter = TreeCounter()
    counter.update(counts(p1=(0, 100), p9=(77, 40)))
    assert counter.update(counts(p1=(0, 101))) == 1
    assert counter.update(counts(p1=(0, 103))) == 3


def test_counts_that_were_lost_do_not_stop_the_clock() -> None:
    counter = TreeCounter()
    counter.update(counts(p1=(0, 100), p2=(1, 40)))
    assert counter.update(counts(p1=(0, 100))) == 0, "its parent ignores children: the 40 are gone"
    assert counter.update(counts(p1=(0, 110))) == 10


@settings(deadline=None)
@given(st.lists(st.dictionaries(st.integers(1, 6), st.integers(0, 1000), max_size=6), max_size=8))
def test_the_total_never_falls(readings: list[dict[int, int]]) -> None:
    counter = TreeCounter()
    last = 0
    for reading in readings:
        total = counter.update({(pid, 0): (pid - 1, count) for pid, count in reading.items()})
        assert total >= last
        last = total


def test_a_process_whose_name_has_brackets_and_blanks(tmp_path: Path) -> None:
    link = tmp_path / "a) R (b"
    link.symlink_to(sys.executable)
    with subprocess.Popen([str(link), "-S", "-c", "import time; time.sleep(30)"]) as process:
        stat = read_stat(process.pid)
        process.kill()
    assert stat is not None
    assert (stat.ppid, stat.threads) == (os.getpid(), 1)


def test_a_zombie_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert read_stat(process.pid) is None
    process.wait()
    assert read_stat(process.pid) is None
    assert procfs.read_io(process.pid) is None
    assert procfs.count_open_files(process.pid) == 0
    assert list(procfs.children(process.pid)) == []


def test_open_files_are_counted(tmp_path: Path) -> None:
    before = procfs.count_open_files(os.getpid())
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
        assert procfs.count_open_files(os.getpid()) == before + 2


def observed(process: subprocess.Popen[bytes]) -> tuple[dict[str, float], ProcessSource]:
    """One reading over what a process does from its first line of input to its first of output; no control groups."""
    stat = read_stat(process.pid)
    assert stat is not None
    source = ProcessSource()
    instance = Instance("app-0", "http://127.0.0.1:9", process.pid, stat.start_ticks)
    source.start(ObserveContext(RunClock(0), 1.0, [instance]))
    begun = time.monotonic()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()
    process.stdout.readline()
    values = {s.metric: s.value for s in source.sample(0)}
    values["elapsed_s"] = time.monotonic() - begun
    return values, source


def script(body: str) -> subprocess.Popen[bytes]:
    """A process that waits, does something, says so, and waits again."""
    lines = [
        "import os, subprocess, sys, time",
        "sys.stdin.readline()",
        body,
        "print('done', flush=True)",
        "sys.stdin.readline()",
    ]
    return subprocess.Popen(
        [sys.executable, "-S", "-c", "\n".join(lines)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Let it end; not `communicate`, since children may hold its output."""
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    process.wait(10)


def test_cpu_of_children_that_ended_between_two_readings_counts() -> None:
    body = f"for _ in range(3): subprocess.run([sys.executable, '-S', '-c', {BURN.format(0.1)!r}])"
    with script(body) as process:
        values, _ = observed(process)
        end(process)
    assert values["cpu_cores"] * values["elapsed_s"] == pytest.approx(0.3, rel=0.5)
    assert values["cpu_cores"] * values["elapsed_s"] > 0.28
    assert (values["processes"], values["threads"], values["restarts"]) == (1, 1, 0)


def test_living_children_count_in_full() -> None:
    program = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with script(f"child = subprocess.Popen({program}, stdin=subprocess.PIPE)\ntime.sleep(0.2)") as process:
        values, _ = observed(process)
        end(process)
    assert values["processes"] == 2
    assert values["memory_bytes"] > 6_000_000


def test_an_orphan_is_remembered_and_a_replaced_main_process_is_a_restart() -> None:
    with script("child = os.fork()\nif child == 0: time.sleep(30); os._exit(0)\ntime.sleep(0.1)") as process:
        _, source = observed(process)
        (child,) = procfs.children(process.pid)
        end(process)
    try:
        values = {s.metric: s.value for s in source.sample(1)}
        assert (values["processes"], values["restarts"]) == (1, 1)
        (event,) = source.events()
        assert (event.kind, event.instance) == ("restarted", "app-0")
    finally:
        os.kill(child, signal.SIGKILL)
    until = time.monotonic() + 5
    while list(source.sample(2)):
        assert time.monotonic() < until
    (event,) = source.events()
    assert event.kind == "vanished"
    assert list(source.sample(3)) == []
    assert list(source.events()) == [], "said once"


def test_an_instance_elsewhere_is_said_to_be() -> None:
    source = ProcessSource()
    source.start(ObserveContext(RunClock(0), 1.0, [Instance("far-0", "http://192.0.2.1")]))
    (event,) = source.events()
    assert (event.kind, event.instance) == ("not_observable", "far-0")
    assert list(source.sample(0)) == []


def write(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_version_2_group(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "app-0",
        {
            "cgroup.procs": "12\n13\n",
            "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 300000\n",
            "memory.current": "104857600\n",
            "memory.stat": "anon 50000000\nfile 40000000\nshmem 10000000\n",
        },
    )
    group = ControlGroup([folder])
    assert group.pids() == [12, 13]
    assert group.cpu_ns() == 2_500_000_000
    assert group.memory_bytes() == 104857600 - 40000000 + 10000000
    assert group.throttling() == Throttling(10, 4, 300_000_000)


def test_version_1_groups_lie_apart(tmp_path: Path) -> None:
    folders = [
        write(tmp_path / "cpuacct", {"cgroup.procs": "12\n", "cpuacct.usage": "1234567\n"}),
        write(
            tmp_path / "cpu",
            {"cgroup.procs": "12\n", "cpu.stat": "nr_periods 5\nnr_throttled 1\nthrottled_time 77\n"},
        ),
        write(
            tmp_path / "memory",
            {
                "memory.usage_in_bytes": "9000\n",
                "memory.stat": "cache 1\ntotal_cache 5000\ntotal_shmem 1000\n",
            },
        ),
    ]
    group = ControlGroup(folders)
    assert (group.pids(), group.cpu_ns(), group.memory_bytes()) == ([12], 1234567, 5000)
    assert group.throttling() == Throttling(5, 1, 77)


def test_a_group_that_is_gone_says_nothing(tmp_path: Path) -> None:
    group = ControlGroup([tmp_path / "nowhere"])
    assert (group.pids(), group.cpu_ns(), group.memory_bytes(), group.throttling()) == (
        None,
        None,
        None,
        None,
    )
    folder = write(tmp_path / "v2", {"cgroup.procs": "", "cpu.stat": "usage_usec 1\n"})
    group = ControlGroup([folder])
    (folder / "cgroup.procs").unlink()
    (folder / "cpu.stat").unlink()
    assert (group.pids(), group.cpu_ns()) == (None, None)
