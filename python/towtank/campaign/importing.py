"""Results of other tools as runs: files in, one result folder out, whole or not at all.

What nobody wrote down is not made up: there is no schedule, so no lag; nothing is known of the machine and of
how it was deployed. All that is said in the record of each run, and by the findings of the report.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import glob
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from towtank import __version__
from towtank.campaign import evidence
from towtank.campaign.validity import Observation, judge
from towtank.design.foreign import IMPORTED, ForeignLoad, ForeignWorkload, ImportedDeployment
from towtank.design.model import Answer, ExperimentSpec, TreatmentSpec
from towtank.design.plan import Plan, PlannedRun, Treatment
from towtank.errors import ForeignFileError, ResultsError
from towtank.load.importers import Labelled, Note, Reader, open_file
from towtank.store import Results, ResultsLayout, RunWriter, create_results
from towtank.store.files import explained, sync
from towtank.store.foreign import Kept, write_requests
from towtank.store.run_record import RunRecord, StageWindow, Window
from towtank.telemetry.base import Event

NOT_SAID = "the tool that made the load does not record it"
ANSWERS_ONLY = "the imported format holds answered requests only: what failed is not known"
SOURCE = "import"
"""Source of the events that say what must be known of an import."""


@dataclass(frozen=True)
class ImportRequest:
    """What is to be imported.

    Parameters
    ----------
    tool : str
        Key of `load.importers.FORMATS`.
    files : sequence of Labelled
    experiment : str
        Name of the experiment.
    question : str
    warmup_s : float
        Beginning of each run that is kept and flagged.
    duration_s : float, optional
        Length of the load; by default until the last answer.
    timeout_s : float, optional
        Above which nothing is known of a latency; by default the tool's own.
    paired : bool
        The n-th runs of all treatments belong together, as a block.
    answer : Answer, optional
        What is claimed.
    slo : mapping
        Response variable → bound in its base unit.
    """

    tool: str
    files: Sequence[Labelled]
    experiment: str
    question: str
    warmup_s: float = 0.0
    duration_s: float | None = None
    timeout_s: float | None = None
    paired: bool = False
    answer: Answer | None = None
    slo: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ImportedRun:
    """One file that became a run."""

    run_id: str
    treatment: str
    path: Path
    requests: int
    notes: tuple[Note, ...]


@dataclass
class _Known:
    """What is found out about treatments while their files are read."""

    longest_s: dict[str, float] = field(default_factory=dict)
    timeout_s: dict[str, float] = field(default_factory=dict)

    def take(self, treatment: str, length_s: float, timeout_s: float) -> None:
        self.longest_s[treatment] = max(self.longest_s.get(treatment, 0.0), length_s)
        self.timeout_s[treatment] = max(self.timeout_s.get(treatment, 0.0), timeout_s)


def import_files(request: ImportRequest, target: Path) -> list[ImportedRun]:
    """Make a result folder of files.

    Parameters
    ----------
    request : ImportRequest
    target : Path
        The result folder; must not exist.

    Returns
    -------
    list of ImportedRun
        In the order of treatments and repetitions.

    Raises
    ------
    ForeignFileError
        A file is cut off, damaged, or something else: nothing is kept.
    ResultsError
        `target` exists.
    MachineError
        No room, no permission.
    """
    if target.exists() or target.is_symlink():
        raise ResultsError(f"{target} exists already", hint="choose another --name or --output")
    aside = target.with_name(f".importing-{os.getpid()}-{target.name}")
    with explained(target, still_good="nothing was imported"):
        made = not aside.parent.exists()
        aside.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        try:
            imported = _Import(request, aside).carry_out()
            aside.rename(target)
            sync(target.parent)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            if made:
                with contextlib.suppress(OSError):  # somebody else has put something there
                    aside.parent.rmdir()
            raise
    return imported


def _remove_leftovers(target: Path) -> None:
    """Remove what an import of this name left that was killed."""
    for left in target.parent.glob(f".importing-*-{glob.escape(target.name)}"):
        pid = left.name.split("-")[1]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)


class _Import:
    """The steps of one import."""

    def __init__(self, request: ImportRequest, folder: Path) -> None:
        self._request = request
        self._folder = folder
        self._ids = _slugs([one.treatment for one in request.files])
        self._known = _Known()
        self._sums: dict[str, str] = {}

    def carry_out(self) -> list[ImportedRun]:
        """Read every file, then write the plan that they amount to."""
        ResultsLayout(self._folder).runs.mkdir(parents=True)
        planned = self._planned()
        done = [self._run(file, run) for file, run in zip(self._request.files, planned, strict=True)]
        create_results(self._folder, self._plan(planned), self._environment())
        broken = Results.open(self._folder).damage
        if broken:
            raise ResultsError(f"what was imported cannot be read back: {broken[0]}")
        return done

    def _planned(self) -> list[PlannedRun]:
        order = list(self._ids)
        return [
            PlannedRun(
                f"b{file.repetition:02d}-{self._ids[file.treatment]}", file.repetition,
                order.index(file.treatment) + 1, self._ids[file.treatment], 0,
            )
            for file in self._request.files
        ]  # fmt: skip

    def _run(self, file: Labelled, planned: PlannedRun) -> ImportedRun:
        request = self._request
        reader = open_file(request.tool, file.path)
        digest = _sha256(file.path)
        same = next((path for path, known in self._sums.items() if known == digest), None)
        if same is not None:
            raise ForeignFileError(
                f"{file.path} has the same content as {same}, to the last byte: two runs never have",
                hint="one file is one run: give it once; nothing was imported",
            )
        self._sums[str(file.path)] = digest
        writer = RunWriter.create(
            self._folder, planned, 1, experiment=request.experiment, treatment_label=file.treatment,
            levels={"deployment": file.treatment}, workload=request.tool, load_model="foreign",
        )  # fmt: skip
        with writer:
            try:
                kept = write_requests(
                    reader.batches(),
                    writer.layout.requests,
                    workload=request.tool,
                    warmup_us=_us(request.warmup_s),
                )
            except ResultsError as error:
                raise ForeignFileError(
                    f"{file.path}: {error.message}", hint="nothing was imported"
                ) from error
            notes = tuple(reader.notes)
            writer.write_events(events_of(notes, SOURCE))
            writer.close(self._record(writer, file, reader, kept=kept, notes=notes, digest=digest))
        return ImportedRun(writer.record.run_id, file.treatment, file.path, kept.rows, notes)

    def _record(
        self,
        writer: RunWriter,
        file: Labelled,
        reader: Reader,
        *,
        kept: Kept,
        notes: Sequence[Note],
        digest: str,
    ) -> RunRecord:
        request = self._request
        # just after the last answer: a request that failed at once in the very end belongs to the load
        length_us = _us(request.duration_s) if request.duration_s is not None else kept.last_us + 1
        start_us = _us(request.warmup_s)
        if start_us >= length_us:
            raise ForeignFileError(
                f"{file.path}: a warm-up of {request.warmup_s:g} s leaves nothing of a load of {length_us / 1e6:.3g} s",
                hint="shorten --warmup; nothing was imported",
            )
        timeout_s = request.timeout_s or reader.timeout_s or 0.0
        timeout_us = max(_us(timeout_s), kept.longest_us)
        self._known.take(file.treatment, length_us / 1e6, timeout_us / 1e6)
        window = Window(start_us=start_us, end_us=length_us, drained_us=max(kept.last_us, length_us))
        began = _began(reader, kept, file.path)
        return writer.record.model_copy(
            update={
                "started_utc": _utc(began),
                "finished_utc": _utc(began + dt.timedelta(microseconds=window.drained_us)),
                "window": window,
                "stages": (
                    StageWindow(workload=request.tool, name=request.tool, start_us=0, end_us=length_us),
                ),
                "timeout_us": timeout_us,
                "verdicts": judge(
                    [
                        *spoiling(notes),
                        *evidence.of_system([], {}, evidence.read_outcomes(writer.layout.requests, window)),
                    ]
                ),
                "unknown": unknown_variables(kept, notes),
                "engine": {"tool": request.tool, "imported": {
                    "file": file.path.name, "bytes": file.path.stat().st_size, "sha256": digest, "rows": kept.rows,
                    "notes": [note.name for note in notes],
                }},
                "versions": {"towtank": __version__},
            }
        )  # fmt: skip

    def _plan(self, planned: Sequence[PlannedRun]) -> Plan:
        request = self._request
        treatments = tuple(
            Treatment(slug, index, {"deployment": name}, self._spec(name))
            for index, (name, slug) in enumerate(self._ids.items())
        )
        spec = ExperimentSpec(
            experiment=request.experiment, question=request.question, answer=request.answer,
            repetitions=max(run.block for run in planned),
            order="randomized-blocks" if request.paired else "listed",
            factors={"deployment": tuple(self._ids)}, max_invalid_repeats=0,
        )  # fmt: skip
        told = {"sums": self._sums, "ids": self._ids, "spec": spec.model_dump(mode="json")}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
        ordered = tuple(sorted(planned, key=lambda run: (run.block, run.position)))
        return Plan(spec, treatments, ordered, digest, {}, (f"imported from {request.tool}",))

    def _spec(self, name: str) -> TreatmentSpec:
        request = self._request
        return TreatmentSpec(
            deployment_name=name, workload_name=request.tool, deployment=ImportedDeployment(platform="imported"),
            workload=ForeignWorkload(
                driver=IMPORTED,
                load=ForeignLoad(
                    tool=request.tool, duration=f"{self._known.longest_s[name]!r}s", warmup=f"{request.warmup_s!r}s"
                ),
                timeout=f"{self._known.timeout_s[name]!r}s",
            ),
            slo=dict(request.slo),
        )  # fmt: skip

    def _environment(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "versions": {"towtank": __version__},
            "imported": {
                "tool": self._request.tool,
                "utc": _utc(dt.datetime.now(dt.UTC)),
                "sha256": self._sums,
            },
        }


def spoiling(notes: Sequence[Note]) -> list[Observation]:
    """What makes a run of another tool suspect."""
    return [Observation("tool_left_out", 1, note.message) for note in notes if note.spoils]


def events_of(notes: Sequence[Note], source: str) -> list[Event]:
    """Events that carry what must be known of another tool's run; what spoils it is a reason already."""
    return [
        Event(0, source, note.name, "", note.message, json.dumps({"advice": note.advice}))
        for note in notes
        if not note.spoils
    ]


def unknown_variables(kept: Kept, notes: Sequence[Note]) -> dict[str, str]:
    """Response variables of which nothing can be said, each with why."""
    found = {}
    if not kept.has_bytes_in:
        found["bytes_in_per_s"] = NOT_SAID
    if not kept.has_bytes_out:
        found["bytes_out_per_s"] = NOT_SAID
    if any(note.name == "answers_only" for note in notes):
        found |= {"goodput": ANSWERS_ONLY, "error_ratio": ANSWERS_ONLY}
    return found


def _slugs(names: Sequence[str]) -> dict[str, str]:
    """Ids of treatments, unique, that may stand in a folder's name."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        slug = base = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-._")[:40] or "run"
        number = 2
        while slug in found.values():
            slug, number = f"{base}-{number}", number + 1
        found[name] = slug
    return found


def _began(reader: Reader, kept: Kept, path: Path) -> dt.datetime:
    """When a run began: as the file says, or else so that it ended when the file was last written."""
    if reader.is_wall_clock:
        return dt.datetime.fromtimestamp(kept.zero_us / 1e6, dt.UTC)
    written = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC)
    return written - dt.timedelta(microseconds=kept.last_us)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _utc(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _us(seconds: float) -> int:
    return round(seconds * 1e6)
