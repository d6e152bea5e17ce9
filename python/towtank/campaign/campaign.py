"""The campaign: a whole plan carried out, block by block, resumable at any moment.

Rules, stated once:

- A planned run is done when it has a complete attempt that the instrument did not spoil. An invalid attempt is kept and
  repeated at the end of its block, at most `max_invalid_repeats` times; then the campaign goes on without it. The same
  command asks again, with as many attempts, once the cause is gone.
- What happens to a deployment *under load* is its result, and the campaign goes on.
- A deployment that cannot be deployed or never becomes ready ends the campaign (exit code 4), also when it happens
  again after resuming: blocks are only comparable when every treatment is in them, so none is skipped silently.
- An attempt that was interrupted stays as it is and is not counted; the next attempt has the next number.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from towtank.campaign import application, environment
from towtank.campaign.frame import Frame
from towtank.campaign.images import KnownImages
from towtank.campaign.intents import Intents, Swept
from towtank.campaign.kept_files import keep_files
from towtank.campaign.lifetimes import Lifetimes
from towtank.campaign.lock import locked
from towtank.campaign.observing import look_ahead, unseen_deployments
from towtank.campaign.progress import Display, RunOutline, is_usable
from towtank.campaign.resume import Opened, open_or_create, usable
from towtank.campaign.runner import STILL_GOOD, carry_out
from towtank.campaign.stopping import StopRequest
from towtank.campaign.workers import outlooks
from towtank.design.foreign import ForeignWorkload
from towtank.design.load_shape import duration_s, expected_arrivals
from towtank.design.model import Adaptive, Observe
from towtank.design.plan import Plan, PlannedRun
from towtank.drivers import registry as drivers
from towtank.errors import DriverError, MachineError, PlatformError, TelemetryError
from towtank.faults.checks import problems_here
from towtank.faults.edges import edges_of
from towtank.faults.model import Fault
from towtank.load.binary import engine_build, find_engine, require_release
from towtank.load.job import stages
from towtank.platforms import registry
from towtank.platforms.base import Edge, HasPlace, Platform, sweep
from towtank.store import Results
from towtank.store.files import explained
from towtank.store.layout import ResultsLayout
from towtank.units import format_bytes

Extension = Callable[[Results, Plan], Plan | None]
"""Looks at what is stored once no run is open, and adds runs to the plan, which it has stored; None when it is over."""
LEAST_ROOM_BYTES = 64 * 2**20
"""Free room that a run must find; a run's own records are estimated on top."""
BYTES_PER_ROW = 96
"""A row in the log (64) and in Parquet (about 16) while both exist, rounded up."""


@dataclass(frozen=True)
class Outcome:
    """How a campaign ended.

    Parameters
    ----------
    results : Results
    plan : Plan
    done : int
        Runs carried out by this command.
    kept : int
        Runs that were there already.
    spoiled : tuple of str
        Planned runs that have no valid attempt after their repetitions.
    swept : tuple of Swept
        What an earlier Towtank had left behind.
    """

    results: Results
    plan: Plan
    done: int
    kept: int
    spoiled: tuple[str, ...]
    swept: tuple[Swept, ...]


def run_campaign(
    plan: Plan,
    *,
    root: Path,
    folder: Path,
    display: Display,
    stop: StopRequest,
    force_new: bool = False,
    create_platform: Callable[[str], Platform] = registry.create,
    extension: Extension | None = None,
) -> Outcome:
    """Carry a plan out, or what is left of it.

    Parameters
    ----------
    plan : Plan
    root, folder : Path
        Folder of the experiment file; result folder.
    display : Display
    stop : StopRequest
    force_new : bool
        Move older results aside and start afresh.
    create_platform : callable
        Platform name → platform.
    extension : callable, optional
        What adds runs to the plan, instead of adaptive repetitions.

    Raises
    ------
    TowtankError
        See `campaign.runner.carry_out`; also when the results are of another experiment or environment.
    """
    engine = engine_build(find_engine())
    require_release(engine)
    captured = environment.capture(
        engine,
        application.fingerprints(plan, root, folder),
        environment.tool_versions(plan),
        places=_places(plan, root, create_platform),
    )
    with locked(folder):
        swept = Intents(folder).sweep(lambda name, *what: sweep(create_platform(name), *what))
        for left in swept:
            display.note(f"left by an earlier towtank: {left.intent.kind} {left.intent.name}: {left.message}")
        opened = open_or_create(folder, plan, captured, force_new=force_new)
        if opened.moved_aside is not None:
            display.note(f"older results are in {opened.moved_aside}")
        keep_files(opened.plan, root, ResultsLayout(folder).files)
        intents = Intents(folder)
        lifetimes = Lifetimes(
            folder, root, intents, stop, create_platform, experiment=plan.experiment.experiment,
            edges=_edges(plan),
        )  # fmt: skip
        with explained(folder, still_good=STILL_GOOD), lifetimes:
            frame = Frame(
                experiment=plan.experiment.experiment, results=folder, root=root, engine=engine,
                environment_digest=captured["digest"], versions=captured["versions"], intents=intents,
                lifetimes=lifetimes, stop=stop, display=display, images=KnownImages.of(opened.results),
            )  # fmt: skip
            outcome = _Campaign(frame, opened, create_platform, extension).carry_out(tuple(swept))
        if not intents.pending():  # what could not be swept is found by its notes, which lie there
            shutil.rmtree(folder / "scratch", ignore_errors=True)
        return outcome


