"""What a machine offers to experiments: each check with what was found and what it means."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from towtank.campaign import environment, machine
from towtank.errors import MachineError
from towtank.load.binary import engine_build, find_engine
from towtank.units import format_bytes, format_duration, format_ratio

State = Literal["ok", "limited", "missing"]

JITTER_TICKS = 400
JITTER_STEP_S = 0.001
JITTER_OK_S = 0.001
"""99th percentile of lateness of a 1 ms sleep on a quiet machine is 0.1 ms; a millisecond shifts small latencies."""
QUIET_RATIO = 0.10
FEW_CORES = 4
FEW_FILES = 4096
FEW_PORTS = 20_000
LITTLE_ROOM_BYTES = 2 * 2**30
_CONTROLLERS = ("cpu", "memory", "cpuset")


@dataclass(frozen=True)
class Finding:
    """One thing that this machine can, can with limits, or cannot do."""

    name: str
    state: State
    what: str
    found: str
    meaning: str

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return asdict(self)


def check_machine(folder: Path) -> list[Finding]:
    """All checks; takes about half a second for the jitter. Changes nothing.

    Parameters
    ----------
    folder : Path
        Where results would be written.
    """
    return [
        _engine(), _cores(), *_quiet(), _nice(), *_control_groups(), _files(), _ports(), _clock(), _governor(),
        _room(folder), *_programs(),
    ]  # fmt: skip


def _engine() -> Finding:
    try:
        build = engine_build(find_engine())
    except MachineError as error:
        return Finding(
            "engine", "missing", "load engine", error.message, error.hint or "nothing can be measured"
        )
    if build.profile != "release":
        return Finding(
            "engine", "limited", "load engine", build.line, "debug builds do not measure; build a release"
        )
    return Finding("engine", "ok", "load engine", build.line, f"at {build.path}")


def _cores() -> Finding:
    cores, usable = os.cpu_count() or 1, len(os.sched_getaffinity(0))
    found = f"{cores}" if usable == cores else f"{usable} of {cores} usable"
    if usable >= FEW_CORES:
        return Finding("cores", "ok", "cores", found, "engine and deployment can have cores of their own")
    return Finding(
        "cores", "limited", "cores", found,
        "engine and deployment share them: keep rates low, use nice: -10, and believe the validity verdicts",
    )  # fmt: skip


def _quiet() -> Iterator[Finding]:
    """How busy the machine is, what the hypervisor takes, and how late a sleeping program wakes up."""
    before = machine.now()
    late = jitter()
    during = machine.between(before, machine.now())
    state: State = "ok" if during.foreign_ratio < QUIET_RATIO else "limited"
    meaning = "quiet" if state == "ok" else "something else runs here: runs may be invalid (foreign_load)"
    yield Finding("busy", state, "CPU used by others", format_ratio(during.foreign_ratio), meaning)
    stolen: State = "ok" if during.steal_ratio < 0.01 else "limited"
    yield Finding(
        "steal", stolen, "CPU taken by the hypervisor", format_ratio(during.steal_ratio),
        "none worth speaking of" if stolen == "ok" else "neighbours on the host disturb: measure when it is quieter",
    )  # fmt: skip
    p99 = statistics.quantiles(late, n=100)[98]
    even: State = "ok" if p99 < JITTER_OK_S else "limited"
    yield Finding(
        "jitter", even, "lateness of a 1 ms sleep (p99)", format_duration(p99),
        "even enough" if even == "ok" else "latencies below a few times this are uncertain",
    )  # fmt: skip


def jitter(ticks: int = JITTER_TICKS) -> list[float]:
    """How much later than asked a sleep of 1 ms ends, seconds."""
    late = []
    due = time.monotonic()
    for _ in range(ticks):
        due = max(due, time.monotonic()) + JITTER_STEP_S
        time.sleep(max(0.0, due - time.monotonic()))
        late.append(max(0.0, time.monotonic() - due))
    return late


def _nice() -> Finding:
    lowest = 20 - resource.getrlimit(resource.RLIMIT_NICE)[0] if os.geteuid() != 0 else -20
    if lowest <= -10:
        return Finding("nice", "ok", "priority", f"down to nice {lowest}", "generator: {nice: -10} works")
    return Finding(
        "nice", "limited", "priority", f"down to nice {min(lowest, 19)}",
        "generator.nice below that is not permitted: the engine goes on without and says so",
    )  # fmt: skip


def _control_groups() -> Iterator[Finding]:
    mode = environment.cgroup_mode()
    if mode == "none":
        yield Finding(
            "cgroup", "missing", "control groups", "none", "CPU and memory limits cannot be applied"
        )
        return
    yield Finding("cgroup", "ok", "control groups", mode, "limits use what is writable below")
    for controller in _CONTROLLERS:
        place = _controller_place(mode, controller)
        if place is None:
            yield Finding(f"cgroup.{controller}", "missing", f"  {controller}", "not there",
                          f"{controller} limits cannot be applied; runs say so")  # fmt: skip
        elif os.access(place, os.W_OK):
            yield Finding(f"cgroup.{controller}", "ok", f"  {controller}", "writable", str(place))
        else:
            yield Finding(f"cgroup.{controller}", "limited", f"  {controller}", "not writable",
                          "limits need root, or a delegated group (systemd-run --user --scope)")  # fmt: skip


def _controller_place(mode: str, controller: str) -> Path | None:
    """The folder in which a group for this controller would be made."""
    base = Path("/sys/fs/cgroup")
    if mode != "v2":
        place = base / controller
        return place if place.is_dir() else None
    own = Path("/proc/self/cgroup").read_text(encoding="ascii").strip().rpartition("::")[2]
    place = base / own.lstrip("/")
    try:
        known = (place / "cgroup.controllers").read_text(encoding="ascii").split()
    except OSError:
        return None
    return place if controller in known else None


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    state: State = "ok" if hard >= FEW_FILES else "limited"
    meaning = (
        f"enough for about {max(0, soft - 100)} connections"
        if state == "ok"
        else "few connections only; raise `ulimit -n`"
    )
    return Finding("files", state, "open files", f"{soft} (at most {hard})", meaning)


def _ports() -> Finding:
    try:
        first, last = map(
            int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
        )
    except (OSError, ValueError):
        return Finding("ports", "limited", "local ports", "unknown", "the range cannot be read")
    count = last - first + 1
    state: State = "ok" if count >= FEW_PORTS else "limited"
    meaning = (
        "connections to one address at a time" if state == "ok" else "few; widen net.ipv4.ip_local_port_range"
    )
    return Finding("ports", state, "local ports", f"{count} ({first}–{last})", meaning)


def _clock() -> Finding:
    source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    name = source.read_text(encoding="ascii").strip() if source.exists() else "unknown"
    cost_ns = _clock_cost_ns()
    fast: State = "ok" if cost_ns < 1000 else "limited"
    resolution = time.clock_getres(time.CLOCK_MONOTONIC)
    meaning = (
        "fine" if fast == "ok" else "reading it is a system call here: the engine spends more CPU per request"
    )
    found = f"{name}, resolution {format_duration(resolution)}, {cost_ns:.0f} ns a reading"
    return Finding("clock", fast, "monotonic clock", found, meaning)


def _clock_cost_ns() -> float:
    rounds = 2000
    begun = time.perf_counter_ns()
    for _ in range(rounds):
        time.monotonic_ns()
    return (time.perf_counter_ns() - begun) / rounds


def _governor() -> Finding:
    name = environment.governor()
    if name in ("performance", "none"):
        meaning = (
            "steady frequency" if name == "performance" else "the kernel has no say here (virtual machine?)"
        )
        return Finding("governor", "ok", "CPU frequency governor", name, meaning)
    return Finding("governor", "limited", "CPU frequency governor", name,
                   "frequencies change under load: `cpupower frequency-set -g performance`")  # fmt: skip


def _room(folder: Path) -> Finding:
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    if not os.access(place, os.W_OK):
        return Finding(
            "disk", "missing", f"disk at {place}", "not writable", "results cannot be written there"
        )
    state: State = "ok" if free >= LITTLE_ROOM_BYTES else "limited"
    meaning = f"about {free // 16_000_000} million requests" if state == "ok" else "little room for records"
    return Finding("disk", state, f"disk at {place}", f"{format_bytes(free)} free", meaning)


def _programs() -> Iterator[Finding]:
    """Programs that tests and benchmarks use; experiments need none of them."""
    for name, use in (
        ("chromium", "the browser test of reports"),
        ("nginx", "benchmarks"),
        ("wrk", "benchmarks"),
        ("hey", "benchmarks"),
    ):
        path = shutil.which(name)
        if path is None:
            yield Finding(name, "missing", name, "not installed", f"only for {use}: left out")
        else:
            yield Finding(name, "ok", name, _version(path), f"for {use}")


def _version(path: str) -> str:
    flag = "-v" if "nginx" in path or "wrk" in path else "--version"
    try:
        said = subprocess.run([path, flag], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return path
    lines = (said.stdout + said.stderr).strip().splitlines()
    return lines[0][:60] if lines and "flag" not in lines[0] else path
