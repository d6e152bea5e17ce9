"""Reading other tools' text files: plain or gzip, in bounded memory, each fault with its line and column."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast

import pyarrow as pa
import pyarrow.csv as pcsv

from towtank.load.importers.base import refuse
from towtank.units import parse_number, parse_whole

_BLOCK_BYTES = 4 << 20
"""Arrow reads this much at a time; a longer line is no line of these formats."""
MOST_LINE_BYTES = 4 << 20
_GZIP = b"\x1f\x8b"
_LENIENT = tuple(before + sign for before in (b",", b"\n") for sign in (b"+", b"0x", b"0X"))
"""How a cell begins that Arrow reads as a number and no tool writes: then each line is looked at."""
CUT_OFF = "the file is cut off: its last line has no end"

MOST_STATUS = 999
"""HTTP writes a status with three digits."""
Kind = Literal["time", "number", "whole", "text"]
"""A time is a number from 0 to `MOST`, in whatever unit; a whole number is never negative either."""
MOST = 1e12
MOST_WHOLE = 2.0**63 - 1024
"""The largest float that a whole number of 64 bits can be."""


@dataclass(frozen=True)
class Column:
    """A column that is read.

    Parameters
    ----------
    kind : {"time", "number", "whole", "text"}
    optional : bool
        May be empty.
    most : float
        Of a whole number.
    """

    kind: Kind
    optional: bool = False
    most: float = math.inf

    def problem(self, value: str) -> str | None:
        """Say what is wrong with a value; None when it can be read."""
        if self.kind == "text":
            return None
        if not value:
            return None if self.optional else "is empty"
        try:
            number = parse_whole(value) if self.kind == "whole" else parse_number(value)
        except ValueError:
            return f"is {value[:40]!r}, which is no {'whole ' if self.kind == 'whole' else ''}number"
        if self.accepts(number, number):
            return None
        return f"is {value[:40]!r}; allowed are numbers from 0" + (
            f" to {self._most:g}" if self._most < math.inf else ""
        )

    def accepts(self, low: float, high: float) -> bool:
        """Whether numbers between these two can be; nan is none."""
        if not (math.isfinite(low) and math.isfinite(high)):
            return False
        return self.kind == "number" or (low >= 0 and high <= self._most)

    @property
    def _most(self) -> float:
        return MOST if self.kind == "time" else min(self.most, MOST_WHOLE)


class Bytes(io.RawIOBase):
    """Bytes of a file, unpacked if it is gzip; knows how the file ended.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.lines = 0
        """Line ends so far."""
        self.is_odd = False
        """Whether some cell so far begins in a way of `_LENIENT`."""
        self._last = b"\n"
        self._tail = b"\n"
        self._begun = False
        try:
            if path.exists() and not path.is_file() and not path.is_dir():
                raise refuse(
                    path,
                    "is no file but a pipe or a device; it is read more than once, so write a file first",
                )
            raw = path.open("rb")
        except OSError as error:
            raise refuse(path, f"cannot be read: {error.strerror}") from error
        self._inner: IO[bytes] = raw
        try:
            if raw.read(2) == _GZIP:
                raw.seek(0)
                self._inner = cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
                self._raw: IO[bytes] | None = raw
            else:
                raw.seek(0)
                self._raw = None
        except OSError as error:
            raw.close()
            raise refuse(path, f"cannot be read: {error.strerror}") from error

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read on; a gzip file that ends early or is damaged is refused."""
        try:
            content = self._inner.read(len(buffer)) if self._begun else self._first(len(buffer))
        except EOFError as error:
            raise refuse(self.path, "the gzip file is cut off", line=self.lines + 1) from error
        except (OSError, zlib.error) as error:
            raise refuse(self.path, f"cannot be read: {error}", line=self.lines + 1) from error
        if content:
            self.lines += content.count(b"\n")
            self._last = content[-1:]
            seen = self._tail + content
            self._tail = content[-2:]
            self.is_odd = self.is_odd or any(mark in seen for mark in _LENIENT)
        buffer[: len(content)] = content
        return len(content)

    def _first(self, size: int) -> bytes:
        """Read the first bytes, without a byte order mark such as spreadsheets write."""
        self._begun = True
        content = self._inner.read(size)
        while 0 < len(content) < len(codecs.BOM_UTF8) and (more := self._inner.read(1)):
            content += more
        return content.removeprefix(codecs.BOM_UTF8) or self._inner.read(size)

    def check_end(self) -> None:
        """Refuse a file whose last line has no end: every one of these tools writes one."""
        if self._last != b"\n":
            raise refuse(self.path, CUT_OFF, line=self.lines + 1)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._inner.close()
            if self._raw is not None:
                self._raw.close()
        super().close()


def first_line(path: Path) -> str:
    """First line of a file, without its end; an empty file is refused."""
    with Bytes(path) as content, io.BufferedReader(content) as reader:
        line = reader.readline(MOST_LINE_BYTES)
    if not line:
        raise refuse(path, "the file is empty")
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise refuse(path, "is no text in UTF-8", line=1) from error


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, from 1; what has no end is refused."""
    with Bytes(path) as content, io.BufferedReader(content, _BLOCK_BYTES) as reader:
        number = 0
        while line := reader.readline(MOST_LINE_BYTES):
            number += 1
            if not line.endswith(b"\n"):
                what = CUT_OFF if len(line) < MOST_LINE_BYTES else "a line of over 4 MiB"
                raise refuse(path, what, line=number)
            yield number, line


def blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Whole lines of a file, some megabytes at a time, with the number of the first; what has no end is refused."""
    with Bytes(path) as content, io.BufferedReader(content, _BLOCK_BYTES) as reader:
        number = 1
        while block := reader.read(_BLOCK_BYTES):
            block += reader.readline(MOST_LINE_BYTES)
            if not block.endswith(b"\n"):
                what = CUT_OFF if len(block) < _BLOCK_BYTES + MOST_LINE_BYTES else "a line of over 4 MiB"
                raise refuse(path, what, line=number + block.count(b"\n"))
            yield number, block
            number += block.count(b"\n")


def csv_batches(
    path: Path, columns: Mapping[str, Column], *, names: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Columns of a CSV file, streamed.

    Parameters
    ----------
    path : Path
    columns : mapping
        What is read, by the name of the column; the others are passed over.
    names : sequence of str, optional
        Names of all columns, where the file has no header.

    Raises
    ------
    ForeignFileError
        With line and column of the first value that cannot be read.
    """
    types = {name: pa.string() if c.kind == "text" else _TYPES[c.kind] for name, c in columns.items()}
    with Bytes(path) as content:
        try:
            with pcsv.open_csv(
                content,
                read_options=pcsv.ReadOptions(
                    use_threads=False, block_size=_BLOCK_BYTES, column_names=list(names) if names else None
                ),
                parse_options=pcsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                convert_options=pcsv.ConvertOptions(
                    column_types=types,
                    include_columns=list(columns),
                    null_values=[""],
                    strings_can_be_null=False,
                ),
            ) as reader:
                for batch in reader:
                    _check(path, batch, columns, names)
                    yield batch
        except (pa.ArrowException, UnicodeDecodeError) as error:
            explain(path, columns, names)
            raise refuse(path, _first_words(error)) from error
        content.check_end()
        if content.is_odd:
            explain(path, columns, names)


_TYPES = {"time": pa.float64(), "number": pa.float64(), "whole": pa.int64()}


def _check(
    path: Path, batch: pa.RecordBatch, columns: Mapping[str, Column], names: Sequence[str] | None
) -> None:
    """Refuse what has the right type and still cannot be."""
    for name, column in columns.items():
        values = batch.column(name)
        if column.kind == "text":
            continue
        if values.null_count and not column.optional:
            explain(path, columns, names)
        numbers = values.drop_null().to_numpy(zero_copy_only=False)
        if numbers.size == 0:
            continue
        if not column.accepts(numbers.min(), numbers.max()):  # nan if any is
            explain(path, columns, names)


def explain(path: Path, columns: Mapping[str, Column], names: Sequence[str] | None) -> None:
    """Find the first line of a CSV file that cannot be read, and refuse the file because of it."""
    with Bytes(path) as content, io.TextIOWrapper(io.BufferedReader(content), "utf-8", newline="") as text:
        reader = csv.reader(text)
        try:
            header = list(names) if names else next(reader, [])
            places = {name: header.index(name) for name in columns}
            for row in reader:
                problem = _problem_of(row, header, places, columns)
                if problem is not None:
                    line = reader.line_num
                    if next(reader, None) is None:  # the last line: was it cut off?
                        content.check_end()
                    raise refuse(path, problem, line=line)
        except csv.Error as error:
            raise refuse(path, f"is no CSV: {error}", line=reader.line_num) from error
        except UnicodeDecodeError:
            _refuse_undecodable(path)
            raise
        content.check_end()


def line_of_row(path: Path, row: int) -> int:
    """Line on which a row of a CSV file without a header begins, from 1; quoted cells may hold line breaks."""
    with Bytes(path) as content, io.TextIOWrapper(io.BufferedReader(content), "utf-8", newline="") as text:
        reader = csv.reader(text)
        for _ in zip(range(row), reader, strict=False):
            pass
        return reader.line_num + 1


def _refuse_undecodable(path: Path) -> None:
    """Find the first line that is no UTF-8: the decoder above reads ahead, and cannot tell."""
    for number, line in lines(path):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise refuse(path, "is no text in UTF-8", line=number) from error


def _problem_of(
    row: Sequence[str], header: Sequence[str], places: Mapping[str, int], columns: Mapping[str, Column]
) -> str | None:
    if len(row) != len(header):
        return f"{len(row)} columns where {len(header)} are expected"
    for name, place in places.items():
        problem = columns[name].problem(row[place])
        if problem is not None:
            return f"column {place + 1} ({name}) {problem}"
    return None


def _first_words(error: Exception) -> str:
    return f"cannot be read: {str(error).splitlines()[0][:200]}"
