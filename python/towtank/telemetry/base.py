"""What a telemetry source is, and what it yields.

`tests/contract/test_telemetry.py` runs against every implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from towtank.clock import RunClock
from towtank.platforms.base import Instance


class Sample(NamedTuple):
    """A number observed at a moment.

    `metric` carries its unit: cpu_cores, cpu_user_ratio, cpu_steal_ratio, memory_bytes, disk_read_bytes_per_s …
    """

    t_us: int
    source: str
    instance: str
    metric: str
    value: float


class Event(NamedTuple):
    """Something that happened at a moment."""

    t_us: int
    source: str
    kind: str
    instance: str
    message: str
    detail: str = "{}"


@dataclass(frozen=True)
class ObserveContext:
    """What a source needs to know of the run.

    Parameters
    ----------
    clock : RunClock
    interval_s : float
    instances : sequence of Instance
    own_pids : tuple of int
        Towtank's own processes (orchestrator, engine, guard), to be told apart from the system's load.
    """

    clock: RunClock
    interval_s: float
    instances: Sequence[Instance]
    own_pids: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """A telemetry source. Its methods are called from one thread, never concurrently."""

    name: str

    def start(self, context: ObserveContext) -> None:
        """Prepare; take the first reading of counters.

        Raises
        ------
        TelemetryError
        """

    def sample(self, t_us: int) -> Iterable[Sample]:
        """Read once; `t_us` is the run time of the reading. A vanished instance yields nothing."""

    def close(self) -> Iterable[Sample]:
        """Let go of everything; sources that hold back values yield them here."""


@runtime_checkable
class YieldsEvents(Protocol):
    """A source that also notices happenings; asked after each reading and after `close`."""

    def events(self) -> Iterable[Event]:
        """What was noticed since the last call."""
