"""The machine, and the share of it that is Towtank's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from support import small_study
from towtank.clock import RunClock
from towtank.platforms.base import Instance
from towtank.telemetry import host
from towtank.telemetry.base import ObserveContext
from towtank.telemetry.host import HostSource
from towtank.telemetry.procfs import read_stat

BURN = "print(flush=True)\nwhile True: pass"
BURNT_S = 0.2
"""CPU time that a process must have had before it is looked at; how long that takes is the machine's affair."""
CONTEXT = ObserveContext(RunClock(0), 0.2, [])


def read(context: ObserveContext, seconds: float) -> dict[str, float]:
    source = HostSource()
    source.start(context)
    time.sleep(seconds)
    values = {sample.metric: sample.value for sample in source.sample(0)}
    source.close()
    return values


def test_shares_of_the_machine_fit_together() -> None:
    values = read(CONTEXT, 0.3)
    busy = values["cpu_user_ratio"] + values["cpu_system_ratio"]
    assert values["cpu_busy_ratio"] == pytest.approx(busy, abs=1e-9)
    assert busy + values["cpu_iowait_ratio"] + values["cpu_steal_ratio"] <= 1 + 1e-9
    assert values["cpu_cores"] == pytest.approx(values["cpu_busy_ratio"] * (os.cpu_count() or 1))
    total = values["memory_used_bytes"] + values["memory_available_bytes"]
    assert total == pytest.approx(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), rel=0.05)
    assert values["context_switches_per_s"] > 0


def test_what_our_processes_burn_is_own_and_what_instances_burn_is_not() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", BURN], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stat = read_stat(process.pid)
        assert stat is not None
        instance = Instance("app-0", "http://127.0.0.1:9", process.pid, stat.start_ticks)
        try:
            own = while_burning(process.pid, replace(CONTEXT, own_pids=(os.getpid(),)))
            guarded = while_burning(
                process.pid, replace(CONTEXT, own_pids=(os.getpid(),), instances=[instance])
            )
        finally:
            process.kill()
    assert own["cpu_own_cores"] * own["elapsed_s"] > BURNT_S / 2, "a child of ours"
    assert guarded["cpu_own_cores"] * guarded["elapsed_s"] < BURNT_S / 2
    assert own["cpu_own_ratio"] == pytest.approx(own["cpu_own_cores"] / (os.cpu_count() or 1))
    assert own["cpu_without_own_ratio"] <= own["cpu_busy_ratio"]


def while_burning(pid: int, context: ObserveContext) -> dict[str, float]:
    """One reading over a time in which a process had CPU, with the length of that time."""
    source = HostSource()
    source.start(context)
    begun, used = time.monotonic(), cpu_s(pid)
    small_study.wait_until(lambda: cpu_s(pid) - used >= BURNT_S, longest_s=60, what="CPU for a process")
    values = {sample.metric: sample.value for sample in source.sample(0)}
    values["elapsed_s"] = time.monotonic() - begun
    source.close()
    return values


def cpu_s(pid: int) -> float:
    stat = read_stat(pid)
    assert stat is not None
    return stat.own_ticks / os.sysconf("SC_CLK_TCK")


def test_a_pid_of_ours_that_is_gone_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        process.wait()
    assert read(replace(CONTEXT, own_pids=(process.pid,)), 0.1)["cpu_own_cores"] == 0


def test_loopback_is_told_from_the_network() -> None:
    import socket

    source = HostSource()
    source.start(CONTEXT)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        peer, _ = server.accept()
        with peer:
            for _ in range(20):
                client.sendall(b"x" * 50_000)
                received = 0
                while received < 50_000:
                    received += len(peer.recv(65536))
    begun = source._last
    assert begun is not None
    values = {sample.metric: sample.value for sample in source.sample(0)}
    elapsed_s = (time.monotonic_ns() - begun.t_ns) / 1e9
    assert values["loopback_bytes_per_s"] * elapsed_s >= 1_000_000
    assert values["network_sent_bytes_per_s"] * elapsed_s < 1_000_000


def test_pressure_is_optional_and_may_be_missing(tmp_path, monkeypatch) -> None:
    without = read(replace(CONTEXT, options={"pressure": False}), 0.05)
    assert not [name for name in without if name.startswith("pressure_")]
    (tmp_path / "cpu").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n")
    monkeypatch.setattr(host, "_PRESSURE", {name: tmp_path / name for name in ("cpu", "memory")})
    source = HostSource()
    source.start(CONTEXT)
    (tmp_path / "cpu").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1050000\n")
    time.sleep(0.1)
    values = {sample.metric: sample.value for sample in source.sample(0)}
    assert 0 < values["pressure_cpu_some_ratio"] <= 0.5
    assert "pressure_memory_some_ratio" not in values


def test_no_time_at_all_gives_levels_only(monkeypatch) -> None:
    monkeypatch.setattr(host, "_cpu_seconds", lambda: dict.fromkeys(("user", "idle", "iowait", "steal"), 1.0))
    values = read(CONTEXT, 0.02)
    assert "cpu_busy_ratio" not in values
    assert values["memory_used_bytes"] > 0
