"""What a platform is: the seam that every way of deploying has to fit.

A platform turns a frozen config model into a `Deployment` that can be waited for, looked at and removed.
Extra abilities (scaling, faults) are Protocols of their own. `tests/contract/test_platform.py` runs against
every implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from towtank.errors import PlatformError
from towtank.platforms.transport import PLAIN, Transport


@dataclass(frozen=True)
class Instance:
    """One replica.

    Parameters
    ----------
    name : str
        ``app-0``; also what the engine calls it.
    url : str
        Base address that reaches exactly this replica.
    pid, start_ticks : int, optional
        Root process and its start time (field 22 of /proc/PID/stat), for local processes.
    cgroup : tuple of Path
        Its control groups, where there are any.
    shares_machine : bool
        It runs on this machine though its address does not say so, such as in a cluster in namespaces.
    """

    name: str
    url: str
    pid: int | None = None
    start_ticks: int | None = None
    cgroup: tuple[Path, ...] = ()
    shares_machine: bool = False


@dataclass(frozen=True)
class Target:
    """A named address that steps go to, with the instances behind it, and how requests get there.

    Secrets are in their places in `headers` and `transport`; files are named as in the experiment. `instance_header`
    names the instance that answered, `cold_header` is ``true`` when the request had to wait for it to start; both are
    headers of answers that the deployment itself adds, None where it adds none.
    """

    name: str
    instances: tuple[Instance, ...]
    headers: Mapping[str, str] = field(default_factory=dict)
    transport: Transport = PLAIN
    instance_header: str | None = None
    cold_header: str | None = None


@dataclass(frozen=True)
class SystemEvent:
    """Something that happened to the deployment: the *system* axis of validity.

    `kind` is one of the names in `campaign.reasons`: crashed, exited, oom_killed, restarted …
    """

    t_ns: int
    kind: str
    instance: str
    message: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LogFile:
    """Where an instance's output went: bytes written by it and bytes kept.

    Parameters
    ----------
    instance : str
    path : Path
        Beside it lies ``<name>.log.times``, with the times of what was written (docs/formats.md, section 3).
    bytes_written, bytes_kept : int
    incomplete : str
        Why more may have been written than was counted; empty when all was.
    facts : mapping
        What else run.json should say, such as the pod and the container.
    missed_ns : int, optional
        When it was last found to be incomplete, CLOCK_MONOTONIC; None counts at any time.
    ended_ns : int, optional
        Since when nothing more can come, CLOCK_MONOTONIC; None where something can.
    """

    instance: str
    path: Path
    bytes_written: int
    bytes_kept: int
    incomplete: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    missed_ns: int | None = None
    ended_ns: int | None = None


@dataclass(frozen=True)
class Edge:
    """The way of calls from one component (or `LOAD`, the load itself) to a target."""

    source: str
    target: str


LOAD = "load"
"""Where an edge begins that requests of the load itself take."""


@dataclass(frozen=True)
class DeployContext:
    """What a deployment gets to know about the run (or block, or experiment) it lives in.

    Parameters
    ----------
    name : str
        Name of the deployment in the experiment file.
    token : str
        Unique mark of this deployment; written to the intents before anything is created.
    data_dir : Path
        The deployment's own folder for data; `{data}` in commands and environment.
    log_dir : Path
    root : Path
        Folder of the experiment file; relative paths start here.
    fixtures : mapping
        Fixture name → its folder, `{fixture.NAME}` in commands and environment.
    experiment : str
        Name of the experiment, for marks that people read; empty where there is none.
    edges : tuple of Edge
        Edges that faults of some run are about: calls over them must go where they can be disturbed.
    """

    name: str
    token: str
    data_dir: Path
    log_dir: Path
    root: Path
    fixtures: Mapping[str, Path] = field(default_factory=dict)
    experiment: str = ""
    edges: tuple[Edge, ...] = ()


class Deployment(Protocol):
    """A deployment that exists."""

    @property
    def targets(self) -> Mapping[str, Target]:
        """Where requests can go, by name."""

    def wait_ready(self, *, cancelled: Cancelled) -> None:
        """Block until every instance answers its readiness probe.

        Raises
        ------
        ReadinessTimeout
            With the instance, what the probe saw last, and the last log lines.
        PlatformError
            An instance died before it was ready.
        """

    def events(self) -> Sequence[SystemEvent]:
        """Everything that happened so far, oldest first; may be called at any time from another thread.

        A crash under load is an event, never an exception: it is the treatment's result.

        Raises
        ------
        PlatformError
            The platform itself was lost, so that nothing can be said about the deployment any more.
        """

    def describe(self) -> dict[str, Any]:
        """Facts for run.json: instances, limits and whether they could be applied, versions."""

    def remove(self) -> Sequence[LogFile]:
        """End everything that was created, however often it is called; nothing is left behind."""


@runtime_checkable
class KeepsSecrets(Protocol):
    """A deployment that was given values nobody may read: they never leave it unmasked."""

    def mask(self, text: str) -> str:
        """Replace every secret value in a text that is about to be written somewhere."""


def mask_of(deployment: Deployment | None) -> Callable[[str], str]:
    """What takes a deployment's secrets out of a text; one that keeps none leaves it as it is."""
    return deployment.mask if isinstance(deployment, KeepsSecrets) else str


