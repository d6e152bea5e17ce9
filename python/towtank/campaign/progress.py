"""Showing how a campaign goes: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from towtank.campaign.time_left import Estimate
from towtank.load.events import Progress
from towtank.load.job import Stage
from towtank.store.run_record import RunRecord
from towtank.units import format_duration, format_number

_REFRESH_PER_S = 4
_PLAIN_EVERY_S = 10.0
"""How often plain lines say how the load goes."""


@dataclass(frozen=True)
class RunOutline:
    """What a display needs to know of a run before it starts.

    `chances` has an entry for each planned run that still needs a valid attempt: how many it may still have, this one
    included; the run itself comes first. `given_up` counts those that have had all their attempts, none of them valid.
    """

    run_id: str
    label: str
    block: int
    number: int
    total: int
    chances: Sequence[int]
    duration_s: float
    stages: Sequence[Stage] = ()
    given_up: int = 0


class Display(Protocol):
    """Where a campaign says how it goes; called from several threads, must not block for long."""

    def campaign(self, name: str, total: int, done: int) -> None:
        """The campaign starts or its size changes: `total` runs, `done` of them with a valid attempt already."""

    def run(self, outline: RunOutline) -> None:
        """A run starts."""

    def phase(self, name: str) -> None:
        """A run enters a phase: reset, deploy, settle, load, or keep."""

    def load(self, progress: Progress) -> None:
        """What the last second of load looked like."""

    def finished(self, record: RunRecord) -> None:
        """A run is kept."""

    def note(self, text: str) -> None:
        """Something that the user should read, now and later."""


@dataclass
class Pace:
    """Rates from the engine's running totals."""

    _before: Progress | None = None
    _now: Progress | None = None

    def restart(self) -> None:
        """A new load begins."""
        self._before = self._now = None

    def take(self, progress: Progress) -> None:
        """Another report of totals."""
        self._before, self._now = self._now, progress

    def words(self) -> str:
        """The last second in words; empty before the first report."""
        now = self._now
        if now is None:
            return ""
        start_us, start_done = (self._before.t_us, self._before.done) if self._before else (0, 0)
        seconds = (now.t_us - start_us) / 1e6
        rate = (now.done - start_done) / seconds if seconds > 0 else 0.0
        p95 = "–" if now.p95_us is None else format_duration(now.p95_us / 1e6)
        parts = [
            f"{format_number(rate)}/s",
            f"p95 {p95}",
            f"{now.failed} failed",
            f"{now.in_flight} in flight",
        ]
        if now.queued:
            parts.append(f"{now.queued} queued")
        return ", ".join(parts)


class Quiet:
    """Shows nothing."""

    def campaign(self, name: str, total: int, done: int) -> None:
        """See Display."""

    def run(self, outline: RunOutline) -> None:
        """See Display."""

    def phase(self, name: str) -> None:
        """See Display."""

    def load(self, progress: Progress) -> None:
        """See Display."""

    def finished(self, record: RunRecord) -> None:
        """See Display."""

    def note(self, text: str) -> None:
        """See Display."""


