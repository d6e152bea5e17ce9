"""Names and paths of everything in a result folder: the one place that knows them (docs/formats.md, 4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RESULTS = "results"
"""Folder beside an experiment file that holds one result folder per experiment."""
PLAN = "plan.json"
ENVIRONMENT = "environment.json"
EXPERIMENT = "experiment.yaml"
FILES = "files"
INTENTS = "intents"
RUNS = "runs"
REPORT = "report"
DERIVED = ".derived"

RUN = "run.json"
JOB = "job.json"
REQUESTS = "requests.parquet"
REQUEST_LOGS = "requests"
SAMPLES = "samples.parquet"
SAMPLES_STREAM = "samples.arrows"
EVENTS = "events.parquet"
EVENTS_STREAM = "events.arrows"
SPANS = "spans.parquet"
COUNTS = "counts.parquet"
FAULT_COUNTS = "fault_counts.parquet"
TOTALS = "totals.parquet"
LOGS = "logs"

_THREAD_LOG = re.compile(r"^thread-(\d+)\.log$")
_RUN_ID = re.compile(r"^(?P<planned>.+)-a(?P<attempt>[1-9]\d*)$")


def run_id(planned_id: str, attempt: int) -> str:
    """Name of an attempt's folder: ``b01-one-process-a1`` for the first attempt of ``b01-one-process``."""
    return f"{planned_id}-a{attempt}"


def split_run_id(name: str) -> tuple[str, int] | None:
    """Planned run and attempt of a run folder's name; None when it is not one."""
    match = _RUN_ID.match(name)
    return (match["planned"], int(match["attempt"])) if match else None


@dataclass(frozen=True)
class ResultsLayout:
    """Paths in the result folder of one experiment.

    Parameters
    ----------
    root : Path
        ``results/<experiment>``.
    """

    root: Path

    @property
    def plan(self) -> Path:
        """Treatments, runs in order, digest."""
        return self.root / PLAN

    @property
    def environment(self) -> Path:
        """Host, versions, engine build."""
        return self.root / ENVIRONMENT

    @property
    def experiment(self) -> Path:
        """The experiment file as it was given."""
        return self.root / EXPERIMENT

    @property
    def files(self) -> Path:
        """What the experiment file included."""
        return self.root / FILES

    @property
    def intents(self) -> Path:
        """What is about to exist, written before it does."""
        return self.root / INTENTS

    @property
    def runs(self) -> Path:
        """One folder a run."""
        return self.root / RUNS

    @property
    def report(self) -> Path:
        """Where reports go."""
        return self.root / REPORT

    @property
    def derived(self) -> Path:
        """What analyses keep of runs, so that they need not read them again; may be removed at any time."""
        return self.report / DERIVED

    def run(self, name: str) -> RunLayout:
        """Paths of the run with this id."""
        return RunLayout(self.runs / name)

    def run_folders(self) -> Iterator[RunLayout]:
        """All folders below `runs`, by name; whether they are whole is the reader's question."""
        if self.runs.is_dir():
            for path in sorted(self.runs.iterdir()):
                if path.is_dir() and not path.name.startswith("."):
                    yield RunLayout(path)


@dataclass(frozen=True)
class RunLayout:
    """Paths in the folder of one run.

    Parameters
    ----------
    path : Path
        ``results/<experiment>/runs/<run_id>``.
    """

    path: Path

    @property
    def run_id(self) -> str:
        """Name of the folder."""
        return self.path.name

    @property
    def record(self) -> Path:
        """Treatment, clock, window, verdicts."""
        return self.path / RUN

    @property
    def job(self) -> Path:
        """What the engine was asked."""
        return self.path / JOB

    @property
    def requests(self) -> Path:
        """One row a request."""
        return self.path / REQUESTS

    @property
    def request_logs(self) -> Path:
        """Folder of the engine's logs while it runs, or after it was killed; also the job's `output`."""
        return self.path / REQUEST_LOGS

    @property
    def samples(self) -> Path:
        """Telemetry samples of a closed run."""
        return self.path / SAMPLES

    @property
    def samples_stream(self) -> Path:
        """Telemetry samples while the run lasts."""
        return self.path / SAMPLES_STREAM

    @property
    def events(self) -> Path:
        """Events of a closed run."""
        return self.path / EVENTS

    @property
    def events_stream(self) -> Path:
        """Events while the run lasts."""
        return self.path / EVENTS_STREAM

    @property
    def spans(self) -> Path:
        """Spans of a closed run, where a source kept some."""
        return self.path / SPANS

    @property
    def counts(self) -> Path:
        """Exact count tables."""
        return self.path / COUNTS

    @property
    def fault_counts(self) -> Path:
        """Exact counts of latency in narrow bins, of a run with faults."""
        return self.path / FAULT_COUNTS

    @property
    def totals(self) -> Path:
        """Exact sums."""
        return self.path / TOTALS

    @property
    def logs(self) -> Path:
        """Output of the instances, a file each."""
        return self.path / LOGS

    def thread_logs(self) -> list[Path]:
        """The engine's logs in the order of their threads."""
        if not self.request_logs.is_dir():
            return []
        found = [(int(m[1]), p) for p in self.request_logs.iterdir() if (m := _THREAD_LOG.match(p.name))]
        return [path for _, path in sorted(found)]
