"""The part of a long-lived deployment's logs that belongs to one run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from towtank.platforms.base import LogFile
from towtank.store.log_lines import read_times, times_path

MOST_BYTES = 10 * 2**20
"""Kept of each instance's output during one run; the beginning, because that is where trouble starts."""


@dataclass(frozen=True)
class Mark:
    """How far a log was when a run began."""

    size: int = 0
    bytes: int = 0
    """Output so far, kept or not."""
    lines: int = 0


@dataclass(frozen=True)
class LogMarks:
    """How far each log was when a run began."""

    marks: dict[str, Mark]
    t_ns: int = 0
    """CLOCK_MONOTONIC."""

    @classmethod
    def take(cls, folder: Path) -> Self:
        """Note how far all logs in a folder are."""
        return cls({path.name: _mark(path) for path in folder.glob("*.log")}, time.monotonic_ns())

    def copy_new(
        self, source: Path, target: Path, known: Sequence[LogFile] = (), mask: Callable[[str], str] = str
    ) -> list[dict[str, Any]]:
        """Copy what was added since, bounded, with its times; facts for run.json.

        Parameters
        ----------
        source, target : Path
        known : sequence of LogFile
            What the deployment says of its logs; where it says anything, others are no facts of the run.
        mask : callable
            Takes secrets out of texts.
        """
        said = {log.path.name: self._of_run(log) for log in known}
        facts = []
        for path in sorted(source.glob("*.log")):
            begun = self.marks.get(path.name, Mark())
            size = path.stat().st_size
            if path.name in said and size == begun.size and self._was_over(said[path.name]):
                continue
            if begun.size > size:  # the file was begun anew
                begun = Mark()
            with path.open("rb") as stream:
                stream.seek(begun.size)
                kept = stream.read(min(size - begun.size, MOST_BYTES))
            (target / path.name).write_bytes(_masked(kept, mask))
            _copy_times(path, target / path.name, begun)
            written = max(_mark(path).bytes - begun.bytes, size - begun.size)
            if said and path.name not in said:  # of a program of ours, such as the proxy on an edge
                continue
            log = said.get(path.name) or LogFile(path.stem, path, 0, 0)
            facts.append(log_facts(replace(log, bytes_written=written, bytes_kept=len(kept))))
        without = (log for log in said.values() if log.incomplete and not log.path.exists())
        return facts + [log_facts(log) for log in without]

    def _was_over(self, log: LogFile) -> bool:
        """Whether nothing could come any more when the run began, and nothing was missed since."""
        return log.ended_ns is not None and log.ended_ns < self.t_ns and not log.incomplete

    def _of_run(self, log: LogFile) -> LogFile:
        """What was missed before the run is no matter of this run."""
        earlier = log.missed_ns is not None and log.missed_ns < self.t_ns
        return replace(log, incomplete="") if earlier else log


def log_facts(log: LogFile) -> dict[str, Any]:
    """What run.json says of a log."""
    facts = {
        "instance": log.instance,
        "file": log.path.name,
        "bytes_written": log.bytes_written,
        "bytes_kept": log.bytes_kept,
        **log.facts,
    }
    return {**facts, "incomplete": log.incomplete} if log.incomplete else facts


def _masked(content: bytes, mask: Callable[[str], str]) -> bytes:
    """Whatever else the output is, it comes out of this as it was."""
    text = content.decode("utf-8", "surrogateescape")
    return mask(text).encode("utf-8", "surrogateescape")


def _mark(log: Path) -> Mark:
    """Lines are counted in the log itself: of the newest the time may not be written yet."""
    content = log.read_bytes()
    last = deque(read_times(times_path(log)), maxlen=1)
    return Mark(len(content), max(last[0].bytes if last else 0, len(content)), content.count(b"\n"))


def _copy_times(log: Path, target: Path, begun: Mark) -> None:
    """Times of what was added, counted from the beginning of the copy."""
    if not times_path(log).is_file():
        return
    added = [noted for noted in read_times(times_path(log)) if noted.bytes > begun.bytes]
    lines = [
        f"{noted.t_ns} {noted.bytes - begun.bytes} {max(0, noted.lines - begun.lines)}\n" for noted in added
    ]
    times_path(target).write_text("".join(lines), encoding="ascii")
