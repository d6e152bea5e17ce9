"""SQL over all runs of an experiment with DuckDB, locked down.

The locks, in the order in which they close: no extension is installed or loaded on its own; no Python variable is a
table; only the results folder can be opened, links out of it cannot; memory, threads and spilled data are bounded; the
configuration is locked; and `store.guard` lets nothing but one reading statement through.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from towtank.errors import QueryError, ResultsError
from towtank.store import engine_log, schemas, trace_ids
from towtank.store.duck import DEFAULT_THREADS, connect
from towtank.store.files import explained, pattern_free
from towtank.store.guard import check_reads_only
from towtank.store.kept_tables import check_parquet, read_stream
from towtank.store.results import Damage, Results
from towtank.store.run_folder import RunFolder
from towtank.store.runs_table import runs_table
from towtank.store.views import VIEWS

DEFAULT_MEMORY_BYTES = 1 << 30
"""Bound of what DuckDB keeps in memory; larger work spills to a private temporary folder."""

_SCHEMAS = {
    "requests": schemas.REQUESTS,
    "samples": schemas.SAMPLES,
    "events": schemas.EVENTS,
    "spans": schemas.SPANS,
    "counts": schemas.COUNTS,
    "totals": schemas.TOTALS,
}
_NEED_REQUESTS = ("requests", "iterations")
_BATCH_ROWS = 1 << 16


class Rows:
    """The answer to a query, streamed.

    Parameters
    ----------
    schema : pyarrow.Schema
        Columns and types.
    """

    def __init__(
        self,
        reader: pa.RecordBatchReader,
        cursor: duckdb.DuckDBPyConnection,
        explain: Callable[[Exception], QueryError | ResultsError],
    ) -> None:
        self.schema: pa.Schema = reader.schema
        self._reader = reader
        self._explain = explain
        self._cursor = cursor  # lives as long as its answer

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Batches of rows; can be gone through once."""
        while True:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                return
            except (duckdb.Error, pa.ArrowException, OSError, RuntimeError, MemoryError) as error:
                raise self._explain(error) from error
            yield batch

    def table(self) -> pa.Table:
        """All rows in memory."""
        return pa.Table.from_batches(self.batches(), schema=self.schema)


