"""What goes to the guard of local processes and what comes back; docs/formats.md §3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class SpawnRequest:
    """One process to start; fields as in the protocol."""

    id: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    log: Path
    log_limit_bytes: int
    grace_ms: int
    cpu_cores: float | None = None
    memory_bytes: int | None = None
    cpus: Sequence[int] | None = None
    nice: int | None = None

    def command(self) -> dict[str, Any]:
        """As one command of the protocol."""
        fields = {**vars(self), "cwd": str(self.cwd), "log": str(self.log)}
        return {"cmd": "spawn", **fields}


@dataclass(frozen=True)
class GuardReady:
    """Who the guard is, and what it can do here."""

    pid: int
    start_ticks: int
    cgroup: str
    note: str


@dataclass(frozen=True)
class Spawned:
    """A process that was started; `limits` says "applied" or why not, per limit asked for."""

    id: str
    pid: int
    start_ticks: int
    cgroup: tuple[Path, ...]
    limits: Mapping[str, str | None]


@dataclass(frozen=True)
class Exited:
    """An instance that is gone with all its processes."""

    id: str
    pid: int
    code: int | None
    signal: int | None
    oom_killed: bool
    t_ns: int
    log_bytes: int
    log_kept_bytes: int
    descendants_killed: int
    expected: bool

    @classmethod
    def read(cls, event: Mapping[str, Any]) -> Self:
        """Take what is known from an event; a newer guard may say more."""
        return cls(**{name: event[name] for name in cls.__dataclass_fields__})


@dataclass
class Heard:
    """What a guard has said so far; its client guards it with a lock."""

    ready: GuardReady | None = None
    spawned: dict[str, Spawned] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    exits: list[Exited] = field(default_factory=list)
    running: set[str] = field(default_factory=set)
    statuses: int = 0
    status: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    closed: bool = False

    def take(self, event: Mapping[str, Any]) -> Exited | None:
        """Take one event in; events of a newer guard are ignored.

        Returns
        -------
        Exited or None
            The instance that is gone, where the event says that one is.

        Raises
        ------
        KeyError, TypeError, AttributeError
            It is none.
        """
        match event["event"]:
            case "ready":
                self.ready = GuardReady(
                    event["pid"], event["start_ticks"], event["cgroup"], event.get("note") or ""
                )
            case "spawned":
                self.spawned[event["id"]] = Spawned(
                    event["id"], event["pid"], event["start_ticks"],
                    tuple(Path(p) for p in event.get("cgroup") or ()), dict(event.get("limits") or {}),
                )  # fmt: skip
                self.running.add(event["id"])
            case "spawn_failed":
                self.failed[event["id"]] = event.get("message") or "no reason was given"
            case "exited":
                ended = Exited.read(event)
                self.exits.append(ended)
                self.running.discard(ended.id)
                return ended
            case "status":
                self.status = event["instances"]
                self.statuses += 1
            case "error":
                self.errors.append(event["message"])
        return None