@runtime_checkable
class WritesLogs(Protocol):
    """A deployment whose instances' output goes to files in `DeployContext.log_dir` while it lives."""

    def logs(self) -> Sequence[LogFile]:
        """The files of all instances with what was written up to now; may wait a moment until it is there.

        Raises
        ------
        PlatformError
            What writes them is gone.
        """


@runtime_checkable
class ProbesAfterRun(Protocol):
    """A deployment whose state is only known by asking it: probe once, when the load has ended."""

    def probe(self) -> None:
        """Ask every instance; what does not answer becomes an event of kind `unreachable`."""


@runtime_checkable
class KnowsBaseline(Protocol):
    """A deployment that can say itself whether it is back where it began, since its instances are elsewhere."""

    def unsettled(self, *, cpu_below: float | None, replicas: bool) -> str:
        """What keeps it from its baseline, in words; empty when nothing does.

        Parameters
        ----------
        cpu_below : float, optional
            Share of CPU that the machines under it must be below.
        replicas : bool
            As many instances as at the start, and no autoscaler about to change that.
        """


@runtime_checkable
class HasChangingInstances(Protocol):
    """A deployment whose instances come and go on this machine while it lives."""

    def instances_now(self) -> Sequence[Instance]:
        """Those that are there at this moment."""


@runtime_checkable
class ScalesToZero(Protocol):
    """A deployment that may have no instance at all, and can say whether it has one."""

    def above_zero(self) -> str:
        """What still is there of it, in words; empty when nothing is."""


@runtime_checkable
class KnowsItIsNeverEmpty(Protocol):
    """A config model that can say beforehand why its deployment would always have an instance."""

    def never_empty(self, root: Path) -> str:
        """Why, with the key that says so; empty where it may have none. Asks nobody; `root` has its files."""


@runtime_checkable
class TellsOfRemoval(Protocol):
    """A deployment that takes its time to go, and has something to say of that."""

    def removal_events(self) -> Sequence[SystemEvent]:
        """What happened while it was removed; no matter of the system's behaviour under load."""


@runtime_checkable
class NamesImages(Protocol):
    """A deployment made of images: their names can be given to something else between two runs."""

    def images(self) -> Mapping[str, Sequence[str]]:
        """Image as the deployment names it → digests of what its instances really run now, in order."""


# --- powers: what faults ask of a deployment; a platform says in its `PlatformKind` which faults it can do ---------

Undo = Callable[[], None]
"""Puts back what was changed; may raise a PlatformError."""


class FaultMissed(PlatformError):  # noqa: N818 - it is undone, and that went well
    """Raised by an `Undo`: what was wrong is put right, and nobody can have felt it."""


@runtime_checkable
class HasVictims(Protocol):
    """A deployment that can say what a fault of instances can hit."""

    def victims(self, target: str) -> Sequence[str]:
        """Names of the instances behind a target that are there at this moment, in a fixed order."""


@runtime_checkable
class KillsInstances(Protocol):
    """A deployment whose instances can be ended on purpose; such an end is no crash."""

    def kill_instance(self, name: str, *, grace_s: float) -> None:
        """End it: at once, or, with a grace, asking it first. Returns when it was told, not when it is gone."""


@runtime_checkable
class RestartsInstances(Protocol):
    """A deployment in which nobody brings back what was killed, unless asked to."""

    def restart_instance(self, name: str) -> None:
        """Start an instance again that was killed, at the same address; returns when it is there, ready or not."""


@runtime_checkable
class StopsInstances(Protocol):
    """A deployment whose instances can be stopped (SIGSTOP) and let go on."""

    def stop_instance(self, name: str, *, lasts_s: float | None = None) -> Undo:
        """Stop every process of it; lets it go on when undone.

        `lasts_s`, here and below: who makes the fault elsewhere undoes it by itself when nobody has soon after this.
        """


@runtime_checkable
class LimitsCpu(Protocol):
    """A deployment whose instances can be left less CPU while they run."""

    def limit_cpu(self, name: str, cores: float, *, lasts_s: float | None = None) -> Undo:
        """Leave an instance this many cores; gives back what it had when undone."""