class Database:
    """All runs of one result folder as views; a context manager.

    Parameters
    ----------
    results : Results
    memory_bytes : int
        Bound of DuckDB's memory.
    threads : int

    Attributes
    ----------
    damage : list of Damage
        Files that the views leave out, by name.
    """

    def __init__(
        self, results: Results, *, memory_bytes: int = DEFAULT_MEMORY_BYTES, threads: int = DEFAULT_THREADS
    ) -> None:
        self.results = results
        self.damage: list[Damage] = list(results.damage)
        self._scratch = Path(tempfile.mkdtemp(prefix="towtank-sql-")).resolve()
        self._killed: dict[Path, RunFolder] = {}
        self._cursors: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        try:
            self._connection = connect(memory_bytes=memory_bytes, temporary=self._scratch, threads=threads)
            self._build()
            self._lock()
        except BaseException:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of memory and temporary files; can be repeated."""
        trace_ids.unregister(self._connection)
        self._connection.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def interrupt(self) -> None:
        """End the query that is running; may be called by another thread."""
        for cursor in (self._connection, *self._cursors):
            cursor.interrupt()

    def query(self, sql: str) -> Rows:
        """Run one reading statement.

        Raises
        ------
        QueryError
            The SQL is wrong, or more than reading was asked for.
        ResultsError
            A file turned out to be damaged while it was read.
        """
        check_reads_only(self._connection, sql)
        if self._killed and self._mentions_requests(sql):
            self._read_logs()
        try:
            cursor = self._connection.cursor()  # of its own: several answers can be read side by side
            self._cursors.add(cursor)
            reader = cursor.sql(sql).to_arrow_reader(_BATCH_ROWS)
        except (duckdb.Error, pa.ArrowException, RuntimeError, MemoryError) as error:
            raise self._explain(error) from error
        return Rows(reader, cursor, self._explain)

    def describe(self, sql: str) -> list[tuple[str, str]]:
        """Columns of the answer to a reading statement, as (name, SQL type); it is bound and not run.

        Raises
        ------
        QueryError
            As `query` has it.
        """
        check_reads_only(self._connection, sql)
        try:
            relation = self._connection.cursor().sql(sql)
            return [(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]
        except (duckdb.Error, RuntimeError) as error:
            raise self._explain(error) from error

    def columns(self, view: str) -> dict[str, str]:
        """Column → SQL type of a view."""
        return {
            str(row[0]): str(row[1]) for row in self._connection.execute(f"DESCRIBE main.{view}").fetchall()
        }

    def _build(self) -> None:
        runs = self.results.runs("all")
        trace_ids.register(self._connection)
        self._connection.execute("CREATE SCHEMA store")
        self._connection.register("runs_arrow", runs_table([run.record for run in runs]))
        self._connection.execute(
            "CREATE TABLE store.runs AS SELECT * REPLACE (engine_detail::JSON AS engine_detail, "
            "deployment_detail::JSON AS deployment_detail, telemetry_detail::JSON AS telemetry_detail) FROM runs_arrow"
        )
        self._connection.unregister("runs_arrow")
        self._connection.execute(
            "CREATE VIEW runs AS SELECT * FROM store.runs ORDER BY block, position, attempt"
        )
        files = {
            table: [(path, run) for run in runs for path in self._files(table, run)] for table in _SCHEMAS
        }
        self._connection.execute("CREATE TABLE store.paths (path VARCHAR, run_id VARCHAR)")
        self._stored = [path for found in files.values() for path, _ in found]
        pairs = [(str(path), run.run_id) for found in files.values() for path, run in found]
        if pairs:
            self._connection.executemany("INSERT INTO store.paths VALUES (?, ?)", pairs)
        self._connection.execute(
            "CREATE TABLE store.files AS SELECT path, runs.* FROM store.paths JOIN store.runs AS runs USING (run_id)"
        )
        for name, view in VIEWS.items():
            if view.sql:
                scan = _scan([path for path, _ in files[name]], _SCHEMAS[name]) if name in _SCHEMAS else ""
                self._connection.execute(f"CREATE VIEW {name} AS {view.sql.replace('{files}', scan)}")

    def _lock(self) -> None:
        """Close the doors; the order matters, as the last one locks the others."""
        root = str(self.results.path)
        allowed = ", ".join(_quoted(path) for path in dict.fromkeys((root, pattern_free(Path(root)))))
        self._connection.execute(f"SET allowed_directories = [{allowed}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def _files(self, table: str, run: RunFolder) -> list[Path]:
        """Parquet files of one table of one run that can be read; the damaged ones are named."""
        layout = run.layout
        stored: Path = getattr(layout, table)
        try:
            if stored.exists():
                check_parquet(stored, _SCHEMAS[table])
                return [stored]
            if table == "requests" and layout.thread_logs():
                return [self._placeholder(run)]
            stream = {"samples": layout.samples_stream, "events": layout.events_stream}.get(table)
            if stream is not None and stream.exists():
                return [self._from_stream(table, stream, run)]
        except ResultsError as error:
            self.damage.append(Damage(stored, error.message))
        return []

    def _placeholder(self, run: RunFolder) -> Path:
        """Stand for the requests of a killed run; its logs are read when a query asks for them."""
        path = self._scratch / f"{run.run_id}.requests.parquet"
        pq.write_table(schemas.REQUESTS.empty_table(), path)
        self._killed[path] = run
        return path

    def _from_stream(self, table: str, stream: Path, run: RunFolder) -> Path:
        path = self._scratch / f"{run.run_id}.{table}.parquet"
        pq.write_table(
            pa.Table.from_batches(read_stream(stream, _SCHEMAS[table]), schema=_SCHEMAS[table]), path
        )
        return path

    def _mentions_requests(self, sql: str) -> bool:
        try:
            names = self._connection.get_table_names(sql)
        except duckdb.Error:
            return True
        return any(name in _NEED_REQUESTS for name in names)

    def _read_logs(self) -> None:
        for path, run in self._killed.items():
            with explained(path, still_good="nothing was changed in the results"):
                engine_log.compact(run.layout.thread_logs(), path, temporary=self._scratch)
        self._killed.clear()

    def _explain(self, error: Exception) -> QueryError | ResultsError:
        """Say in our words what DuckDB refused or could not do; a damaged file is looked for and named."""
        if not isinstance(error, _MISTAKES):
            for path in self._stored:
                damage = unreadable(path)
                if damage:
                    return ResultsError(
                        f"{path} is damaged: {damage}", hint="leave its run out: WHERE run_id <> …"
                    )
        return _explain(error, self.results.path)


_MISTAKES = (
    duckdb.ParserException,
    duckdb.CatalogException,
    duckdb.BinderException,
    duckdb.ConversionException,
    duckdb.OutOfRangeException,
    duckdb.OutOfMemoryException,
    duckdb.PermissionException,
    duckdb.InterruptException,
    MemoryError,
)
"""What a query does wrong, or cannot have: no reason to suspect the files."""


def unreadable(path: Path) -> str:
    """Why a Parquet file cannot be read to its end; empty when it can."""
    try:
        with pq.ParquetFile(path) as file:
            for _ in file.iter_batches():
                pass
    except (pa.ArrowException, OSError) as error:
        return str(error).strip().splitlines()[0]
    return ""


def _explain(error: Exception, path: Path) -> QueryError:
    text = str(error).strip()
    if "file system operations are disabled" in text or "external extensions is disabled" in text:
        return QueryError(
            f"refused: {_first_line(text)}", hint=f"SQL can read what is in {path}, and nothing else"
        )
    if isinstance(error, duckdb.CatalogException | duckdb.BinderException):
        return QueryError(text, hint=_known_names(text))
    if isinstance(error, duckdb.OutOfMemoryException | MemoryError):
        return out_of_memory(error)
    return QueryError(text)


def out_of_memory(error: Exception) -> QueryError:
    """Say that a query may not have the memory that it needs."""
    return QueryError(
        f"the query needs more memory than it may have: {_first_line(str(error).strip())}",
        hint="narrow it (run_id, in_window), use `counts` instead of `requests`, or raise --memory",
    )


def _known_names(text: str) -> str:
    """The views, or the columns of the views that an unknown column may have been meant for."""
    wanted = re.search(r'column "?([^"\s]+)"? not found', text)
    if wanted:
        having = [v.name for v in VIEWS.values() if wanted[1].lower() in v.columns]
        if having:
            return f"{wanted[1]} is a column of {', '.join(having)}"
        return "columns of a view: DESCRIBE requests; all of them: docs/results.md"
    return "views: " + ", ".join(VIEWS)


def _scan(paths: Sequence[Path], schema: pa.Schema) -> str:
    """SQL of a table over these Parquet files, with their path in `filename`; typed even when there is none."""
    if not paths:
        columns = ", ".join(f'NULL::{_SQL_TYPES[str(f.type)]} AS "{f.name}"' for f in schema)
        return f"(SELECT {columns}, NULL::VARCHAR AS filename WHERE false)"
    files = ", ".join(_quoted(pattern_free(path)) for path in paths)
    return f"read_parquet([{files}], filename = true, hive_partitioning = false)"


_SQL_TYPES: Mapping[str, str] = {
    "int64": "BIGINT", "int32": "INTEGER", "string": "VARCHAR", "bool": "BOOLEAN", "double": "DOUBLE",
}  # fmt: skip


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else "it gave no reason"
