"""The engine's part of a run: its job, how long it may take, and how it is ended before its time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from towtank.campaign.stopping import StopRequest
from towtank.design.foreign import ForeignWorkload
from towtank.design.journey_shape import longest_timeout_s
from towtank.design.load_shape import duration_s
from towtank.design.model import TreatmentSpec
from towtank.errors import EngineError, Interrupted
from towtank.load.engine import EngineProcess, Ready, flush_timeout_s
from towtank.load.job import JobRequest, build_job
from towtank.platforms.base import Target
from towtank.store import RunWriter
from towtank.store.layout import ResultsLayout

START_AHEAD_S = 0.3
"""The start is ordered this far ahead, so that the engine is asleep on its clock when it comes."""
STOP_FLUSH_S = 10.0
"""After Ctrl-C, the engine has this long to flush."""


def job_of(
    spec: TreatmentSpec,
    writer: RunWriter,
    targets: Mapping[str, Target],
    *,
    seed: int,
    results: Path,
    root: Path,
) -> dict[str, Any]:
    """The job of a run; files are read from what the results keep, and beside the experiment file."""
    if isinstance(spec.workload, ForeignWorkload):
        raise TypeError(f"workload {spec.workload_name!r} is not the engine's")
    return build_job(
        JobRequest(
            run_id=writer.record.run_id, seed=seed, output=writer.layout.request_logs.absolute(),
            workloads=spec.driven, targets=targets, generator=spec.generator,
            files=(ResultsLayout(results).files.absolute(), root.absolute()),
        )
    )  # fmt: skip


def longest_s(spec: TreatmentSpec, ready: Ready) -> float:
    """When an engine that has not finished counts as lost."""
    longest = max(
        duration_s(w.load) + getattr(w.load, "graceful", 0.0) + longest_timeout_s(w)
        for w in spec.workloads.values()
    )
    return START_AHEAD_S + longest + flush_timeout_s(ready.due or 0)


def stop_in_order(engine: EngineProcess, stop: StopRequest) -> None:
    """The user asked to stop: nothing new is sent, everything is flushed, within a bound."""
    if stop.hurry:
        return
    engine.stop()

    def hurried() -> None:
        if stop.hurry:
            raise Interrupted("stopped in a hurry")

    try:
        engine.wait_done(timeout_s=STOP_FLUSH_S, cancelled=hurried)
    except (EngineError, Interrupted):
        return  # its logs on disk stay readable; what matters now is to end
