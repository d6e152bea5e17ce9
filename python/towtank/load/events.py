"""What an engine says while it works: one JSON object a line (docs/formats.md, 1), and what is known from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

COMPACT_FAILED = "compact_failed"
"""The finding that logs could not be made into one file: records that are there are none of this run."""


@dataclass(frozen=True)
class Ready:
    """The engine understood its job and waits for the start."""

    version: str
    build: Mapping[str, Any]
    backend: str
    threads: int
    pid: int
    due: int | None


@dataclass(frozen=True)
class Progress:
    """What the last second looked like; times in µs as docs/formats.md §1 says."""

    t_us: int
    due: int = 0
    sent: int = 0
    done: int = 0
    failed: int = 0
    in_flight: int = 0
    queued: int = 0
    users: int = 0
    p50_us: float | None = None
    p95_us: float | None = None
    lag_p99_us: float | None = None
    cpu_cores: float | None = None
    bytes_in: int = 0
    bytes_out: int = 0

    @classmethod
    def read(cls, event: Mapping[str, Any]) -> Self:
        """Take what is known from an event; newer engines may say more."""
        known = {name: event[name] for name in cls.__dataclass_fields__ if event.get(name) is not None}
        return cls(**{"t_us": 0, **known})


@dataclass(frozen=True)
class Done:
    """How it ended: counts, window and self-measurement as the engine says."""

    counts: Mapping[str, Any]
    window: Mapping[str, int]
    self_: Mapping[str, Any]
    files: Sequence[Mapping[str, Any]]
    stopped_by: str


@dataclass
class Heard:
    """What one engine has said so far. Not safe to use from several threads: its owner guards it."""

    ready: Ready | None = None
    started_ns: int | None = None
    done: Done | None = None
    errors: list[str] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    closed: bool = False

    def take(self, line: bytes) -> Progress | None:
        """Take in one line; what is no event is noted as an error. Gives the progress of the last second."""
        try:
            event = json.loads(line)
            return self._note(event["event"], event)
        except (ValueError, KeyError, TypeError) as error:
            self.errors.append(f"it said {line[:200]!r}, which is not an event ({error!r})")
            return None

    def _note(self, kind: str, event: dict[str, Any]) -> Progress | None:
        match kind:
            case "ready":
                self.ready = Ready(
                    str(event["engine"]), event["build"], str(event["backend"]),
                    int(event["threads"]), int(event["pid"]), event.get("due"),
                )  # fmt: skip
            case "started":
                self.started_ns = int(event["start_ns"])
            case "finding":
                self.findings.append(event)
            case "error":
                path = event.get("path")
                self.errors.append(f"{path}: {event['message']}" if path else str(event["message"]))
            case "done":
                self.done = Done(
                    event["counts"], event["window"], event["self"], event["files"],
                    str(event["stopped_by"]),
                )  # fmt: skip
            case "progress":
                return Progress.read(event)
            case _:
                pass  # a newer engine may say more; what we need it says as agreed
        return None
