"""Results for other tools: CSV, Parquet, SQLite. Streamed, atomic, never over somebody's file unless told so."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from towtank.errors import QueryError, ResultsError
from towtank.store.database import Database, Rows
from towtank.store.files import explained, sync
from towtank.store.rendering import flat, flat_schema, write_csv
from towtank.store.views import VIEWS

_SUFFIX = ".towtank-tmp"
_ROWS_PER_GROUP = 1 << 18


@dataclass(frozen=True)
class Exported:
    """One table that was written."""

    what: str
    path: Path
    rows: int


def check_what(names: Sequence[str]) -> tuple[str, ...]:
    """Views to export, in their documented order.

    Raises
    ------
    QueryError
        A name is no view.
    """
    unknown = [name for name in names if name not in VIEWS]
    if unknown:
        raise QueryError(f"unknown table {unknown[0]!r}; allowed are {', '.join(VIEWS)}")
    return tuple(name for name in VIEWS if not names or name in names)


def export_folder(
    database: Database,
    folder: Path,
    *,
    kind: Literal["csv", "parquet"],
    what: Sequence[str] = (),
    runs: Collection[str] | None = None,
    force: bool = False,
) -> list[Exported]:
    """Write one file per view into a folder; all of them appear, or none.

    Parameters
    ----------
    database : Database
    folder : Path
        Made if missing; other files in it are left alone.
    kind : {"csv", "parquet"}
    what : sequence of str
        Views; all by default.
    runs : collection of str, optional
        Only rows of these runs; all by default.
    force : bool
        Replace files of the same name.

    Raises
    ------
    ResultsError
        A file is there already.
    MachineError
        No room, no permission.
    """
    write = _write_csv if kind == "csv" else _write_parquet
    names = check_what(what)
    targets = {name: file_in(folder, name, kind) for name in names}
    refuse_existing(list(targets.values()), force=force)
    done: list[Exported] = []
    with explained(folder / "export", still_good="nothing was exported; the results are untouched"):
        make_folder(folder)
        with _aside(list(targets.values())) as aside:
            for name, target in targets.items():
                done.append(
                    Exported(name, target, write(database.query(_rows_of(name, runs)), aside[target]))
                )
    return done


def export_sqlite(
    database: Database,
    file: Path,
    *,
    what: Sequence[str] = (),
    runs: Collection[str] | None = None,
    force: bool = False,
) -> list[Exported]:
    """Write the views as tables of one SQLite file, with an index on `run_id`.

    Nested columns become JSON text, booleans 0 or 1, moments ISO 8601 text. Parameters and errors as those of
    `export_folder`.
    """
    names = check_what(what)
    refuse_existing([file], force=force)
    done: list[Exported] = []
    with explained(file, still_good="nothing was exported; the results are untouched"):
        make_folder(file.parent)
        with _aside([file]) as aside, contextlib.closing(_sqlite(aside[file])) as connection:
            try:
                for name in names:
                    rows = _write_table(connection, name, database.query(_rows_of(name, runs)))
                    done.append(Exported(name, file, rows))
            except sqlite3.OperationalError as error:
                if "full" in str(error):
                    raise OSError(errno.ENOSPC, "No space left on device") from error
                raise
    return done


def file_in(folder: Path, name: str, kind: str) -> Path:
    """Where a view is written to."""
    return folder / f"{name}.{kind}"


def _rows_of(view: str, runs: Collection[str] | None) -> str:
    if runs is None:
        return f"FROM {view}"
    names = ", ".join("'" + name.replace("'", "''") + "'" for name in sorted(runs))
    return f"FROM {view} WHERE run_id IN ({names})" if names else f"FROM {view} WHERE false"


def refuse_existing(targets: Sequence[Path], *, force: bool) -> None:
    """Refuse to write over what is there, unless told so; a folder is never replaced.

    Raises
    ------
    ResultsError
    """
    for target in targets:
        if target.is_dir():
            raise ResultsError(f"{target} is a folder; a file is to be written there")
        if target.exists() and not target.is_file():  # --force would replace /dev/stdout by a file
            raise ResultsError(f"{target} is a device or a pipe; a file is to be written there")
        if not force and (target.exists() or target.is_symlink()):
            raise ResultsError(
                f"{target} exists already", hint="choose another place, or replace it with --force"
            )


def make_folder(folder: Path) -> None:
    """Make the folder that an export goes to, where nobody can say more of a fault than the system itself.

    Raises
    ------
    ResultsError
        There cannot be a folder.
    OSError
        No room, no permission: `files.explained` says these.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError, FileNotFoundError) as error:
        raise ResultsError(
            f"{folder} cannot be made a folder: {error.strerror} ({error.filename})",
            hint="choose another place",
        ) from error


@contextlib.contextmanager
def _aside(targets: Sequence[Path]) -> Iterator[dict[Path, Path]]:
    """Temporary paths beside the targets, which replace them all at the end, or vanish."""
    aside = {target: target.with_name(f".{target.name}{_SUFFIX}") for target in targets}
    try:
        for temporary in aside.values():
            temporary.unlink(missing_ok=True)
        yield aside
        for temporary in aside.values():
            sync(temporary)
        for target, temporary in aside.items():
            temporary.replace(target)
        for folder in {target.parent for target in targets}:
            sync(folder)
    finally:
        for temporary in aside.values():
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def _write_csv(rows: Rows, path: Path) -> int:
    with path.open("xb") as file:
        return write_csv(rows.batches(), rows.schema, file)


def _write_parquet(rows: Rows, path: Path) -> int:
    count = 0
    with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
        waiting: list[pa.RecordBatch] = []
        for batch in rows.batches():
            waiting.append(batch)
            count += batch.num_rows
            if sum(b.num_rows for b in waiting) >= _ROWS_PER_GROUP:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    return count


def _sqlite(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = OFF")  # the file replaces its target only when it is whole
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def _write_table(connection: sqlite3.Connection, name: str, rows: Rows) -> int:
    schema = flat_schema(rows.schema)
    columns = ", ".join(f"{_identifier(f.name)} {_sqlite_type(f.type)}" for f in schema)
    connection.execute(f"CREATE TABLE {_identifier(name)} ({columns})")
    marks = ", ".join("?" * len(schema))
    insert = f"INSERT INTO {_identifier(name)} VALUES ({marks})"  # noqa: S608 - quoted identifiers only
    count = 0
    connection.execute("BEGIN")
    for batch in rows.batches():
        columns_of_values = [_sqlite_values(column) for column in flat(batch).columns]
        connection.executemany(insert, zip(*columns_of_values, strict=True))
        count += batch.num_rows
    connection.execute("COMMIT")
    connection.execute(f"CREATE INDEX {_identifier(name + '_run_id')} ON {_identifier(name)} (run_id)")
    return count


def _sqlite_values(column: pa.Array) -> list[object]:
    values: list[object] = column.to_pylist()
    if pa.types.is_temporal(column.type):
        return [v.isoformat(timespec="milliseconds") if isinstance(v, dt.datetime) else v for v in values]
    if pa.types.is_decimal(column.type):
        return [None if v is None else str(v) for v in values]
    return values


def _sqlite_type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "INTEGER"
    return "REAL" if pa.types.is_floating(kind) else "TEXT"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
