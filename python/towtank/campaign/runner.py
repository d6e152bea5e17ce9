"""One run: reset, deploy, prepare, settle, drive and observe, judge, keep.

What goes wrong is sorted here: a fault of the instrument makes the run invalid (it is kept and repeated), a failure of
the deployment under load is its result, a deployment that never becomes ready ends the campaign, and so does a
machine that lacks something. In the last two cases the run stays `running` and the same command does it again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from towtank.campaign import engine_load, hooks, machine, workers
from towtank.campaign.driving import ForeignDrive
from towtank.campaign.frame import Frame
from towtank.campaign.helpers import Helpers
from towtank.campaign.judging import judged
from towtank.campaign.lifetimes import Slot, logs_of, removal_events_of
from towtank.campaign.logged import incomplete_logs, logged, with_window
from towtank.campaign.logs import LogMarks, log_facts
from towtank.campaign.observing import Observing
from towtank.campaign.seen import Seen
from towtank.campaign.settle import settle
from towtank.campaign.traced import answered
from towtank.campaign.validity import Observation, judge
from towtank.clock import RunClock
from towtank.design.foreign import ForeignWorkload
from towtank.design.journey_shape import longest_timeout_s
from towtank.design.model import TreatmentSpec
from towtank.design.plan import PlannedRun, Treatment
from towtank.errors import EngineError, Interrupted, MachineError, PlatformError, TowtankError
from towtank.faults.agenda import Agenda
from towtank.load.engine import JobRefused
from towtank.load.events import Progress
from towtank.load.job import masked, stages
from towtank.platforms.base import ProbesAfterRun, Target, mask_of
from towtank.store import RunWriter
from towtank.store.files import explained
from towtank.store.log_lines import timed_logs
from towtank.store.run_record import RunRecord, StageWindow

STILL_GOOD = "complete runs are untouched; this run stays 'running' and is to be done again"


def carry_out(frame: Frame, planned: PlannedRun, treatment: Treatment, attempt: int) -> RunRecord:
    """Carry one attempt of a planned run out and keep it.

    Returns
    -------
    RunRecord
        Complete, with its verdicts.

    Raises
    ------
    Interrupted, PlatformError, TelemetryError, MachineError
        The run stays `running` and is done again by the next command.
    """
    spec = treatment.spec
    writer = RunWriter.create(
        frame.results, planned, attempt, experiment=frame.experiment, treatment_label=treatment.label,
        levels=treatment.levels, workload=spec.drive, load_model=spec.load_model,
        timeout_us=round(max(map(longest_timeout_s, spec.workloads.values())) * 1e6), versions=dict(frame.versions),
        environment_digest=frame.environment_digest,
        stages=tuple(
            StageWindow(workload=name, name=s.name, start_us=s.start_us, end_us=s.end_us)
            for name, workload in spec.workloads.items()
            for s in stages(workload.load)
        ),
    )  # fmt: skip
    with writer:
        return _Attempt(frame, planned, spec, writer).carry_out()


class _Attempt:
    """The steps of one attempt, in order."""

    def __init__(self, frame: Frame, planned: PlannedRun, spec: TreatmentSpec, writer: RunWriter) -> None:
        self._frame = frame
        self._planned = planned
        self._spec = spec
        self._writer = writer
        self._seen = Seen()
        self._targets: dict[str, Target] = {}
        self._logs = writer.layout.logs

    def carry_out(self) -> RunRecord:
        """All steps; whatever happens, what the run created is gone afterwards, or that is an error."""
        try:
            with explained(self._writer.path, still_good=STILL_GOOD):
                left = self._carry_out()
                record = self._keep()
        except TowtankError as error:
            self._leave_running(error)
            raise
        if left is not None:
            raise left
        return record

    def _carry_out(self) -> PlatformError | None:
        """Everything that needs the deployment, which ends with it; why it could not be removed, if so."""
        lifetimes = self._frame.lifetimes
        marks: LogMarks | None = None
        try:
            with self._timed("fixtures"):
                lifetimes.ensure_fixtures(self._spec, self._logs)
            slot = lifetimes.slot_for(self._spec, self._writer.record.run_id, self._logs)
            marks = LogMarks.take(slot.logs) if slot.logs != self._logs else None
            self._steps(slot)
            if marks is not None:
                self._seen.logs = self._part_of_logs(slot, marks)
        except BaseException as error:
            left = self._remove()
            if left is not None:  # the first error is the one that matters
                error.add_note(f"while removing: {left.message}")
            raise
        deployment = slot.deployment
        left = self._remove()
        self._seen.removal_events = removal_events_of(deployment)
        if marks is None:
            self._seen.logs = [log_facts(log) for log in slot.removed_logs]
        return left

    def _remove(self) -> PlatformError | None:
        """Remove what lives no longer than the run; what was measured is kept also where that fails."""
        lifetimes = self._frame.lifetimes
        try:
            with self._timed("remove"):
                lifetimes.end_run()
                if self._seen.inflicted.problems:  # who knows what is still wrong with it
                    lifetimes.remove_deployment()
        except PlatformError as error:
            return error
        return None

    def _part_of_logs(self, slot: Slot, marks: LogMarks) -> list[dict[str, Any]]:
        """What a deployment that lives longer than the run wrote during it."""
        return marks.copy_new(slot.logs, self._logs, logs_of(slot.deployment), mask_of(slot.deployment))

    def _steps(self, slot: Slot) -> None:
        """From reset to the end of the load; a fault of the instrument ends them early, without an error."""
        before_deploying = self._spec.reset is not None and not _needs_address(self._spec.reset.run)
        if before_deploying and not self._reset(slot):
            return
        self._deploy(slot)
        if not before_deploying and self._spec.reset is not None and not self._reset(slot):
            return
        self._drive(slot)

    # --- before the load ---------------------------------------------------------------------------------

    def _reset(self, slot: Slot) -> bool:
        """Bring the data to their state; a failure makes the run invalid."""
        reset = self._spec.reset
        if reset is None:
            return True
        self._frame.display.phase("reset")
        with self._timed("reset"):
            try:
                facts = hooks.run_reset(
                    reset, self._frame.lifetimes.places(slot), self._frame.intents,
                    log=self._logs / "reset.log", cancelled=self._frame.stop,
                )  # fmt: skip
            except hooks.HookFailed as error:
                self._seen.observations.append(Observation("wrong_data_state", 1, error.message))
                self._seen.failure = error.message
                return False
        self._seen.deployment["reset"] = facts
        return True

    def _deploy(self, slot: Slot) -> None:
        """Deploy unless it lives on from an earlier run, and prepare it before its first run."""
        if slot.deployment is None:
            self._frame.display.phase("deploy")
            with self._timed("deploy"):
                self._frame.lifetimes.deploy(slot)
        self._frame.display.phase("prepare")
        with self._timed("prepare"):
            self._frame.lifetimes.prepare(slot, self._spec.prepare, self._logs / "prepare.log")
        if slot.deployment is not None:
            self._frame.images.check(slot.name, slot.deployment)

    def _settle(self, slot: Slot) -> bool:
        """Wait for the baseline; not reaching it makes the run invalid."""
        self._frame.display.phase("settle")
        with self._timed("settle"):
            settled = settle(self._spec.settle, slot.targets, self._frame.stop, slot.deployment)
        self._seen.settled = settled
        if not settled.reached:
            self._seen.observations.append(Observation("wrong_baseline", 1, settled.problem))
            self._seen.failure = f"did not settle: {settled.problem}"
        return settled.reached

    # --- the load ----------------------------------------------------------------------------------------

    def _drive(self, slot: Slot) -> None:
        """Drive the load and observe; losing the engine or the platform makes the run invalid."""
        deployment = slot.deployment
        if deployment is None:
            raise PlatformError(f"{slot.name} has no deployment to drive a load against")
        self._targets = dict(slot.targets)
        begun_ns = time.monotonic_ns()
        if isinstance(self._spec.workload, ForeignWorkload):
            self._drive_foreign(slot, self._spec.workload)
            self._look_back(slot, begun_ns)
            return
        asked = engine_load.asked_of(
            self._spec, self._writer, slot.targets, seed=self._planned.seed, results=self._frame.results,
            root=self._frame.root,
        )  # fmt: skip
        kept = masked(asked.job, mask_of(deployment))
        path = self._writer.write_job(kept)
        with workers.place_of(self._spec.generator, self._frame, self._writer, self._logs) as (place, token):
            generator = engine_load.generator_of(
                self._spec, asked, engine=self._frame.engine.path, kept=(path, kept), logs=self._logs, token=token,
                place=place, on_progress=self._on_progress,
            )  # fmt: skip
            try:
                with generator:
                    self._load(generator, slot)
            except JobRefused:
                raise  # the same job would be refused again
            except EngineError as error:
                self._seen.observations.append(Observation(workers.reason_of(error), 1, error.message))
                self._seen.failure = error.message
            finally:
                self._seen.findings = generator.findings
                self._seen.generators = generator.facts()
        self._look_back(slot, begun_ns)

    def _drive_foreign(self, slot: Slot, workload: ForeignWorkload) -> None:
        """Let another tool drive the load, and take its requests in; failing to is the tool's user to mend."""
        seen, stop, writer = self._seen, self._frame.stop, self._writer
        with self._frame.intents.during("engine", writer.record.run_id) as intent:
            drive = ForeignDrive(
                workload, self._spec.workload_name, targets=slot.targets, root=self._frame.root,
                run=writer.layout.path, logs=self._logs, generator=self._spec.generator,
            )  # fmt: skip
            with self._observed(slot, os.getpid()) as settled:
                if not settled:
                    return
                with self._measured():
                    drive.run(self._frame.engine.path, intent.token, cancelled=stop)
                with self._timed("collect"):
                    seen.drove = drive.collect(writer.layout.requests)
                seen.zero_ns = seen.drove.zero_ns
                seen.observations += seen.drove.observations

    def _load(self, generator: engine_load.Generates, slot: Slot) -> None:
        """Settle, then the load itself."""
        seen, stop = self._seen, self._frame.stop
        seen.ready = generator.wait_ready(cancelled=stop)
        with self._observed(slot, os.getpid(), *generator.own_pids) as settled:
            if not settled:
                return
            with self._measured():
                zero_ns = time.monotonic_ns() + round(generator.start_ahead_s * 1e9)
                generator.start_at(zero_ns)
                try:
                    seen.zero_ns = generator.wait_started(cancelled=stop)
                    longest_s = engine_load.longest_s(self._spec, seen.ready, generator)
                    with self._disturbed(slot, seen.zero_ns):
                        seen.done = generator.wait_done(timeout_s=longest_s, cancelled=stop)
                except Interrupted:
                    engine_load.stop_in_order(generator, stop)
                    raise

    @contextlib.contextmanager
    def _observed(self, slot: Slot, *own_pids: int) -> Iterator[bool]:
        """Telemetry watches from before the load, on negative run times; gives whether the deployment settled."""
        observing = Observing(
            self._spec.observe,
            slot.targets,
            own_pids=own_pids,
            root=self._frame.root,
            deployment=slot.deployment,
            helpers=Helpers(self._frame, self._writer.record.run_id, self._logs),
        )
        observing.start()
        try:
            yield self._settle(slot)
        finally:
            seen = self._seen
            over = seen.window() is not None
            if over and observing.keeps_spans:
                self._frame.display.phase("wait for spans")
            with self._timed("observe"):
                seen.observed = observing.stop(
                    RunClock(seen.zero_ns or time.monotonic_ns()),
                    traced=(lambda: answered(self._spec, self._writer)) if over else None,
                    mask=mask_of(slot.deployment),
                )

    @contextlib.contextmanager
    def _disturbed(self, slot: Slot, zero_ns: int) -> Iterator[None]:
        """Faults come at their times, and are undone when the load is over, however it ends."""
        if not self._spec.faults or slot.deployment is None:
            yield
            return
        agenda = Agenda(
            self._spec.faults, slot.deployment, target=next(iter(slot.targets), ""), seed=self._planned.seed
        )
        agenda.start(zero_ns)
        try:
            yield
        finally:
            self._seen.inflicted = agenda.close()

    @contextlib.contextmanager
    def _measured(self) -> Iterator[None]:
        """The load itself: who used the machine meanwhile, and how long it took."""
        before = machine.now()
        self._frame.display.phase("load")
        with self._timed("drive"):
            yield
        self._seen.during = machine.between(before, machine.now())

    def _look_back(self, slot: Slot, begun_ns: int) -> None:
        """What the deployment went through while the load was on."""
        deployment = slot.deployment
        if deployment is None:
            return
        self._frame.display.phase("look back")
        try:
            if isinstance(deployment, ProbesAfterRun):
                deployment.probe()
            self._seen.system_events = [e for e in deployment.events() if e.t_ns >= begun_ns]
            self._frame.images.check(slot.name, deployment)  # of pods that came under load, too
            self._seen.deployment |= {
                "platform": slot.config.platform, "name": slot.name, "lifetime": slot.lifetime,
                "runs_before": slot.runs[:-1], **deployment.describe(),
            }  # fmt: skip
        except Interrupted:
            raise
        except PlatformError as error:
            words = f"{error.message} ({error.hint})" if error.hint else error.message
            self._seen.observations.append(Observation("platform_lost", 1, words))
            self._seen.failure = error.message

    def _on_progress(self, progress: Progress) -> None:
        self._frame.display.load(progress)

    # --- after the load ----------------------------------------------------------------------------------

    def _keep(self) -> RunRecord:
        """Judge the run, and complete its folder."""
        self._frame.display.phase("keep")
        seen, writer = self._seen, self._writer
        window = seen.window()
        clock = seen.clock()
        if clock is not None and window is not None:
            written = timed_logs(self._logs)
            logged_samples, logged_events = logged(written, clock, window.end_us)
            writer.write_samples(logged_samples)
            seen.events += [*logged_events, *incomplete_logs(seen.logs, window.end_us)]
            seen.logs = with_window(seen.logs, written, clock, window)
        if seen.observed is not None:
            writer.write_samples(seen.observed.samples)
            if seen.observed.spans is not None:
                writer.write_spans(seen.observed.spans)
        writer.write_events(seen.all_events())
        begun = time.monotonic()
        seen.generators = workers.with_distances(seen.generators, writer.layout.requests)
        verdicts = judge(
            [*seen.observations, *judged(seen, self._spec, self._targets, writer.layout.requests)]
        )
        record = writer.record.model_copy(
            update={
                "clock": seen.clock_record(),
                "window": window,
                "faults": seen.fault_windows(),
                "verdicts": verdicts,
                "failure": seen.failure,
                "unknown": dict(seen.drove.unknown) if seen.drove is not None else {},
                "engine": seen.engine_facts(self._frame.engine),
                "deployment": seen.deployment,
                "telemetry": seen.observed.facts if seen.observed is not None else {},
                "logs": seen.logs,
            }
        )
        seen.timings_s["judge"] = round(time.monotonic() - begun, 4)
        record = writer.close(record.model_copy(update={"timings_s": seen.timings_s}))
        self._frame.display.finished(record)
        return record

    def _leave_running(self, error: TowtankError) -> None:
        """Note why the run could not be completed; it is done again later."""
        with contextlib.suppress(MachineError, OSError):  # the disk may be what failed
            self._writer.update(self._writer.record.model_copy(update={"failure": error.message}))

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            spent = self._seen.timings_s.get(name, 0.0) + time.monotonic() - begun
            self._seen.timings_s[name] = round(spent, 4)


def _needs_address(run: str | Sequence[str] | None) -> bool:
    """Whether a reset asks the deployment itself, so that it can only come after deploying."""
    words = [run] if isinstance(run, str) else list(run or ())
    return any("{url." in word for word in words)
