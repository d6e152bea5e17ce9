"""`run.json`: what is known about one run, besides its tables."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

LOGGED_IN_WINDOW, LOGGED_IN_DRIVE = "bytes_in_window", "bytes_in_drive"
"""Facts of a log in `run.json`: bytes written in the measured window, and from the start of the load to its end."""
SCHEMA_VERSION = 1
"""Of the whole run folder; a folder with a higher one is refused (NewerVersionError)."""


class Record(BaseModel):
    """Tolerant on reading: a later minor version may have added keys."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Reason(Record):
    """Why a run is not valid or not intact; names and thresholds come from campaign.reasons.

    `severe` says that this reason alone makes a run invalid or collapsed; else it makes it suspect or degraded.
    """

    name: str
    value: float | None = None
    threshold: float | None = None
    message: str
    advice: str = ""
    severe: bool = True


class Verdicts(Record):
    """The two axes of validity; never mixed."""

    instrument: Literal["valid", "suspect", "invalid"]
    instrument_reasons: tuple[Reason, ...] = ()
    system: Literal["intact", "degraded", "collapsed"]
    system_reasons: tuple[Reason, ...] = ()


class StageWindow(Record):
    """A stage of a workload on the run clock."""

    workload: str
    name: str
    start_us: int
    end_us: int


class FaultWindow(Record):
    """One stroke of a fault on the run clock.

    `kind` is ``none`` where the treatment has no fault then: only its time is of interest, to compare with. `began_us`
    is when it began, `undone_us` when it had been undone; null when it never was.
    """

    kind: str
    target: str = ""
    instances: tuple[str, ...] = ()
    planned_us: int
    began_us: int | None = None
    undone_us: int | None = None


class Window(Record):
    """The measured window: membership by `scheduled`; empty when the load was over before its warm-up."""

    start_us: int
    end_us: int
    drained_us: int

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.end_us < self.start_us:
            raise ValueError(f"the window ends at {self.end_us} µs, before it starts at {self.start_us} µs")
        return self


class ClockRecord(Record):
    """How run time relates to the host's clocks."""

    zero_monotonic_ns: int
    zero_utc: str
    boot_id: str
    wall_step_us: int = 0


class RunRecord(Record):
    """One attempt of one planned run."""

    schema_version: int = SCHEMA_VERSION
    state: Literal["running", "complete"]
    run_id: str
    planned_id: str
    experiment: str
    treatment_id: str
    treatment_label: str
    levels: dict[str, Any]
    block: int
    position: int
    attempt: int
    seed: int
    started_utc: str
    finished_utc: str | None = None
    clock: ClockRecord | None = None
    window: Window | None = None
    stages: tuple[StageWindow, ...] = ()
    faults: tuple[FaultWindow, ...] = ()
    workload: str = ""
    load_model: Literal["open", "closed", "foreign", "mixed"] = "open"
    timeout_us: int = 0
    bin_us: int = 1_000_000
    verdicts: Verdicts | None = None
    failure: str | None = None
    unknown: dict[str, str] = {}
    """Response variable of which nothing can be said → why."""
    engine: dict[str, Any] = {}
    deployment: dict[str, Any] = {}
    telemetry: dict[str, Any] = {}
    logs: list[dict[str, Any]] = []
    timings_s: dict[str, float] = {}
    versions: dict[str, str] = {}
    environment_digest: str = ""