def _places(plan: Plan, root: Path, create_platform: Callable[[str], Platform]) -> dict[str, str]:
    """Where deployments go to, by the names of the experiment file: a context that was bent elsewhere is noticed."""
    found: dict[str, str] = {}
    asked: set[str] = set()
    for treatment in plan.treatments:
        configs = [treatment.spec.deployment, *(f.deployment for f in treatment.spec.fixtures.values())]
        for config in configs:
            if config is None or config.model_dump_json() in asked:
                continue
            asked.add(config.model_dump_json())
            platform = create_platform(config.platform)
            if isinstance(platform, HasPlace):
                name, which = platform.place(config, root)
                found[f"{config.platform} {name}"] = which
    return found


def _edges(plan: Plan) -> dict[str, tuple[Edge, ...]]:
    """Deployment → edges that faults of any treatment are about: all of its runs get the same proxies."""
    faults: dict[str, list[Fault]] = {}
    only: dict[str, str] = {}
    for treatment in plan.treatments:
        spec = treatment.spec
        faults.setdefault(spec.deployment_name, []).extend(spec.faults)
        only[spec.deployment_name] = next(iter(spec.deployment.target_names()), "")
    return {name: edges_of(of, only[name]) for name, of in faults.items()}


class _Campaign:
    """The loop over a plan."""

    def __init__(
        self,
        frame: Frame,
        opened: Opened,
        create_platform: Callable[[str], Platform],
        extension: Extension | None = None,
    ) -> None:
        self._frame = frame
        self._extension = extension
        self._results = opened.results
        self._plan = opened.plan
        self._create_platform = create_platform
        self._most_attempts = 1 + opened.plan.experiment.max_invalid_repeats
        self._attempts: dict[str, int] = {}
        self._usable: set[str] = set()
        self._done = 0
        self._usable.update(run.record.planned_id for run in self._results.runs("complete") if usable(run))

    def carry_out(self, swept: tuple[Swept, ...]) -> Outcome:
        """Everything that is left to do."""
        kept = sum(1 for planned in self._plan.runs if not self._is_open(planned))
        self._announce()
        self._check_platforms()
        self._check_generators()
        self._check_sources()
        self._blocks(self._plan.runs)
        while self._extend():
            self._announce()
            self._blocks(self._plan.runs)
        self._results.reload()
        spoiled = tuple(planned.id for planned in self._plan.runs if planned.id not in self._usable)
        return Outcome(self._results, self._plan, self._done, kept, spoiled, swept)

    def _blocks(self, runs: Sequence[PlannedRun]) -> None:
        """Runs in order; what turned out invalid is repeated at the end of its block."""
        for group in _by_block(runs):
            pending = [planned for planned in group if self._is_open(planned)]
            if not pending:
                continue
            while pending:
                for planned in pending:
                    self._run(planned)
                pending = [planned for planned in group if self._is_open(planned)]
            self._frame.lifetimes.end_block()

    def _run(self, planned: PlannedRun) -> None:
        """One attempt of one planned run."""
        self._frame.stop()
        treatment = self._plan.treatment(planned.treatment_id)
        loads = [workload.load for workload in treatment.spec.workloads.values()]
        self._check_room(sum(expected_arrivals(load) or 0.0 for load in loads))
        self._results.reload()
        attempt = self._results.next_attempt(planned.id)
        total = len(self._plan.runs)
        number = self._plan.runs.index(planned) + 1
        self._frame.display.run(
            RunOutline(
                f"{planned.id}-a{attempt}", treatment.label, planned.block, number, total, self._chances(planned),
                max(map(duration_s, loads)), stages(loads[0]), len(self._given_up()),
            )
        )  # fmt: skip
        record = carry_out(self._frame, planned, treatment, attempt)
        self._done += 1
        self._count(planned.id, is_usable=is_usable(record))
        if is_usable(record):
            self._frame.images.keep(record.deployment)
        if planned.id in self._given_up():
            self._frame.display.note(
                f"{planned.id} is given up: all {self._most_attempts} attempts were invalid; once the cause is gone, "
                "the same command asks again"
            )

    def _count(self, planned_id: str, *, is_usable: bool) -> None:
        self._attempts[planned_id] = self._attempts.get(planned_id, 0) + 1
        if is_usable:
            self._usable.add(planned_id)

    def _is_open(self, planned: PlannedRun) -> bool:
        """Whether a planned run still needs an attempt, and may have one by this command."""
        return planned.id not in self._usable and self._attempts.get(planned.id, 0) < self._most_attempts

    def _chances(self, first: PlannedRun) -> list[int]:
        """How many attempts each open run may still have, beginning with one of them."""
        others = [planned for planned in self._plan.runs if self._is_open(planned) and planned is not first]
        return [self._most_attempts - self._attempts.get(planned.id, 0) for planned in (first, *others)]

    def _given_up(self) -> set[str]:
        """Runs that have had all their attempts by this command, none of them usable."""
        spent = (name for name, attempts in self._attempts.items() if attempts >= self._most_attempts)
        return set(spent) - self._usable

    def _extend(self) -> bool:
        """Add what follows from the runs so far: what a search asks for, or the blocks after an adaptive pilot."""
        if self._extension is not None:
            self._results.reload()
            longer = self._extension(self._results, self._plan)
            self._plan = longer or self._plan
            return longer is not None
        repetitions = self._plan.experiment.repetitions
        if not isinstance(repetitions, Adaptive):
            return False
        if len({planned.block for planned in self._plan.runs}) > repetitions.at_least:
            return False  # decided before
        from towtank.campaign.adaptive import final_blocks  # noqa: PLC0415 - scipy takes a second, few designs need it

        self._results.reload()
        decision = final_blocks(self._results, self._plan)
        self._frame.display.note(decision.sentence)
        if decision.plan is None:
            return False
        self._plan = decision.plan
        return True

    def _announce(self) -> None:
        done = sum(1 for planned in self._plan.runs if planned.id in self._usable)
        self._frame.display.campaign(self._plan.experiment.experiment, len(self._plan.runs), done)

    def _check_platforms(self) -> None:
        """Say everything that can be known to fail before anything is created.

        Raises
        ------
        PlatformError, DriverError
        """
        problems: dict[str, None] = {}
        missing: dict[str, None] = {}
        needed = {planned.treatment_id for planned in self._plan.runs if self._is_open(planned)}
        for treatment in self._plan.treatments:
            if treatment.id in needed:
                config = treatment.spec.deployment
                platform = self._create_platform(config.platform)
                for problem in platform.check(config, self._frame.root):
                    problems[f"deployment {treatment.spec.deployment_name}: {problem}"] = None
                for problem in problems_here(platform, treatment.spec.faults):
                    problems[problem] = None
                workload = treatment.spec.workload
                if isinstance(workload, ForeignWorkload):
                    for problem in drivers.create(workload.driver).check(workload.config, self._frame.root):
                        missing[f"workload {treatment.spec.workload_name}: {problem}"] = None
        if missing:
            raise DriverError("\n".join(missing), hint="nothing was started")
        if problems:
            raise PlatformError("\n".join(problems), hint="nothing was started")

    def _check_generators(self) -> None:
        """Ask clusters that workers are to run in whether they will come up, before anything is created.

        Raises
        ------
        PlatformError
        """
        needed = {planned.treatment_id for planned in self._plan.runs if self._is_open(planned)}
        wanted = [t.spec.generator for t in self._plan.treatments if t.id in needed]
        problems: dict[str, None] = {}
        for outlook in outlooks(wanted, self._frame.root):
            problems |= dict.fromkeys(outlook.problems)
            for remark in outlook.remarks:
                self._frame.display.note(remark)
        if problems:
            raise PlatformError("\n".join(problems), hint="nothing was started")

    def _check_sources(self) -> None:
        """Ask telemetry sources whether they will see anything, before anything is created.

        Raises
        ------
        TelemetryError
        """
        needed = {planned.treatment_id for planned in self._plan.runs if self._is_open(planned)}
        observed = [treatment.spec for treatment in self._plan.treatments if treatment.id in needed]
        asked = dict.fromkeys(item.model_dump_json() for spec in observed for item in spec.observe)
        outlook = look_ahead([Observe.model_validate_json(item) for item in asked], self._frame.root)
        for remark in outlook.remarks:
            self._frame.display.note(remark)
        if problems := [*outlook.problems, *unseen_deployments(observed, self._frame.root)]:
            raise TelemetryError("\n".join(problems), hint="nothing was started")

    def _check_room(self, arrivals: float) -> None:
        """Refuse to start a run whose records would not fit.

        Raises
        ------
        MachineError
        """
        wanted = LEAST_ROOM_BYTES + round(arrivals * BYTES_PER_ROW)
        free = shutil.disk_usage(self._frame.results).free
        if free < wanted:
            raise MachineError(
                f"{format_bytes(free)} are free on the disk of {self._frame.results}; "
                f"the next run may need {format_bytes(wanted)}",
                hint="make room there, then repeat the command: it goes on where it stopped",
            )


def _by_block(runs: Sequence[PlannedRun]) -> Iterator[list[PlannedRun]]:
    """Stretches of consecutive runs of one block: whole blocks, or, for split plots, their part in one plot."""
    for _, group in groupby(runs, key=lambda planned: planned.block):
        yield list(group)
