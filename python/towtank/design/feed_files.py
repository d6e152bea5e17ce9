"""Feeds are read before anything is sent: what is wrong in one is said with its line and column.

The rules are the engine's (docs/job.md, *Feeds*): a header row, as many fields in every row, one JSON object a line,
all with the same keys.
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
MOST_COLUMNS = 1024
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
        is_csv = feed.kind == "csv"
        # CSV needs to see its line ends; those of JSON Lines are line feeds alone.
        with path.open(encoding="utf-8-sig", newline="" if is_csv else "\n") as file:
            found = _csv(file, feed.delimiter) if is_csv else _json_lines(file)
            for _, (line, column, message) in zip(range(MOST_FOUND), found, strict=False):
                problems.add(Place(shown_as, line, column), "", message)
    except UnicodeDecodeError:
        line, column, byte = _undecodable(path)
        problems.add(Place(shown_as, line, column), "", f"byte 0x{byte:02x} is not UTF-8", "save it as UTF-8")
    except OSError as error:
        problems.add(start, "", f"the feed cannot be read: {error.strerror or error}")


Found = Iterator[tuple[int, int, str]]
"""Line, column and what is wrong."""


class _Lines:
    """The lines of a file, and the one that was given last: where a row ends, it tells how."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.last = ""

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self.last = line
            yield line


def _csv(file: TextIO, delimiter: str) -> Found:
    csv.field_size_limit(_FIELD_BYTES)
    lines = _Lines(file)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    columns: list[str] | None = None
    rows = 0
    line = 1
    try:
        for row in reader:
            begun, line = line, reader.line_num + 1
            if lines.last.endswith("\r"):
                yield (
                    reader.line_num,
                    1,
                    "a carriage return without a line feed; lines end with LF or with CR LF",
                )
                return
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
        yield _misquoted(error, line, reader.line_num, delimiter)
        return
    if columns is None:
        yield 1, 1, "the feed has no header row"
    elif rows == 0:
        yield 1, 1, "the feed has a header and no rows"


def _misquoted(error: csv.Error, begun: int, reached: int, delimiter: str) -> tuple[int, int, str]:
    """What the reader complains of, in our words; it has no codes, only texts."""
    text = str(error)
    if text == "unexpected end of data":
        return begun, 1, "a quotation mark in the row that begins here is never closed"
    if text == f"'{delimiter}' expected after '\"'":
        return (
            reached,
            1,
            "text behind the quotation mark that ends a field; one inside of it is written twice",
        )
    return reached, 1, f"not CSV: {text}"


def _header(columns: list[str], line: int, delimiter: str) -> Found:
    if len(columns) > MOST_COLUMNS:
        yield line, 1, f"{len(columns)} columns; at most {MOST_COLUMNS} are read"
    column = 1
    seen: dict[str, int] = {}
    for number, written in enumerate(columns):
        name = written.strip()
        if not name:
            yield line, column, f"column {number + 1} has no name"
        elif name in seen:
            yield line, column, f"the column {shown(name)} is there twice, first as column {seen[name]}"
        seen.setdefault(name, number + 1)
        column += len(written) + len(delimiter)


def _json_lines(file: TextIO) -> Found:
    rows = 0
    keys: dict[str, object] | None = None
    for number, text in enumerate(file, start=1):
        if not text.strip():
            continue
        rows += 1
        try:
            row = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)
        except ValueError as error:
            yield number, getattr(error, "colno", 1), f"not JSON: {getattr(error, 'msg', error)}"
            continue
        except RecursionError:
            yield number, 1, "not JSON: lists and objects are nested too deep"
            continue
        if not isinstance(row, dict):
            yield number, 1, f'{shown(row)} is no object; each line is one, such as {{"name": "a"}}'
            continue
        if not row:
            yield number, 1, "the object is empty"
            continue
        if keys is None:
            keys = row
            if "" in keys:
                yield number, 1, "a key without a name"
        yield from (
            (number, 1, f"the key {shown(key)}, which the first row does not have")
            for key in row
            if key not in keys
        )
        yield from (
            (number, 1, f"the key {shown(key)} is missing, which the first row has")
            for key in keys
            if key not in row
        )
    if rows == 0:
        yield 1, 1, "the feed has no rows"


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made: dict[str, object] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"the key {shown(key)} is there twice; a key is written once")
        made[key] = value
    return made


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")


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
