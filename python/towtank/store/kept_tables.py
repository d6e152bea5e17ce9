"""Reading the tables of a run from Parquet files and cut-off streams, which may be damaged or lead elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from towtank.errors import ResultsError


def inside(path: Path, folder: Path) -> None:
    """Refuse a link that leads out of the folder: results may come from somebody else.

    Raises
    ------
    ResultsError
    """
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
    inside(path, path.parent)
    try:
        found = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise ResultsError(f"{path} is damaged: {first_line(error)}") from error
    missing = [name for name in schema.names if name not in found.names]
    if missing:
        raise ResultsError(f"{path} is damaged: it has no column {', '.join(missing)}")


def read_table(
    path: Path, schema: pa.Schema, filters: list[tuple[str, str, list[str]]] | None = None
) -> pa.Table:
    """Read a Parquet file of this schema; a table without rows where there is none.

    Raises
    ------
    ResultsError
        It is damaged.
    """
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
        raise ResultsError(f"{path} is damaged: {first_line(error)}") from error


def table_or_stream(path: Path, stream: Path, schema: pa.Schema) -> pa.Table:
    """Read a Parquet file, or the stream that becomes one when the run is complete."""
    if path.exists() or not stream.exists():
        return read_table(path, schema)
    inside(stream, stream.parent)
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


def first_line(error: Exception) -> str:
    """The first line of what an error says: the others repeat it in a library's words, or show the query again."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
