"""Writing results: one folder a run, which at any moment is either `running` or `complete`.

The order at the end of a run is: samples and events → requests sorted into one Parquet file → count tables and
totals → `run.json` says `complete`. Each file is replaced atomically and synced; a crash before the last step leaves
a readable run that is to be done again, a crash after it leaves a complete one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from towtank.errors import ResultsError
from towtank.sensitive import mask_yaml
from towtank.store import count_tables, engine_log, schemas
from towtank.store.files import explained, replacing, spill_folder, sync, write_bytes, write_json
from towtank.store.kept_tables import read_stream
from towtank.store.layout import ResultsLayout, RunLayout, run_id
from towtank.store.results import Results
from towtank.store.run_record import RunRecord

if TYPE_CHECKING:
    from towtank.design.plan import Plan, PlannedRun
    from towtank.telemetry.base import Event, Sample, Span

Row = TypeVar("Row", bound=tuple[object, ...])
_STILL_GOOD = "complete runs are untouched; this run stays 'running' and is to be done again"


def create_results(
    path: Path, plan: Plan, environment: Mapping[str, Any], experiment_file: str | None = None
) -> Results:
    """Make the result folder of an experiment and write what is known before the first run.

    Parameters
    ----------
    path : Path
        ``results/<experiment>``; may exist, then plan and environment are replaced.
    plan : Plan
    environment : mapping
        Host, versions, engine build: JSON.
    experiment_file : str, optional
        Text of the experiment file; default is the first of `plan.files`.

    Raises
    ------
    MachineError
        The folder cannot be written.
    """
    layout = ResultsLayout(path)
    with explained(path, still_good="nothing was started"):
        for folder in (layout.root, layout.runs, layout.intents, layout.files):
            folder.mkdir(parents=True, exist_ok=True)
        names = list(plan.files)
        first = experiment_file if experiment_file is not None else plan.files[names[0]] if names else ""
        write_bytes(layout.experiment, mask_yaml(first).encode("utf-8"))
        for name in names[1:] if experiment_file is None else names:
            target = _within(layout.files, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(target, mask_yaml(plan.files[name]).encode("utf-8"))
        write_json(layout.environment, dict(environment))
        write_plan(path, plan)
        sync(layout.root)
    return Results.open(path)


def write_plan(path: Path, plan: Plan) -> None:
    """Replace `plan.json`: at the start, and when adaptive repetitions add blocks."""
    layout = ResultsLayout(path)
    with explained(layout.plan, still_good="the plan before it is still there"):
        write_bytes(layout.plan, plan.to_json().encode("utf-8"))


class RunWriter:
    """Keeps one run while it lasts.

    Use as a context manager: leaving it without `close` leaves the run `running`, readable, to be done again.

    Parameters
    ----------
    layout : RunLayout
    record : RunRecord
        With state `running`.
    """

    def __init__(self, layout: RunLayout, record: RunRecord) -> None:
        self.layout = layout
        self.record = record
        self._samples: _Stream[Sample] = _Stream(layout.samples_stream, schemas.SAMPLES)
        self._events: _Stream[Event] = _Stream(layout.events_stream, schemas.EVENTS)

    @classmethod
    def create(
        cls,
        results: Results | Path,
        planned: PlannedRun,
        attempt: int,
        *,
        experiment: str,
        treatment_label: str,
        levels: Mapping[str, Any],
        **known: object,
    ) -> RunWriter:
        """Make the folder of an attempt, with a `run.json` that says `running`.

        Parameters
        ----------
        results : Results or Path
            The result folder.
        planned : PlannedRun
        attempt : int
            From 1; `Results.next_attempt` knows the next.
        experiment, treatment_label, levels
            What the record says of the treatment.
        **known
            Any other field of RunRecord that is known already.

        Raises
        ------
        ResultsError
            This attempt exists.
        MachineError
            The folder cannot be written.
        """
        root = results if isinstance(results, Path) else results.path
        name = run_id(planned.id, attempt)
        layout = ResultsLayout(root).run(name)
        record = RunRecord.model_validate(
            {
                "started_utc": utc_now(), **known, "state": "running", "run_id": name, "planned_id": planned.id,
                "attempt": attempt, "experiment": experiment, "treatment_id": planned.treatment_id,
                "treatment_label": treatment_label, "levels": dict(levels), "block": planned.block,
                "position": planned.position, "seed": planned.seed,
            }
        )  # fmt: skip
        if layout.path.exists():
            raise ResultsError(
                f"run {name} exists already in {layout.path}",
                hint="use the next attempt (Results.next_attempt)",
            )
        with explained(layout.path, still_good="complete runs are untouched; this one was not started"):
            _make_folder(layout, record)
        return cls(layout, record)

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.layout.path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self._samples, self._events):
            with contextlib.suppress(
                OSError
            ):  # a full disk was said by whoever wrote; closing cannot mend it
                stream.close()

    def write_samples(self, samples: Iterable[Sample]) -> None:
        """Append samples; they are readable from here on, even if this process dies."""
        with explained(self.layout.samples_stream, still_good=_STILL_GOOD):
            self._samples.append(samples)

    def write_events(self, events: Iterable[Event]) -> None:
        """Append events; they are readable from here on, even if this process dies."""
        with explained(self.layout.events_stream, still_good=_STILL_GOOD):
            self._events.append(events)

    def write_spans(self, spans: Iterable[Span]) -> None:
        """Write all spans of the run, sorted by their start; they come when the load is over, all at once."""
        rows = [tuple(span) for span in spans]
        columns = zip(*rows, strict=True) if rows else ([] for _ in schemas.SPANS)
        arrays = [pa.array(column, f.type) for column, f in zip(columns, schemas.SPANS, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=schemas.SPANS).sort_by("start_us")
        with explained(self.layout.spans, still_good=_STILL_GOOD), replacing(self.layout.spans) as temporary:
            pq.write_table(table, temporary, compression="zstd")

    def write_job(self, job: Mapping[str, Any]) -> Path:
        """Write what the engine is asked; returns the path to give it."""
        with explained(self.layout.job, still_good=_STILL_GOOD):
            write_json(self.layout.job, dict(job))
        return self.layout.job

    def update(self, record: RunRecord) -> None:
        """Replace `run.json` while the run lasts, so that a killed run tells what was known of it."""
        if record.state != "running":
            raise ValueError("update keeps a run 'running'; close completes it")
        with explained(self.layout.record, still_good=_STILL_GOOD):
            write_json(self.layout.record, record.model_dump(mode="json"))
        self.record = record

    def close(self, record: RunRecord) -> RunRecord:
        """Complete the run.

        Parameters
        ----------
        record : RunRecord
            Everything that is known; `state`, `bin_us` and, where missing, `finished_utc` are filled in here.

        Returns
        -------
        RunRecord
            As written.

        Raises
        ------
        MachineError
            No room or no permission; the run stays `running`.
        ResultsError
            `requests.parquet` is damaged and there are no logs to make it from.
        """
        with explained(self.layout.path, still_good=_STILL_GOOD):
            self._samples.finish(self.layout.samples)
            self._events.finish(self.layout.events)
            collect_requests(self.layout)
            bin_us = record.bin_us
            if self.layout.requests.exists():
                bin_us = _bin_us(self.layout.requests, record)
                count_tables.write_counts(
                    self.layout.requests, self.layout.counts, bin_us=bin_us, window=record.window
                )
                count_tables.write_totals(self.layout.requests, self.layout.totals, window=record.window)
                if record.faults:
                    count_tables.write_counts(
                        self.layout.requests, self.layout.fault_counts, bin_us=count_tables.FAULT_BIN_US,
                        window=record.window, variables=("latency",),
                    )  # fmt: skip
            complete = record.model_copy(
                update={
                    "state": "complete",
                    "bin_us": bin_us,
                    "finished_utc": record.finished_utc or utc_now(),
                }
            )
            write_json(self.layout.record, complete.model_dump(mode="json"))
        self.record = complete
        return complete


def _make_folder(layout: RunLayout, record: RunRecord) -> None:
    """Make the folder with its `run.json` in one step: made aside, then renamed."""
    aside = RunLayout(layout.path.with_name(f".new-{layout.run_id}"))
    shutil.rmtree(aside.path, ignore_errors=True)
    aside.logs.mkdir(parents=True)
    try:
        write_json(aside.record, record.model_dump(mode="json"))
        aside.path.rename(layout.path)
    except BaseException:
        shutil.rmtree(aside.path, ignore_errors=True)
        raise
    sync(layout.path.parent)


def collect_requests(layout: RunLayout) -> list[engine_log.LogEnd]:
    """Make `requests.parquet` from logs that an engine left behind, then delete them; harmless to repeat.

    Returns
    -------
    list of LogEnd
        How each log ended; empty when there was nothing to do.
    """
    logs = layout.thread_logs()
    ends: list[engine_log.LogEnd] = []
    if logs and not _is_parquet(layout.requests):
        with spill_folder(layout.path) as spill:
            ends = engine_log.compact(logs, layout.requests, temporary=spill)
    if logs:
        sync(layout.requests)
        shutil.rmtree(layout.request_logs)
    return ends


def utc_now() -> str:
    """Now, as run.json writes it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Stream(Generic[Row]):
    """Rows appended to an Arrow stream while a run lasts, a Parquet file at its end."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._file: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def append(self, rows: Iterable[Row]) -> None:
        table = list(rows)
        if not table:
            return
        if self._writer is None or self._file is None:
            self._file = self._path.open("wb")
            self._writer = pa.ipc.new_stream(self._file, self._schema)
        columns = [pa.array(c, f.type) for c, f in zip(zip(*table, strict=True), self._schema, strict=True)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._file.flush()

    def close(self) -> None:
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.close()
        self._writer = self._file = None

    def finish(self, target: Path) -> None:
        """Sort by time into a Parquet file, which is there even when nothing was observed; harmless to repeat."""
        self.close()
        if target.exists() and not self._path.exists():
            return
        batches = list(read_stream(self._path, self._schema)) if self._path.exists() else []
        table = pa.Table.from_batches(batches, schema=self._schema)
        with replacing(target) as temporary:
            pq.write_table(table.sort_by("t_us"), temporary, compression="zstd")
        self._path.unlink(missing_ok=True)


def _bin_us(requests: Path, record: RunRecord) -> int:
    if record.window is not None:
        return count_tables.choose_bin_us(record.window.end_us)
    with pq.ParquetFile(requests) as file:
        groups = file.metadata.num_row_groups
        column = file.schema_arrow.names.index("scheduled_us")
        statistics = [file.metadata.row_group(i).column(column).statistics for i in range(groups)]
        return count_tables.choose_bin_us(max((s.max for s in statistics if s and s.has_min_max), default=0))


def _is_parquet(path: Path) -> bool:
    try:
        pq.read_schema(path)
    except (pa.ArrowException, OSError):
        return False
    return True


def _within(folder: Path, name: str) -> Path:
    """A file below `folder`, whatever its name says."""
    target = (folder / name).resolve()
    if folder.resolve() not in target.parents:
        raise ResultsError(f"the name {name!r} of an included file leads out of {folder}")
    return target