@runtime_checkable
class CutsInstances(Protocol):
    """A deployment whose instances, or the nodes that they are on, can be cut off the network."""

    def cut_instance(
        self, name: str, what: Literal["instance", "node"], *, lasts_s: float | None = None
    ) -> Undo:
        """Let nothing come to it or from it."""


@runtime_checkable
class FillsVolumes(Protocol):
    """A deployment whose instances have volumes that can be filled from outside."""

    def fill_volume(self, name: str, filling: Filling, *, lasts_s: float | None = None) -> tuple[int, Undo]:
        """Let one file take room; how many bytes it has."""


@dataclass(frozen=True)
class Filling:
    """A file that takes room: its folder, its size at most, and what stays free, on a shared disk too; bytes."""

    folder: str
    size_bytes: int
    leave_bytes: int
    leave_shared_bytes: int


@runtime_checkable
class HasDataFolder(Protocol):
    """A deployment with a folder for data on this machine; it goes when the deployment does."""

    @property
    def data_folder(self) -> Path:
        """`{data}`."""


@dataclass(frozen=True)
class EdgeTrouble:
    """What is wrong with an edge: answers are delayed, calls dropped or aborted, or nothing comes through at all.

    Parameters
    ----------
    kind : {"delay", "drop", "abort", "cut"}
    share : float
        Of connections, 0–1.
    delay_s, jitter_s : float
    """

    kind: Literal["delay", "drop", "abort", "cut"]
    share: float = 1.0
    delay_s: float = 0.0
    jitter_s: float = 0.0


@runtime_checkable
class HasEdges(Protocol):
    """A deployment that can disturb calls over the edges that `DeployContext.edges` named."""

    def disturb_edge(self, edge: Edge, instance: str, trouble: EdgeTrouble) -> Undo:
        """Make the way to one instance misbehave."""


@runtime_checkable
class HasWholeEdges(Protocol):
    """As `HasEdges`, where nobody can say to which instance a call goes: an edge is disturbed as a whole."""

    def disturb_whole_edge(self, edge: Edge, trouble: EdgeTrouble, *, lasts_s: float | None = None) -> Undo:
        """Make the way to all instances misbehave."""


@runtime_checkable
class ChecksFaults(Protocol):
    """A platform on which it hangs on the machine whether a fault can be done."""

    def check_faults(self, kinds: Sequence[str]) -> Sequence[str]:
        """Problems that faults of these kinds would have here, with what to do about them; changes nothing."""


class Cancelled(Protocol):
    """Raises `Interrupted` when the user asked to stop; called inside waiting loops."""

    def __call__(self) -> None:
        """Return quietly, or raise."""


class Platform(Protocol):
    """A way of deploying."""

    name: str

    def check(self, config: Any, root: Path | None = None) -> Sequence[str]:  # noqa: ANN401 - its own model
        """Problems that can be known before anything is created: a missing program, a port in use.

        Changes nothing. `root` is the folder of the experiment file; without it, what hangs on it is not checked.
        """

    def deploy(self, config: Any, context: DeployContext) -> Deployment:  # noqa: ANN401 - its own model
        """Create the deployment and return at once; a failure half-way removes what was created.

        Raises
        ------
        PlatformError
        """

    def sweep(self, token: str) -> int:
        """End what a dead Towtank left of the deployment with this token; the number of things ended."""


@runtime_checkable
class SweepsFromNotes(Protocol):
    """A platform whose deployments are elsewhere: it notes where, in their folders, before it creates them."""

    def sweep_noted(self, token: str, folder: Path) -> int:
        """As `Platform.sweep`, with the folder (or the one above it) that was the deployment's `data_dir`."""


@runtime_checkable
class HasPlace(Protocol):
    """A platform that deploys to a place with an identity; results of two places are never mixed."""

    def place(self, config: Any, root: Path) -> tuple[str, str]:  # noqa: ANN401 - its own model
        """What the experiment file calls the place, and which one it really is.

        Raises
        ------
        PlatformError
        """


@runtime_checkable
class TellsWhatItCreates(Protocol):
    """A platform where what is created costs money by itself: a plan says what it would be."""

    def would_create(self, config: Any) -> Sequence[str]:  # noqa: ANN401 - its own model
        """One line for each thing, asking nobody."""


@runtime_checkable
class BoundsUse(Protocol):
    """A config model that says how much there can be of a deployment, so that its price is bounded before it runs."""

    def used_at_least(self) -> tuple[float, float]:
        """CPU cores and bytes of instances that are there without load."""

    def used_at_most(self) -> tuple[float, float]:
        """CPU cores and bytes of all instances there may be at a time."""


def sweep(platform: Platform, token: str, folder: Path | None) -> int:
    """End what is left of a deployment, in the way that its platform has."""
    if folder is not None and isinstance(platform, SweepsFromNotes):
        return platform.sweep_noted(token, folder)
    return platform.sweep(token)
