"""The engine's part of a run: its job, who carries it out, how long it may take, and how it is ended early."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from towtank.campaign.stopping import StopRequest
from towtank.design.foreign import ForeignWorkload
from towtank.design.journey_shape import longest_timeout_s
from towtank.design.load_shape import duration_s
from towtank.design.model import TreatmentSpec
from towtank.errors import EngineError, Interrupted
from towtank.load.engine import EngineProcess, flush_timeout_s
from towtank.load.events import Done, Progress, Ready
from towtank.load.job import JobRequest, build_job
from towtank.load.workers import Fleet, Place, Shipment
from towtank.load.workers.shipment import ShippedRequest
from towtank.platforms.base import Cancelled, Target
from towtank.store import RunWriter
from towtank.store.layout import ResultsLayout

STOP_FLUSH_S = 10.0
"""After Ctrl-C, the engine has this long to flush."""
_DEADLINE_RESERVE_S = 300.0
"""Workers outlive what they are to do by this at most, should nobody be there any more to end them."""


class Generates(Protocol):
    """Whatever carries a job out: one engine of this machine, or several workers."""

    start_ahead_s: float

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    @property
    def own_pids(self) -> tuple[int, ...]:
        """Processes on this machine that make the load."""

    @property
    def findings(self) -> Sequence[Mapping[str, Any]]:
        """What it had to say of itself so far."""

    def facts(self) -> Mapping[str, Any]:
        """Where the load came from; for run.json."""

    def wait_ready(self, *, cancelled: Cancelled) -> Ready:
        """Wait until the job was understood."""

    def start_at(self, monotonic_ns: int) -> None:
        """Order the start."""

    def wait_started(self, *, cancelled: Cancelled) -> int:
        """Wait until the start is certain; run-clock zero."""

    def wait_done(self, *, timeout_s: float, cancelled: Cancelled) -> Done:
        """Wait until all records are on disk."""

    def stop(self) -> None:
        """Ask for an orderly end."""


@dataclass(frozen=True)
class Asked:
    """A job, as it is carried out and as it is kept.

    Parameters
    ----------
    job : dict
        With its secrets.
    shipment : Shipment, optional
        Files that travel with it; None where the engine reads them itself.
    output : Path
        Folder of the logs.
    """

    job: dict[str, Any]
    shipment: Shipment | None
    output: Path


def asked_of(
    spec: TreatmentSpec,
    writer: RunWriter,
    targets: Mapping[str, Target],
    *,
    seed: int,
    results: Path,
    root: Path,
) -> Asked:
    """Make the job of a run; files are read from what the results keep, and beside the experiment file."""
    if isinstance(spec.workload, ForeignWorkload):
        raise TypeError(f"workload {spec.workload_name!r} is not the engine's")
    output = writer.layout.request_logs.absolute()
    files = (ResultsLayout(results).files.absolute(), root.absolute())
    shipment = Shipment() if spec.generator.is_shared else None
    request = JobRequest(
        writer.record.run_id, seed, output, spec.driven, targets, spec.generator, files=files
    )
    if shipment is not None:
        request = ShippedRequest(
            writer.record.run_id, seed, output, spec.driven, targets, spec.generator, files=files, shipment=shipment
        )  # fmt: skip
    return Asked(build_job(request), shipment, output)


def generator_of(
    spec: TreatmentSpec,
    asked: Asked,
    *,
    engine: Path,
    kept: tuple[Path, Mapping[str, Any]],
    logs: Path,
    token: str,
    place: Place | None,
    on_progress: Callable[[Progress], None],
) -> Generates:
    """Who carries the job out.

    Parameters
    ----------
    spec : TreatmentSpec
    asked : Asked
    engine : Path
    kept : tuple
        Path and content of the job as it was kept.
    logs : Path
        Folder for what engines write to stderr.
    token : str
        Mark of their processes.
    place : Place, optional
        Where workers are; None for one engine of this machine.
    on_progress : callable
    """
    if place is None or asked.shipment is None:
        path, content = kept
        return EngineProcess(
            engine, path, log_path=logs / "engine.log", token=token,
            private_job=asked.job if content != asked.job else None, on_progress=on_progress,
        )  # fmt: skip
    settle = spec.settle
    deadline_s = (
        place.start_timeout_s + settle.timeout + settle.hold + load_s(spec) + 2 * flush_timeout_s(0)
        + _DEADLINE_RESERVE_S
    )  # fmt: skip
    return Fleet(
        place, spec.generator.workers, lambda number: _job_for(number, asked.job, spec), asked.shipment,
        output=asked.output, engine=engine, deadline_s=deadline_s, on_progress=on_progress,
    )  # fmt: skip


def _job_for(number: int, job: Mapping[str, Any], spec: TreatmentSpec) -> Mapping[str, Any]:
    """The job of one worker: those of this machine share its CPUs out."""
    cpus, workers = job.get("cpus"), spec.generator.workers
    if spec.generator.where != "local" or not cpus:
        return job
    return {**job, "cpus": cpus[number::workers]}


def load_s(spec: TreatmentSpec) -> float:
    """From the start of the load to the end of its last request, at most."""
    return max(
        duration_s(w.load) + getattr(w.load, "graceful", 0.0) + longest_timeout_s(w)
        for w in spec.workloads.values()
    )


def longest_s(spec: TreatmentSpec, ready: Ready, generator: Generates) -> float:
    """When a generator that has not finished counts as lost."""
    return generator.start_ahead_s + load_s(spec) + flush_timeout_s(ready.due or 0)


def stop_in_order(generator: Generates, stop: StopRequest) -> None:
    """The user asked to stop: nothing new is sent, everything is flushed, within a bound."""
    if stop.hurry:
        return
    generator.stop()

    def hurried() -> None:
        if stop.hurry:
            raise Interrupted("stopped in a hurry")

    try:
        generator.wait_done(timeout_s=STOP_FLUSH_S, cancelled=hurried)
    except (EngineError, Interrupted):
        return  # its logs on disk stay readable; what matters now is to end
