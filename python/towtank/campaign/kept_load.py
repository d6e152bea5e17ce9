"""A load that `towtank load --keep` keeps: a result folder of one run, read by the same commands as an experiment's."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from towtank.campaign import environment, evidence
from towtank.campaign.seen import Seen
from towtank.campaign.validity import Observation, judge
from towtank.design.model import ExperimentSpec, TreatmentSpec
from towtank.design.plan import Plan, PlannedRun, Treatment
from towtank.errors import ResultsError
from towtank.load.adhoc import TARGET, WORKLOAD, AdhocLoad
from towtank.load.adhoc_url import AdhocError
from towtank.load.binary import EngineBuild
from towtank.load.job import stages
from towtank.platforms.external_config import ExternalConfig
from towtank.store import ResultsLayout, RunWriter, create_results
from towtank.store.files import explained
from towtank.store.layout import RunLayout
from towtank.store.run_record import RunRecord, StageWindow

MOST_SEED = 2**63 - 1
"""Tables hold it as a whole number of 64 bits with a sign."""
_RUN = PlannedRun(id=f"b01-{WORKLOAD}", block=1, position=1, treatment_id=WORKLOAD, seed=0)


@dataclass
class KeptLoad:
    """The folder of one load, from before its first request on.

    Whatever ends the load, the folder can be read: a load that was killed is a run that is not complete.

    Parameters
    ----------
    folder : Path
    asked : AdhocLoad
    build : EngineBuild
    """

    folder: Path
    asked: AdhocLoad
    build: EngineBuild
    _writer: RunWriter
    _made: bool

    @classmethod
    def begin(cls, folder: Path, asked: AdhocLoad, build: EngineBuild) -> KeptLoad:
        """Make the folder and write what is known of the load.

        Raises
        ------
        ResultsError
            There is something in the folder already.
        AdhocError
            A number that tables cannot hold.
        MachineError
            No room, no permission.
        """
        if asked.seed > MOST_SEED:
            raise AdhocError(f"--seed {asked.seed}: with --keep allowed are whole numbers up to 2^63 − 1")
        plan = _plan(asked)
        captured = environment.capture(build)
        made = require_empty(folder)
        with explained(folder, still_good="nothing was sent"):
            create_results(folder, plan, captured)
        writer = RunWriter.create(
            folder, plan.runs[0], 1, experiment=plan.experiment.experiment, treatment_label=WORKLOAD, levels={},
            workload=WORKLOAD, load_model=plan.treatments[0].spec.load_model,
            timeout_us=round(asked.longest_s * 1e6), versions=captured["versions"],
            environment_digest=captured["digest"],
        )  # fmt: skip
        return cls(folder, asked, build, writer, made)

    @property
    def layout(self) -> RunLayout:
        """Where the engine's job and records go."""
        return self._writer.layout

    def abandon(self) -> None:
        """Remove what was made: the engine refused the job, so nothing was sent."""
        layout = ResultsLayout(self.folder)
        for path in (layout.runs, layout.intents, layout.files):
            shutil.rmtree(path, ignore_errors=True)
        for path in (layout.plan, layout.environment, layout.experiment):
            path.unlink(missing_ok=True)
        if self._made:
            with contextlib.suppress(OSError):  # somebody else has put something there
                self.folder.rmdir()

    def complete(self, seen: Seen) -> RunRecord:
        """Judge the load and complete its run.

        Parameters
        ----------
        seen : Seen
            With `ready`, `done`, `findings`, `during` and `zero_ns`.

        Raises
        ------
        MachineError
            No room, no permission.
        """
        writer, window = self._writer, seen.window()
        end_us = window.end_us if window is not None else 0
        with writer:
            writer.write_events(seen.all_events())
            record = writer.record.model_copy(
                update={
                    "clock": seen.clock_record(),
                    "window": window,
                    "stages": tuple(
                        StageWindow(
                            workload=WORKLOAD, name=s.name, start_us=s.start_us, end_us=min(s.end_us, end_us)
                        )
                        for s in stages(self.asked.workload().load)
                    ),
                    "verdicts": judge(list(self._observations(seen))),
                    "engine": seen.engine_facts(self.build),
                    "deployment": {"platform": "external", "name": TARGET, "url": self.asked.base},
                }
            )  # fmt: skip
            return writer.close(record)

    def _observations(self, seen: Seen) -> Iterator[Observation]:
        """What the traces of the load say about its validity, on both axes."""
        requests = self.layout.requests
        window = seen.window()
        if seen.done is None or seen.ready is None or seen.during is None or window is None:
            return
        yield from evidence.of_engine(seen.done, seen.findings, seen.ready)
        yield from evidence.of_arrivals(seen.done, [self.asked.workload()], requests)
        yield from evidence.of_stop(seen.done)
        yield from evidence.of_host(seen.during)
        outcomes = evidence.read_outcomes(requests, window)
        yield from evidence.of_window(outcomes)
        yield from evidence.of_system([], {}, outcomes)


def require_empty(folder: Path) -> bool:
    """Refuse a folder in which anything is: a result folder has many names. Gives whether it had to be made.

    Raises
    ------
    ResultsError
    """
    try:
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        held = sorted(one.name for one in folder.iterdir())
    except OSError as error:
        raise ResultsError(
            f"{folder} cannot be used: {error.strerror}", hint="name another folder"
        ) from error
    if held:
        what = (
            "holds results already"
            if (folder / "plan.json").exists()
            else f"is not empty ({held[0]} is in it)"
        )
        raise ResultsError(f"{folder} {what}", hint="name a folder that is new or empty")
    return made


def _plan(asked: AdhocLoad) -> Plan:
    """One treatment, one run; there is nothing that it could be compared with."""
    try:
        deployment = ExternalConfig.model_validate({"platform": "external", "targets": {TARGET: asked.base}})
    except ValidationError as error:  # such as a socket whose path holds a blank
        words = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise AdhocError(f"this load cannot be kept: {words}", hint="leave --keep away") from error
    spec = TreatmentSpec(
        deployment_name=TARGET, workload_name=WORKLOAD, workload=asked.workload(), deploy="once",
        deployment=deployment,
    )  # fmt: skip
    experiment = ExperimentSpec(
        experiment=WORKLOAD, question=f"How does {asked.base[:400]} answer?", repetitions=1, order="listed",
        seed=asked.seed, max_invalid_repeats=0,
    )  # fmt: skip
    told: dict[str, Any] = {"spec": spec.model_dump(mode="json", exclude={"deployment"}), "url": asked.base}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    treatment = Treatment(WORKLOAD, 0, {}, spec)
    return Plan(
        experiment, (treatment,), (replace(_RUN, seed=asked.seed),), digest, {}, ("a load of `towtank load`",)
    )
