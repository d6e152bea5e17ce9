"""What a telemetry source is, and what it yields.

`tests/contract/test_telemetry.py` runs against every implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from towtank.clock import RunClock
from towtank.platforms.base import DeployContext, Instance


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


class Span(NamedTuple):
    """A piece of work that the system itself timed: one hop of a request's way.

    `start_us` is on the clock of the source's context, as a sample's time is. Ids are hexadecimal; `parent_id` is empty
    where there is none. `kind` and `status` are OpenTelemetry's words in small letters; `attributes` is a JSON object.
    """

    trace_id: str
    span_id: str
    parent_id: str
    service: str
    name: str
    kind: str
    start_us: int
    duration_us: int
    status: str
    instance: str
    attributes: str = "{}"


class TracedRequest(NamedTuple):
    """A request that carried a trace id: the id of its own span, when it was sent and when it was over, µs."""

    parent_id: str
    started_us: int
    ended_us: int


@dataclass(frozen=True)
class Gap:
    """A time in which a source saw nothing; from and to in µs of the run clock."""

    source: str
    from_us: int
    to_us: int
    reason: str


@dataclass(frozen=True)
class Outlook:
    """What a source found out before the first run.

    Parameters
    ----------
    problems : tuple of str
        Reasons for which no run could be observed: nothing is started.
    remarks : tuple of str
        What may be meant so, but is worth a word.
    """

    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Helper:
    """Something that a source starts beside a run; it was written down before, so that it is ended whatever happens.

    Parameters
    ----------
    context : DeployContext
        Its mark, and folders for notes and logs.
    engine : Path
        The program that it may be.
    over : callable
        To be called when nothing of it is left.
    """

    context: DeployContext
    engine: Path
    over: Callable[[], None]


class Helpers(Protocol):
    """Lets sources start something."""

    def declare(self, name: str, *, platform: str = "") -> Helper:
        """Write down that something is about to exist.

        Parameters
        ----------
        name : str
            For people.
        platform : str
            Whose clean-up can remove it; empty for processes of this machine.
        """


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
    options : mapping
        What only this source has; `telemetry.options.read_options` validates it.
    root : Path
        Folder of the experiment file, where files that options name are.
    deployment : object, optional
        What is looked at; a source asks it for an ability, such as `platforms.kubernetes.view.SeenInCluster`.
    helpers : Helpers, optional
        For sources that start something of their own.
    """

    clock: RunClock
    interval_s: float
    instances: Sequence[Instance]
    own_pids: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    root: Path = Path()
    deployment: object | None = None
    helpers: Helpers | None = None

    def gap(self, source: str, from_ns: int, to_ns: int, reason: str) -> Gap:
        """Time in which a source saw nothing, between two moments of CLOCK_MONOTONIC."""
        return Gap(source, self.clock.at_us(from_ns), self.clock.at_us(to_ns), reason)


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


@runtime_checkable
class AsksOthers(Protocol):
    """A source that asks somebody else and has to wait: it is read by a thread of its own and holds up nobody."""

    @property
    def patience_s(self) -> float:
        """How long the end of the observation waits for it at most, s."""


@runtime_checkable
class KnowsGaps(Protocol):
    """A source that says itself what it did not see; asked once, after `close`."""

    def gaps(self) -> Sequence[Gap] | None:
        """Its gaps; None when they follow from the times of its readings."""


@runtime_checkable
class StatesFacts(Protocol):
    """A source that has something to say of itself for run.json, such as how well it knows its times."""

    def facts(self) -> Mapping[str, Any]:
        """What can be written as JSON; asked once, after `close`."""


@runtime_checkable
class LooksAhead(Protocol):
    """A source that can find out before the first run whether it will see anything."""

    def look_ahead(self, options: Mapping[str, Any], root: Path, interval_s: float) -> Outlook:
        """Ask, and change nothing; what cannot be found out is no problem."""


@runtime_checkable
class LooksAtDeployments(Protocol):
    """A source that sees deployments on some platforms, and can find out before the first run whether it will."""

    def look_ahead_at(
        self, options: Mapping[str, Any], deployments: Sequence[Any], root: Path
    ) -> Sequence[str]:
        """Ask, and change nothing; reasons for which no run could be observed.

        Parameters
        ----------
        options : mapping
            As in `ObserveContext`.
        deployments : sequence
            Config models of the deployments that will be looked at, each once.
        root : Path
            Folder of the experiment file.
        """


@runtime_checkable
class KeepsSpans(Protocol):
    """A source that receives spans; they come late, so that it is told which requests to wait for."""

    def expect(self, requests: Mapping[str, TracedRequest]) -> None:
        """Say which requests carried which trace id, once the load is over and before `close`.

        Called from another thread. `close` may then wait for their spans, no longer than `patience_s` says. Times are
        on the clock of the source's context. Where no load was carried out, it is not called.
        """

    def spans(self) -> Sequence[Span]:
        """What was received; asked once, after `close`."""
