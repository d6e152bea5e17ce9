"""Output of instances by the run's time: lines of a log, and how much was logged when.

Beside the log of an instance lies ``<instance>.log.times``, written by the guard: lines of three numbers
(CLOCK_MONOTONIC in ns, bytes of output so far, lines in the log so far); docs/formats.md, section 3. What was beyond
the log's bound is counted there too.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".times"
"""Of the file beside a log."""


class Noted(NamedTuple):
    """Up to this moment, so much output had come, and so many lines of it were kept."""

    t_ns: int
    bytes: int
    lines: int


class LogLine(NamedTuple):
    """One line of output, at its moment of the run clock, ± 50 ms."""

    t_us: int
    instance: str
    text: str


@dataclass(frozen=True)
class TimedLog:
    """The log of one instance with the times of its output.

    Parameters
    ----------
    path : Path
        The log.
    noted : tuple of Noted
        In the order of time.
    """

    path: Path
    noted: tuple[Noted, ...]

    @classmethod
    def read(cls, log: Path) -> TimedLog:
        """Read the times of a log; a line that was torn by a kill is left out."""
        return cls(log, tuple(read_times(times_path(log))))

    @property
    def instance(self) -> str:
        """Who wrote it."""
        return self.path.stem

    def bytes_at(self, t_ns: int) -> int:
        """Output that had come by a moment, bytes; also what was not kept."""
        after = bisect_right(self.noted, t_ns, key=lambda noted: noted.t_ns)
        return self.noted[after - 1].bytes if after else 0

    def lines(self, zero_ns: int, from_us: float, to_us: float) -> Iterator[LogLine]:
        """Lines that came within a time of the run clock, from inclusive, to exclusive.

        Parameters
        ----------
        zero_ns : int
            CLOCK_MONOTONIC at the start of the load.
        from_us, to_us : float
        """
        noted = iter(self.noted)
        now = next(noted, None)
        with self.path.open("rb") as stream:
            for number, line in enumerate(stream):
                while now is not None and now.lines <= number:
                    following = next(noted, None)
                    if following is None:
                        break
                    now = following
                if now is None:
                    return
                t_us = (now.t_ns - zero_ns) // 1000
                if t_us >= to_us:
                    return
                if t_us >= from_us:
                    yield LogLine(t_us, self.instance, line.decode("utf-8", "replace").rstrip("\r\n"))


def times_path(log: Path) -> Path:
    """Where the times of a log are."""
    return log.with_name(log.name + SUFFIX)


def read_times(path: Path) -> Iterator[Noted]:
    """Lines of a file of times; there are none where it does not exist."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        for line in stream:
            words = line.split()
            if line.endswith(b"\n") and len(words) == 3 and all(word.isdigit() for word in words):
                yield Noted(*map(int, words))


def timed_logs(folder: Path) -> list[TimedLog]:
    """Logs of a run whose times are known, by the names of their instances."""
    return [TimedLog.read(log) for log in sorted(folder.glob("*.log")) if times_path(log).is_file()]


def in_order(logs: Iterable[TimedLog], zero_ns: int, from_us: float, to_us: float) -> Iterator[LogLine]:
    """Lines of several logs in the order of their times."""
    return heapq.merge(
        *(log.lines(zero_ns, from_us, to_us) for log in logs), key=lambda line: (line.t_us, line.instance)
    )
