"""Reading a result folder: tolerant of what a crash leaves, plain about what is damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from towtank.errors import NewerVersionError, ResultsError
from towtank.spelling import nearest_name
from towtank.store import engine_log, schemas
from towtank.store.files import read_json
from towtank.store.layout import RUNS, ResultsLayout, RunLayout, split_run_id
from towtank.store.run_record import SCHEMA_VERSION, RunRecord

if TYPE_CHECKING:  # both take long to import, and `towtank sql` needs neither
    import pyarrow.dataset as ds

    from towtank.design.plan import Plan


@dataclass(frozen=True)
class Damage:
    """A file that cannot be used; the rest of the folder can.

    Parameters
    ----------
    path : Path
    message : str
        What is wrong with it.
    """

    path: Path
    message: str

    def __str__(self) -> str:
        return self.message if str(self.path) in self.message else f"{self.path}: {self.message}"


@dataclass(frozen=True)
class RunFolder:
    """One attempt of one planned run.

    Parameters
    ----------
    layout : RunLayout
    record : RunRecord
    """

    layout: RunLayout
    record: RunRecord

    @property
    def run_id(self) -> str:
        """Name of the folder."""
        return self.layout.run_id

    @property
    def path(self) -> Path:
        """The folder."""
        return self.layout.path

    def requests(self) -> ds.Dataset:
        """One row a request: from Parquet, or from the engine's logs if the run was killed.

        Parquet is streamed. Logs are read into memory; `request_batches` streams both.
        """
        import pyarrow.dataset as ds  # noqa: PLC0415

        if self.layout.requests.exists():
            check_parquet(self.layout.requests, schemas.REQUESTS)
            return ds.dataset(self.layout.requests, format="parquet")
        return ds.dataset(pa.Table.from_batches(self.request_batches(), schema=schemas.REQUESTS))

    def request_batches(self) -> Iterator[pa.RecordBatch]:
        """Stream the requests: sorted by `scheduled_us` from Parquet, as written by the threads from logs."""
        path = self.layout.requests
        if not path.exists():
            for log in self.layout.thread_logs():
                _inside(log, self.path)
            yield from engine_log.read_logs(self.layout.thread_logs())
            return
        check_parquet(path, schemas.REQUESTS)
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(columns=schemas.REQUESTS.names):
                    yield from pa.Table.from_batches([batch]).cast(schemas.REQUESTS).to_batches()
        except (pa.ArrowException, OSError) as error:
            raise ResultsError(f"{path} is damaged: {error}") from error

    def samples(self) -> pa.Table:
        """Numbers observed, in the order of their times; empty when nothing was observed."""
        return _table_or_stream(self.layout.samples, self.layout.samples_stream, schemas.SAMPLES)

    def events(self) -> pa.Table:
        """What happened, in the order of its times."""
        return _table_or_stream(self.layout.events, self.layout.events_stream, schemas.EVENTS)

    def spans(self) -> pa.Table:
        """Spans by their start; empty where no source kept any."""
        return _table(self.layout.spans, schemas.SPANS)

    def counts(self, variables: Sequence[str] | None = None) -> pa.Table:
        """Exact count tables; empty when no load was driven.

        Parameters
        ----------
        variables : sequence of str, optional
            Only these of `schemas.VARIABLES`; a long run has millions of rows.

        Returns
        -------
        pyarrow.Table
            Columns of `schemas.COUNTS`; texts are dictionary-encoded, 4 bytes a row.
        """
        self._require(self.layout.counts)
        filters = None if variables is None else [("variable", "in", list(variables))]
        return _table(self.layout.counts, schemas.dictionary_encoded(schemas.COUNTS), filters)

    def fault_counts(self) -> pa.Table:
        """Exact counts of latency in bins of `count_tables.FAULT_BIN_US`; empty where no fault was planned."""
        if self.record.faults:
            self._require(self.layout.fault_counts)
        return _table(self.layout.fault_counts, schemas.dictionary_encoded(schemas.COUNTS))

    def totals(self) -> pa.Table:
        """Exact sums; empty when no load was driven."""
        self._require(self.layout.totals)
        return _table(self.layout.totals, schemas.TOTALS)

    def _require(self, path: Path) -> None:
        """Refuse a complete run whose requests are there and whose sums are not: it would seem to have had no load."""
        if self.record.state == "complete" and self.layout.requests.exists() and not path.exists():
            raise ResultsError(
                f"{path} is missing: it was written when the run was complete",
                hint="restore it, or move the folder of this run away and repeat the run",
            )

    @property
    def logs(self) -> dict[str, Path]:
        """Instance → the file with its output."""
        if not self.layout.logs.is_dir():
            return {}
        return {
            p.stem: p for p in sorted(self.layout.logs.glob("*.log")) if p.is_file() and not p.is_symlink()
        }


@dataclass
class Results:
    """The result folder of one experiment, open for reading.

    Parameters
    ----------
    layout : ResultsLayout
    damage : list of Damage
        What could not be used so far, by name.
    """

    layout: ResultsLayout
    damage: list[Damage] = field(default_factory=list)
    _runs: list[RunFolder] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path | str) -> Results:
        """Open a result folder.

        Parameters
        ----------
        path : Path
            ``results/<experiment>``; `store.locate` finds it from an experiment file.

        Raises
        ------
        NewerVersionError
            Some of it was written by a newer Towtank.
        ResultsError
            The folder is none of ours.
        """
        root = Path(path).resolve()
        layout = ResultsLayout(root)
        if not root.is_dir():
            raise ResultsError(
                f"{path} is not a folder with results", hint="run the experiment first: towtank run FILE"
            )
        if not layout.plan.is_file():
            raise ResultsError(
                f"{path} is not a result folder: it has no {layout.plan.name}",
                hint="give the experiment file, or the folder results/<experiment> beside it",
            )
        for described in (layout.plan, layout.environment):
            if described.is_file():
                _refuse_newer(described, read_json(described))
        results = cls(layout)
        results.reload()
        return results

    def reload(self) -> None:
        """Read the folder's runs again: another process may be adding to them."""
        self.damage.clear()
        self._runs = []
        for layout in self.layout.run_folders():
            try:
                self._runs.append(_read_run(layout, self.layout.root))
            except NewerVersionError:
                raise
            except ResultsError as error:
                self.damage.append(Damage(layout.record, error.message))

    @property
    def path(self) -> Path:
        """The folder."""
        return self.layout.root

    @cached_property
    def plan(self) -> Plan:
        """What was to be done."""
        from towtank.design.plan import Plan  # noqa: PLC0415

        path = self.layout.plan
        try:
            return Plan.from_json(path.read_bytes())
        except OSError as error:
            raise ResultsError(f"{path} cannot be read: {error.strerror}") from error
        except NewerVersionError as error:
            raise NewerVersionError(f"{path}: {error.message}", hint=error.hint) from error
        except ResultsError as error:
            raise ResultsError(f"{path}: {error.message}", hint=error.hint) from error

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Host, versions, engine build."""
        return read_json(self.layout.environment)

    @cached_property
    def files(self) -> dict[str, str]:
        """Texts of the experiment file and of what it included, by name."""
        found = {}
        if self.layout.experiment.is_file():
            found[self.layout.experiment.name] = self.layout.experiment.read_text("utf-8", errors="replace")
        if self.layout.files.is_dir():
            included = self.plan.files  # feeds and bodies are kept there too, and may be large
            for path in sorted(p for p in self.layout.files.rglob("*") if p.is_file() and not p.is_symlink()):
                name = path.relative_to(self.layout.files).as_posix()
                if name in included:
                    found[name] = path.read_text("utf-8", errors="replace")
        return found

    def runs(
        self, state: Literal["complete", "running", "all"] = "complete", *, include_invalid: bool = True
    ) -> list[RunFolder]:
        """Runs in order of block, position and attempt.

        Parameters
        ----------
        state : {"complete", "running", "all"}
            A `running` run is under way, or was killed.
        include_invalid : bool
            With runs that the instrument spoiled.
        """
        chosen = [r for r in self._runs if state in ("all", r.record.state)]
        if not include_invalid:
            chosen = [
                r for r in chosen if r.record.verdicts is None or r.record.verdicts.instrument != "invalid"
            ]
        return sorted(chosen, key=lambda r: (r.record.block, r.record.position, r.record.attempt))

    def attempts(self, planned_id: str) -> list[RunFolder]:
        """All attempts of a planned run, oldest first."""
        return [r for r in self.runs("all") if r.record.planned_id == planned_id]

    def next_attempt(self, planned_id: str) -> int:
        """Number of the next attempt; folders of killed and damaged attempts count."""
        split = (split_run_id(layout.run_id) for layout in self.layout.run_folders())
        return max((attempt for s in split if s and s[0] == planned_id for attempt in (s[1],)), default=0) + 1


def locate(path: Path | str) -> Path:
    """Find the result folder that belongs to an experiment file, a study or a result folder.

    Parameters
    ----------
    path : Path
        ``studies/x/experiment.yaml``, ``studies/x``, or ``studies/x/results/<experiment>``.

    Returns
    -------
    Path
        The result folder.

    Raises
    ------
    ResultsError
        There is none, or several are meant.
    """
    path = Path(path)
    if not path.exists():
        raise ResultsError(f"{path} does not exist", hint="give an experiment file or a result folder")
    if path.is_dir():
        if (path / "plan.json").exists() or not (path / "results").is_dir():
            return path
        return _only_results(path / "results", None)
    if (path.parent / "plan.json").exists():  # the copy of the experiment file within its results
        return path.parent
    return _only_results(path.parent / "results", _experiment_name(path))


def find_run(path: Path) -> RunFolder:
    """Find the run whose folder this is.

    Parameters
    ----------
    path : Path
        ``results/<experiment>/runs/b01-one-a1``.

    Raises
    ------
    ResultsError
        It is something else; the runs that are near are named.
    """
    path = path.absolute()
    inside = path.parent.name == RUNS and (path.parent.parent / "plan.json").is_file()
    results = Results.open(path.parent.parent if inside else locate(path))
    known = {run.run_id: run for run in results.runs("all")}
    if inside and path.name in known:
        return known[path.name]
    for damage in results.damage:
        if inside and damage.path.parent.name == path.name:
            raise ResultsError(str(damage))
    near = nearest_name(path.name, known) if inside else next(iter(known), "")
    raise ResultsError(
        f"{path} is not a run; the runs in {results.path} are {', '.join([*known][:20]) or 'none'}",
        hint=f"such as {results.path / RUNS / near}" if near else None,
    )


def _only_results(folder: Path, name: str | None) -> Path:
    found = sorted(p.parent for p in folder.glob("*/plan.json"))
    for candidate in found:
        if candidate.name == name:
            return candidate
    if name is None and len(found) == 1:
        return found[0]
    names = ", ".join(p.name for p in found) or "none"
    if name is None and found:
        raise ResultsError(
            f"{folder} holds the results of several experiments: {names}", hint="name one of these folders"
        )
    wanted = f" of the experiment {name!r}" if name else ""
    raise ResultsError(
        f"no results{wanted} in {folder}; found: {names}", hint="run it first: towtank run FILE"
    )


def _experiment_name(path: Path) -> str | None:
    """Value of the top-level key `experiment`, found without YAML: results need no valid file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("experiment:"):
                    value = line.partition(":")[2].split(" #")[0].strip().strip("\"'")
                    return value or None
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror}") from error
    return None