class Plain(Quiet):
    """One line for each thing that happens, with the time: for logs and CI.

    Parameters
    ----------
    stream : text stream
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._estimate = Estimate()
        self._outline: RunOutline | None = None
        self._said = 0.0
        self._pace = Pace()

    def campaign(self, name: str, total: int, done: int) -> None:
        """Say how much there is to do."""
        self._estimate.total, self._estimate.done = total, done
        kept = f", {done} kept from before" if done else ""
        self._line(f"{name}: {total} runs{kept}")

    def run(self, outline: RunOutline) -> None:
        """Say which run starts, and how long all may take."""
        self._outline = outline
        self._estimate.start(outline.chances, outline.given_up)
        self._line(
            f"run {outline.number} of {outline.total}: {outline.run_id} ({outline.label}); "
            + ", ".join((*given_up_words(self._estimate), left_words(self._estimate, outline.duration_s)))
        )
        self._said = time.monotonic()
        self._pace.restart()

    def load(self, progress: Progress) -> None:
        """Say now and then how the load goes."""
        self._pace.take(progress)
        if time.monotonic() - self._said < _PLAIN_EVERY_S:
            return
        self._said = time.monotonic()
        stages = self._outline.stages if self._outline else ()
        self._line(f"  {_stage_name(stages, progress.t_us)}{self._pace.words()}")

    def finished(self, record: RunRecord) -> None:
        """Say what became of it."""
        self._estimate.finish(usable=is_usable(record))
        self._line(f"  {verdict_words(record)}")

    def note(self, text: str) -> None:
        """Say it."""
        self._line(text)

    def _line(self, text: str) -> None:
        self._stream.write(f"{datetime.now(UTC).astimezone():%H:%M:%S} {text}\n")
        self._stream.flush()


class Rich(Quiet):
    """A live display: bar over all runs, the current run with its phase and its last second.

    Use as a context manager.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._estimate = Estimate()
        self._name = ""
        self._outline: RunOutline | None = None
        self._phase = ""
        self._progress: Progress | None = None
        self._pace = Pace()
        self._counts = {"invalid": 0, "suspect": 0, "collapsed": 0}
        self._live = Live(
            console=console, refresh_per_second=_REFRESH_PER_S, get_renderable=self._render, transient=True
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def campaign(self, name: str, total: int, done: int) -> None:
        """Take over how much there is to do."""
        with self._lock:
            self._name, self._estimate.total, self._estimate.done = name, total, done

    def run(self, outline: RunOutline) -> None:
        """Take over which run it is."""
        with self._lock:
            self._outline, self._progress = outline, None
            self._pace.restart()
            self._estimate.start(outline.chances, outline.given_up)

    def phase(self, name: str) -> None:
        """Take over what is being done."""
        with self._lock:
            self._phase = name

    def load(self, progress: Progress) -> None:
        """Take over the last second."""
        with self._lock:
            self._progress = progress
            self._pace.take(progress)

    def finished(self, record: RunRecord) -> None:
        """Print a line that stays when something is to be said about the run."""
        with self._lock:
            self._estimate.finish(usable=is_usable(record))
            if record.verdicts is not None:
                for word in (record.verdicts.instrument, record.verdicts.system):
                    if word in self._counts:
                        self._counts[word] += 1
        verdicts = record.verdicts
        if verdicts is not None and (verdicts.instrument_reasons or verdicts.system != "intact"):
            self._console.print(Text(f"{record.run_id}: {verdict_words(record)}"))

    def note(self, text: str) -> None:
        """Print it above the display."""
        self._console.print(Text(text))

    def _render(self) -> Group:
        with self._lock:
            return Group(self._head(), self._current())

    def _head(self) -> Table:
        estimate = self._estimate
        row = Table.grid(padding=(0, 2))
        counts = ", ".join(f"{count} {word}" for word, count in self._counts.items() if count)
        planned = self._outline.duration_s if self._outline else 0.0
        row.add_row(
            Text(self._name, style="bold"),
            ProgressBar(total=max(1, estimate.total), completed=estimate.done, width=30),
            Text(", ".join((f"{estimate.done} of {estimate.total} runs", *given_up_words(estimate)))),
            Text(left_words(estimate, planned), style="dim"),
            Text(counts, style="yellow"),
        )
        return row

    def _current(self) -> Table:
        row = Table.grid(padding=(0, 2))
        outline, progress = self._outline, self._progress
        if outline is None:
            return row
        phase = self._phase
        if phase == "load" and progress is not None:
            phase = _stage_name(outline.stages, progress.t_us).rstrip(": ") or "load"
        row.add_row(
            Text(f"block {outline.block}", style="dim"),
            Text(outline.label, style="cyan"),
            Text(phase),
            Text(self._pace.words() if self._phase == "load" else ""),
        )
        return row


def choose_display(*, plain: bool, environment: dict[str, str]) -> Plain | Rich:
    """Live on a terminal, plain lines otherwise, in CI, or when asked for; both on stderr."""
    if plain or not sys.stderr.isatty() or environment.get("CI") or environment.get("TERM") == "dumb":
        return Plain(sys.stderr)
    return Rich(Console(stderr=True))


def given_up_words(estimate: Estimate) -> tuple[str, ...]:
    """How many runs have had all their attempts in vain; nothing when none has."""
    return (f"{estimate.given_up} given up",) if estimate.given_up else ()


def left_words(estimate: Estimate, planned_s: float) -> str:
    """Time left in words, with the repeats that it holds."""
    left = f"about {format_duration(estimate.left_s(planned_s), digits=2)} left"
    repeats = round(estimate.repeats)
    return f"{left}, {repeats} repeat{'s' if repeats > 1 else ''} expected" if repeats else left


def is_usable(record: RunRecord) -> bool:
    """Whether the attempt counts, so that its run needs no other."""
    return record.verdicts is not None and record.verdicts.instrument != "invalid"


def verdict_words(record: RunRecord) -> str:
    """Both axes in words, with the reasons."""
    verdicts = record.verdicts
    if verdicts is None:
        return record.failure or "no verdict"
    reasons = [reason.message for reason in (*verdicts.instrument_reasons, *verdicts.system_reasons)]
    said = f"{verdicts.instrument}, {verdicts.system}"
    return f"{said}: {'; '.join(reasons)}" if reasons else said


def _stage_name(stages: Sequence[Stage], t_us: int) -> str:
    for stage in stages:
        if stage.start_us <= t_us < stage.end_us:
            return f"{stage.name}: "
    return ""
