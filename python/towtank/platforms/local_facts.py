"""What is said about local instances: how they ended, which limits they had; in words and as facts for run.json."""

from __future__ import annotations

import signal as signals
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from towtank.platforms.base import LogFile, SystemEvent
from towtank.platforms.guard_messages import Exited, Spawned, SpawnRequest
from towtank.platforms.launch import Launch
from towtank.units import format_bytes


def exit_event(ended: Exited, launch: Launch, *, noted: bool) -> SystemEvent:
    """An instance that ended by itself, under load or not."""
    kind = "exited" if ended.code == 0 else "crashed"
    if ended.oom_killed and (ended.signal == signals.SIGKILL or not noted):
        kind = "oom_killed"
    detail = {
        "pid": ended.pid,
        "code": ended.code,
        "signal": _signal_name(ended.signal),
        "oom_killed": ended.oom_killed,
        "descendants_killed": ended.descendants_killed,
    }
    return SystemEvent(ended.t_ns, kind, ended.id, f"{ended.id} ended: {how(ended, launch)}", detail)


def oom_event(name: str, t_ns: int, launch: Launch, more: str) -> SystemEvent:
    """A process of an instance that the kernel killed, while or without the instance ending."""
    message = f"the kernel killed a process of {name} for want of memory ({_memory(launch)}); {more}"
    return SystemEvent(t_ns, "oom_killed", name, message, {"memory_limit_bytes": launch.request.memory_bytes})


def how(ended: Exited, launch: Launch) -> str:
    """How a process ended, in words."""
    if ended.oom_killed:
        return f"the kernel killed it for want of memory ({_memory(launch)})"
    if ended.signal is not None:
        return f"killed by {_signal_name(ended.signal)}"
    return f"exit code {ended.code}"


def _memory(launch: Launch) -> str:
    limit = launch.request.memory_bytes
    return "no limit was set" if limit is None else f"its limit is {format_bytes(limit)}"


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe(launch: Launch, spawned: Spawned | None) -> dict[str, Any]:
    """One instance: what was asked for, and what became of it."""
    request = launch.request
    asked = {
        "cpu": request.cpu_cores,
        "memory": request.memory_bytes,
        "cpus": request.cpus,
        "nice": request.nice,
    }
    outcome = spawned.limits if spawned else {}
    limits = {}
    for name, value in asked.items():
        if value is None or (name == "nice" and value == 0):
            continue
        said = outcome.get(name) or "the guard said nothing about it"
        limits[name] = {
            "asked": value,
            "applied": said == "applied",
            "note": "" if said == "applied" else said,
        }
    return {
        "name": request.id,
        "component": launch.planned.component_name,
        "url": launch.planned.url,
        "command": list(launch.shown_command),
        "env": dict(launch.shown_env),
        "cwd": str(request.cwd),
        "pid": spawned.pid if spawned else None,
        "start_ticks": spawned.start_ticks if spawned else None,
        "cgroup": [str(path) for path in spawned.cgroup] if spawned else [],
        "limits": limits,
        "log": request.log.name,
    }


def log_files(
    started: Iterable[SpawnRequest],
    exits: Sequence[Exited],
    living: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[LogFile]:
    """What every instance wrote in all its starts: a log is continued, not begun anew.

    Parameters
    ----------
    started : iterable of SpawnRequest
    exits : sequence of Exited
    living : mapping, optional
        What the guard says of each instance now; without it all have ended.
    """
    found = []
    for request in started:
        ends = [ended for ended in exits if ended.id == request.id]
        now = (living or {}).get(request.id, {})
        if ends or now:
            written, kept = sum(e.log_bytes for e in ends), sum(e.log_kept_bytes for e in ends)
            if now.get("running"):
                written, kept = written + int(now["log_bytes"]), kept + int(now["log_kept_bytes"])
        else:  # the guard was killed and took its counts along
            written = kept = request.log.stat().st_size if request.log.exists() else 0
        found.append(LogFile(request.id, request.log, written, kept))
    return found
