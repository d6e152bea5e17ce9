"""Another load generator at work in a run: started under a guard, bounded, measured, ended; its requests become ours.

The guard (docs/formats.md §3) ends the process and all its descendants on the end of its stdin, so that
nothing of it outlives Towtank, however that ends. Times of day in the tool's records are put on the run clock
with the difference of the two clocks, read before and after the load; how far that may be off is kept with
the run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towtank.campaign.cpu_meter import CpuMeter
from towtank.campaign.importing import events_of, spoiling, unknown_variables
from towtank.campaign.validity import Observation
from towtank.campaign.wall_clock import WallClock
from towtank.design.foreign import ForeignWorkload
from towtank.design.model import Generator
from towtank.drivers import DriveContext, Launch, registry
from towtank.errors import DriverError, ForeignFileError, PlatformError, ResultsError
from towtank.load.importers import Note, open_file
from towtank.platforms.base import Cancelled, Target
from towtank.platforms.guard import Guard
from towtank.platforms.guard_messages import Exited, SpawnRequest
from towtank.platforms.output import tail
from towtank.store.foreign import Kept, write_requests
from towtank.store.run_record import Window
from towtank.telemetry.base import Event

FOLDER = "driver"
"""Of the run, for the driver's own files until they are read."""
SOURCE = "driver"
START_ALLOWANCE_S = 30.0
"""Time that a tool may take to start and to end, besides its load and one timeout."""
STOP_GRACE_S = 5.0
LOG_LIMIT_BYTES = 10 << 20
EARLY_RATIO = 0.9
"""A load that ends before this share of its declared duration is worth a word."""
_POLL_S = 0.05


@dataclass(frozen=True)
class Drove:
    """A load that another tool made.

    Parameters
    ----------
    kept : Kept
    window : Window
    zero_ns : int
        CLOCK_MONOTONIC of the start of the first request: zero of the run clock.
    observations : tuple of Observation
    events : tuple of Event
    unknown : mapping
        Response variables of which nothing can be said.
    facts : mapping
        For run.json.
    """

    kept: Kept
    window: Window
    zero_ns: int
    observations: tuple[Observation, ...]
    events: tuple[Event, ...]
    unknown: Mapping[str, str]
    facts: Mapping[str, Any]


