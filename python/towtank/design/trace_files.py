"""Traces are read before anything is sent: what is wrong in one is said with its line and column.

Three formats: one timestamp a line (read here to know what will come, and again by the engine); LIMBO's
``midpoint,rate``; invocations per minute of the Azure Functions trace of 2019, one row a function.
"""

from __future__ import annotations

import codecs
import contextlib
import heapq
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from towtank.design.load_model import Functions, OpenLoad, Recorded, Trace
from towtank.design.load_shape import LONGEST_S
from towtank.design.problems import Place, Problems, shown
from towtank.design.tree import Mapping, Node, Scalar
from towtank.units import format_duration, parse_number

MINUTE_S = 60.0
MOST_LINES = 100_000_000
"""Of timestamps; the engine keeps 8 bytes of each."""
MOST_INTERVALS = 1_000_000
"""Of a LIMBO file: twelve days of seconds."""
MOST_BYTES_A_LINE = 1 << 20
PARTS = 1000
"""Into so many equal parts of time timestamps are counted, for the peak; none is below a second."""
MOST_INVOCATIONS = 10**12 - 1
"""In a minute."""
AZURE_COLUMNS = ("HashOwner", "HashApp", "HashFunction", "Trigger")
_NS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class _WrongError(Exception):
    """Something is wrong at a line and a column."""

    def __init__(self, line: int, column: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.line, self.column, self.message, self.hint = line, column, message, hint


def trace_name(workload: Mapping) -> Scalar | None:
    """Where a workload of the file names its trace."""
    node: Node | None = workload
    for key in ("load", "trace", "file"):
        node = node.get(key) if isinstance(node, Mapping) else None
    return node if isinstance(node, Scalar) else None


def with_trace(load: OpenLoad, path: Path, shown_as: str, problems: Problems) -> OpenLoad | None:
    """Give a load what the file of its trace holds; None when something is wrong in it, which is said.

    Parameters
    ----------
    load : OpenLoad
        With a trace.
    path : Path
    shown_as : str
        The file as the user knows it.
    problems : Problems
    """
    assert load.trace is not None  # noqa: S101 - only then it is called
    try:
        recorded = read_trace(path, load.trace, load.duration)
    except _WrongError as wrong:
        problems.add(Place(shown_as, wrong.line, wrong.column), "", wrong.message, wrong.hint)
        return None
    except OSError as error:
        problems.add(Place(shown_as), "", f"the trace cannot be read: {error.strerror or error}")
        return None
    return load.model_copy(update={"trace": load.trace.with_recorded(recorded)})


def read_trace(path: Path, trace: Trace, duration_s: float | None = None) -> Recorded:
    """Read a whole trace.

    Parameters
    ----------
    path : Path
    trace : Trace
    duration_s : float, optional
        Length of the load, where it is longer than the timestamps.
    """
    with path.open("rb") as file:
        if trace.format == "timestamps":
            return _timestamps(file, _NS[trace.unit or "s"], duration_s or 0.0)
        intervals = _limbo(file) if trace.format == "limbo" else _azure(file, trace)
    return Recorded(tuple(_scaled(_cut(intervals, trace), trace)))


# --- what all formats share ------------------------------------------------------------------------------


def _lines(file: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; blank ones, remarks and a byte order mark are left out."""
    number = 0
    while line := file.readline(MOST_BYTES_A_LINE):
        number += 1
        if len(line) == MOST_BYTES_A_LINE:
            raise _WrongError(number, 1, f"a line of {MOST_BYTES_A_LINE:,} bytes or more")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            text = line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise _WrongError(
                number, error.start + 1, f"byte 0x{line[error.start]:02x} is not UTF-8", "save it as UTF-8"
            ) from None
        if text.strip() and not text.lstrip().startswith("#"):
            yield number, text


def _number(text: str, line: int, column: int, what: str) -> float:
    try:
        value = parse_number(text)
    except ValueError:
        raise _WrongError(line, column, f"{shown(text.strip())} is no number; expected is {what}") from None
    if not math.isfinite(value):
        raise _WrongError(line, column, f"{text.strip()} is not finite; expected is {what}")
    if value < 0:
        raise _WrongError(line, column, f"{text.strip()} is negative; expected is {what}")
    return value


Interval = tuple[float, float]
"""Arrivals per second, and length in seconds."""


def _cut(intervals: list[Interval], trace: Trace) -> Iterator[Interval]:
    """The part of a recording that is taken."""
    total = math.fsum(length for _, length in intervals)
    if trace.start >= total:
        raise _WrongError(1, 1, f"`start` leaves nothing of a recording of {total:g} s")
    begin, end = trace.start, total if trace.length is None else trace.start + trace.length
    if end > total * (1 + 1e-9):
        raise _WrongError(
            1, 1, f"the recording ends after {total:g} s; `start` and `length` ask for {end:g} s"
        )
    at = 0.0
    for rate, length in intervals:
        taken = min(at + length, end) - max(at, begin)
        if taken > 1e-9:
            yield rate, taken
        at += length


def _scaled(intervals: Iterator[Interval], trace: Trace) -> Iterator[Interval]:
    total = 0.0
    peak = 0.0
    for rate, length in intervals:
        scaled = (rate * trace.scale_rate, length * trace.scale_time)
        total, peak = total + scaled[1], max(peak, scaled[0])
        yield scaled
    if total > LONGEST_S:
        raise _WrongError(
            1,
            1,
            f"the trace lasts {format_duration(total)}; at most {LONGEST_S / 86400:g} days are allowed",
            "set `length`",
        )
    if peak <= 0:
        raise _WrongError(1, 1, "no interval has a rate above 0: nothing would be sent")


# --- one timestamp a line --------------------------------------------------------------------------------


def _timestamps(file: IO[bytes], unit_s: float, duration_s: float) -> Recorded:
    times: list[float] = []
    last = 0.0
    last_text = ""
    for line, text in _lines(file):
        column = len(text) - len(text.lstrip()) + 1
        value = _number(text, line, column, "one timestamp a line, from the start of the load")
        if value < last:
            raise _WrongError(
                line, column, f"{text.strip()} comes after {last_text}; timestamps must be in order"
            )
        if value * unit_s >= LONGEST_S:
            raise _WrongError(
                line,
                column,
                f"{text.strip()} is later than a run may last, {LONGEST_S / 86400:g} days",
                "is `unit` right?",
            )
        if len(times) == MOST_LINES:
            raise _WrongError(line, column, f"more than {MOST_LINES:,} timestamps")
        last, last_text = value, text.strip()
        times.append(value * unit_s)
    if not times:
        raise _WrongError(1, 1, "the trace has no timestamps")
    # The engine's rule: the schedule ends a microsecond after the last whole one.
    total = max(duration_s, math.floor(times[-1] * 1e6 + 1e-6) / 1e6 + 1e-6)
    parts = max(1, min(PARTS, math.floor(total)))
    counts = [0] * parts
    for time in times:
        counts[min(int(time / total * parts), parts - 1)] += 1
    length = total / parts
    return Recorded(tuple((count / length, length) for count in counts), len(times))


# --- LIMBO -----------------------------------------------------------------------------------------------


def _limbo(file: IO[bytes]) -> list[Interval]:
    """Intervals reach to half-way between midpoints; before the first one nothing was recorded."""
    middles: list[float] = []
    rates: list[float] = []
    for line, text in _lines(file):
        fields = text.split(",")
        if len(fields) != 2:
            raise _WrongError(line, 1, f"{len(fields)} fields; expected is midpoint,rate")
        middle = _number(fields[0], line, 1, "the midpoint of an interval, in seconds")
        rate = _number(fields[1], line, len(fields[0]) + 2, "a rate, in arrivals per second")
        if middles and middle <= middles[-1]:
            raise _WrongError(
                line, 1, f"midpoint {middle:g} is not above {middles[-1]:g}; they must be in order"
            )
        if len(middles) == MOST_INTERVALS:
            raise _WrongError(line, 1, f"more than {MOST_INTERVALS:,} intervals")
        middles.append(middle)
        rates.append(rate)
    if not middles:
        raise _WrongError(1, 1, "the trace has no intervals")
    if len(middles) == 1:
        if middles[0] == 0:
            raise _WrongError(1, 1, "an interval with its midpoint at 0 has no length")
        return [(rates[0], 2 * middles[0])]
    first = middles[0] - (middles[1] - middles[0]) / 2
    if first < -1e-6:
        raise _WrongError(
            1, 1, f"the first interval would begin at {first:g} s, before the start of the load"
        )
    edges = [max(first, 0.0), *((a + b) / 2 for a, b in itertools.pairwise(middles))]
    edges.append(middles[-1] + (middles[-1] - middles[-2]) / 2)
    lead = [(0.0, edges[0])] if edges[0] > 1e-6 else []
    return lead + [(rate, b - a) for rate, (a, b) in zip(rates, itertools.pairwise(edges), strict=True)]


# --- Azure Functions 2019 --------------------------------------------------------------------------------


def _azure(file: IO[bytes], trace: Trace) -> list[Interval]:
    lines = _lines(file)
    line, header = next(lines, (1, ""))
    minutes = _azure_header(line, header)
    asked = trace.functions
    if isinstance(asked, Functions) and asked.top is not None:
        counts = _sum([row for _, row in _largest(lines, minutes, asked.top)], minutes)
    else:
        counts = _chosen(lines, minutes, asked if isinstance(asked, Functions) else None)
    return [(count / MINUTE_S, MINUTE_S) for count in counts]


def _azure_header(line: int, header: str) -> int:
    """Number of minutes."""
    fields = [field.strip() for field in header.split(",")]
    if tuple(fields[:4]) != AZURE_COLUMNS:
        raise _WrongError(
            line,
            1,
            f"the header begins with {shown(','.join(fields[:4]))}; expected is {','.join(AZURE_COLUMNS)},1,2,…",
        )
    for number, field in enumerate(fields[4:], start=1):
        if field != str(number):
            column = len(",".join(header.split(",")[: number + 3])) + 2
            raise _WrongError(line, column, f"column {shown(field)} where minute {number} is expected")
    if len(fields) == len(AZURE_COLUMNS):
        raise _WrongError(line, 1, "the header has no minutes")
    return len(fields) - len(AZURE_COLUMNS)


def _azure_rows(lines: Iterator[tuple[int, str]], minutes: int) -> Iterator[tuple[int, list[str]]]:
    for line, text in lines:
        fields = text.split(",")
        if len(fields) != minutes + len(AZURE_COLUMNS):
            expected = minutes + len(AZURE_COLUMNS)
            raise _WrongError(line, 1, f"{len(fields)} fields, where the header has {expected}")
        yield line, fields


def _azure_counts(line: int, fields: list[str]) -> list[int]:
    # All at once: a file has some ten million of them. `int` alone would take 1_0, +5 and digits of other scripts.
    written = "".join(fields[4:]).replace(" ", "")
    if written.isascii() and written.isdigit():
        with contextlib.suppress(ValueError):
            counts = [int(field) for field in fields[4:]]
            if max(counts) <= MOST_INVOCATIONS:
                return counts
    column = len(",".join(fields[:4])) + 2
    for field in fields[4:]:
        text = field.strip()
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST_INVOCATIONS))):
            what = "negative" if text.startswith("-") and text[1:].isdigit() else "no whole number"
            raise _WrongError(line, column, f"{shown(text)} is {what}; expected are invocations in a minute")
        column += len(field) + 1
    raise _WrongError(line, 1, "expected are invocations in a minute")


def _sum(rows: list[list[int]], minutes: int) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)] if rows else [0] * minutes


def _largest(
    lines: Iterator[tuple[int, str]], minutes: int, top: int
) -> list[tuple[tuple[int, int], list[int]]]:
    """Keep the rows with the most invocations; of equal ones the first. So many are in memory, and no more."""
    kept: list[tuple[tuple[int, int], list[int]]] = []
    for line, fields in _azure_rows(lines, minutes):
        counts = _azure_counts(line, fields)
        entry = ((sum(counts), -line), counts)
        if len(kept) < top:
            heapq.heappush(kept, entry)
        else:
            heapq.heappushpop(kept, entry)
    if len(kept) < top:
        raise _WrongError(1, 1, f"the trace has {len(kept)} functions; `top` asks for {top}")
    return kept


def _chosen(lines: Iterator[tuple[int, str]], minutes: int, asked: Functions | None) -> list[int]:
    """Add up all rows, or those that are named."""
    total = [0] * minutes
    rows = 0
    places = set(asked.index or ()) if asked else set()
    prefixes = asked.hash or () if asked else ()
    found: set[str] = set()
    for place, (line, fields) in enumerate(_azure_rows(lines, minutes)):
        rows += 1
        matching = [prefix for prefix in prefixes if fields[2].startswith(prefix)]
        found.update(matching)
        if asked is None or place in places or matching:
            total = [a + b for a, b in zip(total, _azure_counts(line, fields), strict=True)]
    if rows == 0:
        raise _WrongError(1, 1, "the trace has a header and no rows")
    beyond = sorted(place for place in places if place >= rows)
    if beyond:
        raise _WrongError(1, 1, f"there is no function {beyond[0]}; the trace has {rows}, the first is 0")
    missing = [prefix for prefix in prefixes if prefix not in found]
    if missing:
        raise _WrongError(1, 1, f"no HashFunction begins with {shown(missing[0])}")
    return total
