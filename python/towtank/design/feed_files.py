"""Feeds are read before anything is sent: what is wrong in one is said with its line and column.

The rules are the engine's (docs/job.md, *Feeds*): a header row, as many fields in every row, one JSON object a line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from towtank.design.problems import Place, Problems, shown
from towtank.design.workload_parts import Feed

MOST_BYTES = 2**30
"""Of a feed; the engine keeps all of it in memory."""
MOST_FOUND = 20
"""Problems of one file; a file in another format has one in every line."""
_FIELD_BYTES = 1 << 20


def check_feed(path: Path, shown_as: str, feed: Feed, problems: Problems) -> None:
    """Say everything that is wrong in a feed's file.

    Parameters
    ----------
    path : Path
    shown_as : str
        The file as the user knows it.
    feed : Feed
        With a `kind`.
    problems : Problems
    """
    start = Place(shown_as)
    try:
        size = path.stat().st_size
        if size == 0:
            problems.add(start, "", "the feed is empty; a feed needs rows")
            return
        if size > MOST_BYTES:
            problems.add(start, "", f"the feed has {size:,} bytes; at most {MOST_BYTES:,} are read")
            return
        with path.open(encoding="utf-8-sig", newline="") as file:
            found = _csv(file, feed.delimiter) if feed.kind == "csv" else _json_lines(file)
            for _, (line, column, message) in zip(range(MOST_FOUND), found, strict=False):
                problems.add(Place(shown_as, line, column), "", message)
    except UnicodeDecodeError:
        line, column, byte = _undecodable(path)
        problems.add(Place(shown_as, line, column), "", f"byte 0x{byte:02x} is not UTF-8", "save it as UTF-8")
    except OSError as error:
        problems.add(start, "", f"the feed cannot be read: {error.strerror or error}")


Found = Iterator[tuple[int, int, str]]
"""Line, column and what is wrong."""


def _csv(file: TextIO, delimiter: str) -> Found:
    csv.field_size_limit(_FIELD_BYTES)
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    columns: list[str] | None = None
    rows = 0
    line = 1
    try:
        for row in reader:
            begun, line = line, reader.line_num + 1
            if not row:
                continue  # a blank line
            if columns is None:
                columns = row
                yield from _header(row, begun, delimiter)
                continue
            rows += 1
            if len(row) != len(columns):
                yield begun, 1, f"{len(row)} fields, where the header has {len(columns)}"
    except csv.Error as error:
        yield reader.line_num, 1, f"not CSV: {error}"
        return
    if columns is None:
        yield 1, 1, "the feed has no header row"
    elif rows == 0:
        yield 1, 1, "the feed has a header and no rows"


def _header(columns: list[str], line: int, delimiter: str) -> Found:
    column = 1
    seen: dict[str, int] = {}
    for number, name in enumerate(columns):
        if not name.strip():
            yield line, column, f"column {number + 1} has no name"
        elif name in seen:
            yield line, column, f"the column {shown(name)} is there twice, first as column {seen[name]}"
        seen.setdefault(name, number + 1)
        column += len(name) + len(delimiter)


def _json_lines(file: TextIO) -> Found:
    rows = 0
    for number, text in enumerate(file, start=1):
        if not text.strip():
            continue
        rows += 1
        try:
            row = json.loads(text)
        except ValueError as error:
            yield number, getattr(error, "colno", 1), f"not JSON: {getattr(error, 'msg', error)}"
            continue
        if not isinstance(row, dict):
            yield number, 1, f'{shown(row)} is no object; each line is one, such as {{"name": "a"}}'
        elif not row:
            yield number, 1, "the object is empty"
    if rows == 0:
        yield 1, 1, "the feed has no rows"


def _undecodable(path: Path) -> tuple[int, int, int]:
    """Line, column and value of the first byte that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                column = len(line[: error.start].decode("utf-8", "replace")) + 1
                return number, column, line[error.start]
    return 1, 1, 0