def _read_run(layout: RunLayout, root: Path) -> RunFolder:
    _inside(layout.path, root)
    _inside(layout.record, layout.path)
    content = read_json(layout.record)
    _refuse_newer(layout.record, content)
    try:
        record = RunRecord.model_validate(content)
    except ValidationError as error:
        raise ResultsError(f"{layout.record} is damaged: {_first_line(error)}") from error
    if record.run_id != layout.run_id:
        raise ResultsError(
            f"{layout.record} is damaged: it speaks of run {record.run_id!r}, its folder is {layout.run_id!r}"
        )
    return RunFolder(layout, record)


def _refuse_newer(path: Path, content: dict[str, Any]) -> None:
    version = content.get("schema_version", content.get("version", 1))
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NewerVersionError(
            f"{path} was written by a newer Towtank: schema_version {version}, this one reads up to {SCHEMA_VERSION}",
            hint="use the Towtank that wrote it, or a newer one",
        )


def _inside(path: Path, folder: Path) -> None:
    """Refuse a link that leads out of the folder: results may come from somebody else."""
    target = path.resolve()
    if target != folder and folder not in target.parents:
        raise ResultsError(f"{path} leads out of the result folder, to {target}")


def check_parquet(path: Path, schema: pa.Schema) -> None:
    """Refuse a Parquet file without its end or without its columns.

    Raises
    ------
    ResultsError
        Names the file and what is wrong.
    """
    _inside(path, path.parent)
    try:
        found = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise ResultsError(f"{path} is damaged: {_first_line(error)}") from error
    missing = [name for name in schema.names if name not in found.names]
    if missing:
        raise ResultsError(f"{path} is damaged: it has no column {', '.join(missing)}")


def _table(
    path: Path, schema: pa.Schema, filters: list[tuple[str, str, list[str]]] | None = None
) -> pa.Table:
    if not path.exists():
        return schema.empty_table()
    check_parquet(path, schema)
    try:
        encoded = [f.name for f in schema if pa.types.is_dictionary(f.type)]
        found = pq.read_table(
            path, columns=schema.names, filters=filters, read_dictionary=encoded, partitioning=None
        )
        return found.cast(schema)
    except (pa.ArrowException, OSError) as error:
        raise ResultsError(f"{path} is damaged: {_first_line(error)}") from error


def _table_or_stream(path: Path, stream: Path, schema: pa.Schema) -> pa.Table:
    if path.exists() or not stream.exists():
        return _table(path, schema)
    _inside(stream, stream.parent)
    return pa.Table.from_batches(read_stream(stream, schema), schema=schema)


def read_stream(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches of an Arrow stream; one that was cut off ends with its last whole batch."""
    if path.stat().st_size == 0:
        return
    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
            if not reader.schema.equals(schema):
                raise ResultsError(f"{path} is damaged: its columns are {', '.join(reader.schema.names)}")
            yield from reader
    except (pa.ArrowException, OSError, EOFError):
        return


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