class ForeignDrive:
    """One load of another tool.

    Parameters
    ----------
    workload : ForeignWorkload
    name : str
        Of the workload.
    targets : mapping
    root : Path
        Folder of the experiment file.
    run : Path
        Folder of the run.
    logs : Path
        Folder of its logs; the tool's is ``<driver>.log``.
    generator : Generator
        Its `cpus` and `nice` are the tool's.
    """

    def __init__(
        self,
        workload: ForeignWorkload,
        name: str,
        *,
        targets: Mapping[str, Target],
        root: Path,
        run: Path,
        logs: Path,
        generator: Generator,
    ) -> None:
        self._workload = workload
        self._name = name
        self._driver = registry.create(workload.driver)
        self._folder = run / FOLDER
        self._log = logs / f"{workload.driver}.log"
        self._generator = generator
        self._root = root.absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        context = DriveContext(root=self._root, output=self._folder.absolute(), targets=targets)
        self._launch: Launch = self._driver.launch(workload.config, context)
        self._exit: Exited | None = None
        self._clock = WallClock.read()
        self._wall_s = 0.0
        self._overrun = ""
        self._cpu: CpuMeter | None = None

    def run(self, guard_binary: Path, token: str, *, cancelled: Cancelled) -> None:
        """Carry the load out and wait for its end.

        Raises
        ------
        DriverError
            The tool cannot be started, or its guard is lost. One that has not ended in time is ended, and `collect`
            says so of the run.
        Interrupted
        """
        launch, load = self._launch, self._workload.load
        deadline_s = load.duration + self._workload.timeout + START_ALLOWANCE_S
        guard = Guard(guard_binary, token)
        try:
            guard.start()
            self._clock = WallClock.read()
            begun = time.monotonic()
            spawned = guard.spawn(
                SpawnRequest(
                    id=self._workload.driver, argv=list(launch.argv), env={**os.environ, **launch.env}, cwd=self._root,
                    log=self._log.absolute(), log_limit_bytes=LOG_LIMIT_BYTES, grace_ms=round(STOP_GRACE_S * 1000),
                    cpus=self._generator.cpus, nice=self._generator.nice or None,
                )
            )  # fmt: skip
            with CpuMeter(spawned.pid) as self._cpu:
                while guard.running():
                    cancelled()
                    if time.monotonic() - begun > deadline_s:
                        self._overrun = (
                            f"it did not end within {deadline_s:.0f} s (duration, timeout, and "
                            f"{START_ALLOWANCE_S:.0f} s to start and to end) and was ended"
                        )
                        guard.stop(self._workload.driver, signal="TERM", grace_s=STOP_GRACE_S)
                        guard.wait_ended(2 * STOP_GRACE_S)
                        break
                    if not guard.alive:
                        raise guard.death()
                    time.sleep(_POLL_S)
            self._wall_s = time.monotonic() - begun
            self._exit = next((one for one in guard.exits() if one.id == self._workload.driver), None)
            self._clock = self._clock.with_later(WallClock.read())
        except PlatformError as error:
            raise DriverError(f"{self._workload.driver}: {error.message}", hint=error.hint) from error
        finally:
            guard.close(grace_s=STOP_GRACE_S)

    def collect(self, target: Path) -> Drove:
        """Make the run's `requests.parquet` of what the tool wrote.

        Raises
        ------
        DriverError
            It made no request, or wrote what cannot be read.
        """
        launch, load = self._launch, self._workload.load
        failed = self._failure()
        try:
            reader = open_file(launch.tool, launch.requests)
            kept = write_requests(
                reader.batches(), target, workload=self._name, warmup_us=round(load.warmup * 1e6)
            )
        except (ForeignFileError, ResultsError) as error:
            why = failed or error.message
            raise DriverError(
                f"{self._workload.driver} made no load that could be recorded: {why}{self._said()}",
                hint=f"its own words are in {self._log}",
            ) from error
        notes = [note for note in reader.notes if note.name not in launch.silenced]
        length_us = min(round(load.duration * 1e6), kept.last_us + 1)
        if length_us < EARLY_RATIO * load.duration * 1e6:
            notes.append(
                Note(
                    "load_ended_early",
                    f"the script's load lasted {length_us / 1e6:.3g} s of the {load.duration:g} s that are declared",
                    "let both be the same: throughput is that of the shorter time",
                )
            )
        with contextlib.suppress(OSError):
            shutil.rmtree(self._folder)
        window = Window(
            start_us=min(round(load.warmup * 1e6), length_us),
            end_us=length_us,
            drained_us=max(kept.last_us, length_us),
        )
        return Drove(
            kept=kept,
            window=window,
            zero_ns=kept.zero_us * 1000 - self._clock.offset_ns,
            observations=(*spoiling(notes), *self._observations(failed)),
            events=tuple(events_of(notes, SOURCE)),
            unknown=unknown_variables(kept, notes),
            facts=self._facts(kept, notes),
        )

    def _observations(self, failed: str) -> Sequence[Observation]:
        found = []
        if failed:
            found.append(Observation("driver_failed", 1, failed))
        if self._cpu is not None:
            found.append(Observation("driver_cpu_bound", self._cpu.busiest_cores / self._cores()))
        return found

    def _cores(self) -> int:
        """Most cores that the tool could use."""
        allowed = len(self._generator.cpus or ()) or os.cpu_count() or 1
        return min(allowed, self._launch.cores or allowed)

    def _failure(self) -> str:
        """Why the tool did not carry its load out; empty when it did."""
        if self._overrun:
            return self._overrun
        if self._exit is None:
            return "nobody saw it end"
        if self._exit.signal is not None:
            return f"it was ended by signal {self._exit.signal}"
        if self._exit.code not in self._launch.success:
            return f"it ended with exit code {self._exit.code}"
        return ""

    def _facts(self, kept: Kept, notes: Sequence[Note]) -> dict[str, Any]:
        meter = self._cpu
        return {
            "tool": self._workload.driver,
            "version": self._driver.version(self._workload.config),
            "argv": list(self._launch.argv),
            "exit_code": self._exit.code if self._exit else None,
            "wall_s": round(self._wall_s, 3),
            "requests": kept.rows,
            "cpu_s": round(meter.total_s, 3) if meter else None,
            "cpu_cores_max_1s": round(meter.busiest_cores, 3) if meter else None,
            "cores": self._cores(),
            "clock": {
                "offset_ns": self._clock.offset_ns,
                "uncertainty_us": self._clock.uncertainty_ns / 1000,
            },
            "notes": [note.name for note in notes],
        }

    def _said(self) -> str:
        """The last lines of the tool's output, for a message."""
        lines = [line.strip() for line in tail(self._log) if line.strip()]
        return "; it said last: " + " | ".join(lines[-5:]) if lines else ""
