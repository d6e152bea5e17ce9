"""DuckDB connections with bounds: memory, threads, no extension that comes by itself, nothing printed."""

from __future__ import annotations

import contextlib
from pathlib import Path

import duckdb

DEFAULT_THREADS = 2
MAX_SPILL = "20GB"
"""Bound of what one connection puts aside on the disk."""


def connect(
    *, memory_bytes: int, temporary: Path | None = None, threads: int = DEFAULT_THREADS
) -> duckdb.DuckDBPyConnection:
    """Open a database in memory.

    Parameters
    ----------
    memory_bytes : int
        Bound of DuckDB's own memory.
    temporary : Path, optional
        An existing folder for what is larger; without one, it is an error.
    threads : int
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": threads,
        "memory_limit": f"{memory_bytes}B",
        "temp_directory": str(temporary) if temporary else "",
        "max_temp_directory_size": MAX_SPILL if temporary else "0GB",
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
        "enable_external_file_cache": False,
    }
    connection = duckdb.connect(":memory:", config=config)
    # On by default for queries of a few seconds, and printed to stdout, in the midst of what `towtank sql` prints.
    # In a notebook without ipywidgets there is none, and turning it off is refused.
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    return connection
