"""Workers driven as one engine: all ready or no load at all, one start, one end, one set of records."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from towtank.errors import EngineError
from towtank.load.engine import BAD_JOB_EXIT_CODE, READY_TIMEOUT_S, JobRefused, flush_timeout_s
from towtank.load.events import Done, Progress, Ready
from towtank.load.workers import merging
from towtank.load.workers.member import QUESTIONS, Member
from towtank.load.workers.places import END_GRACE_S, Place
from towtank.load.workers.shipment import Shipment
from towtank.platforms.base import Cancelled

START_AHEAD_S = 1.0
"""The start is ordered this far ahead: every worker has to hear of it before it comes."""
_KNOWN_BEFORE_S = 0.05
"""All workers have said that they heard of the start this long before it, or there is none."""
_ASK_EVERY_S = 5.0
_ANSWER_WITHIN_S = 0.4
_POLL_S = 0.05


class WorkerLost(EngineError):  # noqa: N818 - the field's word
    """A worker was lost, or failed: what the others did is no whole run."""


class WorkersNotReady(EngineError):  # noqa: N818 - the field's word
    """Not all workers were ready, or knew of the start in time: no load was sent."""


class Fleet:
    """Several workers as one engine; the same face as `EngineProcess`.

    Use as a context manager: leaving it ends all workers, whatever happened.

    Parameters
    ----------
    place : Place
        Where the workers are.
    workers : int
    job_for : callable
        Number of a worker → its job; the worker adds which part of it is its own.
    shipment : Shipment
        Files that the job names.
    output : Path
        Folder of the logs of all workers; ``<output>.parquet`` is made of them.
    engine : Path
        The engine on this machine, which makes it.
    deadline_s : float
        Workers end by themselves after this.
    on_progress : callable, optional
        Called about each second; must not block.
    """

    start_ahead_s = START_AHEAD_S

    def __init__(
        self,
        place: Place,
        workers: int,
        job_for: Callable[[int], Mapping[str, Any]],
        shipment: Shipment,
        *,
        output: Path,
        engine: Path,
        deadline_s: float,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._place = place
        self._count = workers
        self._job_for = job_for
        self._shipment = shipment
        self._output = output
        self._engine = engine
        self._deadline_s = deadline_s
        self._on_progress = on_progress
        self._changed = threading.Condition()
        self._members: list[Member] = []
        self._told_us = -1
        self._zero_ns = 0
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        self._done: Done | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def own_pids(self) -> tuple[int, ...]:
        """Processes on this machine that make the load."""
        return self._place.own_pids

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Findings of all workers, each with its worker."""
        with self._changed:
            said = [(member, dict(finding)) for member in self._members for finding in member.heard.findings]
        told = [{**f, "worker": m.number, "message": f"{m.name}: {f.get('message', '')}"} for m, f in said]
        return [*self._place.findings(), *told]

    def facts(self) -> dict[str, Any]:
        """Where the generators stood, and how their clocks related to ours; for run.json."""
        with self._changed:
            return {"generators": [_standing(member) for member in self._members]}

    # --- before the load -----------------------------------------------------------------------------------

    def wait_ready(self, *, cancelled: Cancelled) -> Ready:
        """Start all workers, and wait until each has understood its part.

        Raises
        ------
        JobRefused
            The job is wrong.
        WorkersNotReady
            Not all were there, or ready, in time.
        """
        try:
            links = self._place.start(self._count, deadline_s=self._deadline_s, cancelled=cancelled)
            self._members = [
                Member(number, self._count, link, self._changed, self._progressed)
                for number, link in enumerate(links)
            ]
            self._each(Member.greet)
            self._check_builds()
            self._keeper = threading.Thread(target=self._keep_in_touch, name="workers-clock", daemon=True)
            self._keeper.start()
            self._each(lambda member: member.send_job(self._job_for(member.number), self._shipment))
        except EngineError as error:
            raise WorkersNotReady(f"no load was sent: {error.message}", hint=error.hint) from error
        timeout_s = READY_TIMEOUT_S + self._place.start_timeout_s
        self._wait(_all(self._members, _is_ready), timeout_s, "to become ready", cancelled)
        self._check_ready()
        self._each(Member.ask_clock)
        known = _all(self._members, lambda member: member.answers >= QUESTIONS)
        self._wait(known, READY_TIMEOUT_S, "to tell the time", cancelled)
        return merging.merged_ready([m.heard.ready for m in self._members if m.heard.ready is not None])

    def _check_builds(self) -> None:
        builds = {json.dumps([m.welcome.get("engine"), m.welcome.get("build")]): m for m in self._members}
        if len(builds) > 1:
            said = "; ".join(f"{member.name}: {build}" for build, member in builds.items())
            raise EngineError(
                f"the workers are of different builds: {said}", hint="give all of them the same engine"
            )

    def _check_ready(self) -> None:
        for member in self._members:
            if member.heard.ready is None:
                code = (member.ended or {}).get("code")
                if code == BAD_JOB_EXIT_CODE:
                    problems = tuple(member.heard.errors)
                    raise JobRefused(f"the engine refuses the job: {member.words()}", problems=problems)
                raise WorkersNotReady(
                    f"no load was sent: {member.name} ended before it was ready (exit code {code}): {member.words()}"
                )

    def start_at(self, monotonic_ns: int) -> None:
        """Order the start of the load at an instant of CLOCK_MONOTONIC of this machine.

        Raises
        ------
        WorkersNotReady
        """
        self._zero_ns = monotonic_ns
        try:
            known = {member: member.answers for member in self._members}
            self._each(Member.ask_clock)
            with contextlib.suppress(EngineError):  # what is known already will do
                told = _all(self._members, lambda m: m.answers > known[m])
                self._wait(told, _ANSWER_WITHIN_S, "to tell the time", _never)
            self._each(lambda member: member.start_at(monotonic_ns))
        except EngineError as error:
            self.stop()
            raise WorkersNotReady(f"no load was sent: {error.message}") from error

    def wait_started(self, *, cancelled: Cancelled) -> int:
        """Wait until every worker knows of the start, which is still to come.

        Returns
        -------
        int
            CLOCK_MONOTONIC of run-clock zero on this machine, ns.

        Raises
        ------
        WorkersNotReady
            One does not, or refuses it: all are stopped.
        """
        left_s = (self._zero_ns - time.monotonic_ns()) / 1e9 - _KNOWN_BEFORE_S
        try:
            self._wait(_all(self._members, _knows_start), max(0.0, left_s), "to hear of the start", cancelled)
            self._check_started()
        except EngineError as error:
            self.stop()
            raise WorkersNotReady(f"the load was not begun by all workers: {error.message}") from error
        return self._zero_ns

    def _check_started(self) -> None:
        for member in self._members:
            if member.heard.started_ns is None or member.refused:
                raise EngineError(f"{member.name} does not start: {member.words() or 'its load has ended'}")

    # --- the load, and what it leaves -------------------------------------------------------------------------

    def wait_done(self, *, timeout_s: float, cancelled: Cancelled) -> Done:
        """Wait for the end of the load, and until the records of all workers are one file here.

        Raises
        ------
        WorkerLost
            One was lost or failed; what the others have recorded is kept.
        """
        if self._done is not None:
            return self._done
        try:
            self._wait(_all(self._members, lambda m: m.ended is not None), timeout_s, "to finish", cancelled)
            each = [self._done_of(member) for member in self._members]
            self._each(Member.ask_clock)
            self._collect(self._members, cancelled)
        except EngineError as error:
            self._salvage()
            raise WorkerLost(error.message, hint=error.hint) from error
        self._done = merging.merged_done(each, [self._compacted()])
        return self._done

    def _done_of(self, member: Member) -> Done:
        code = (member.ended or {}).get("code")
        if member.heard.done is None or code != 0:
            raise EngineError(
                f"{member.name} failed (exit code {code}): {member.words() or member.link.words()}"
            )
        return member.heard.done

    def _collect(self, members: Iterable[Member], cancelled: Cancelled) -> None:
        """Fetch all logs, and let the workers go."""
        self._output.mkdir(parents=True, exist_ok=True)
        for member in members:
            for log in (member.ended or {}).get("logs") or ():
                timeout_s = flush_timeout_s(int(log["bytes"]) // 64)

                def wait(whole: Callable[[], bool], of: Member = member, within_s: float = timeout_s) -> None:
                    self._wait(whole, within_s, "to send its records", cancelled, (of,))

                member.fetch(log, self._output, wait)
            member.finish()

    def _compacted(self) -> dict[str, Any]:
        """Make one file of all logs, as an engine does that is alone."""
        target = self._output.with_name(self._output.name + ".parquet")
        command = [str(self._engine), "compact", str(self._output), str(target)]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        try:
            said = json.loads(answer.stdout)
            return {name: said[name] for name in ("path", "rows", "bytes", "crc32")}
        except (ValueError, KeyError) as error:
            raise EngineError(
                f"the records of the workers were not put together: {(answer.stdout + answer.stderr).strip()}",
                hint=f"they are in {self._output}",
            ) from error

    def _salvage(self) -> None:
        """The run does not count; what was recorded is kept as far as it can be had."""
        self.stop()
        alive = [member for member in self._members if member.lost is None]
        with contextlib.suppress(EngineError):
            self._wait(_all(alive, lambda m: m.ended is not None), END_GRACE_S, "to stop", _never, alive)
        for member in alive:
            if member.ended is not None:
                with contextlib.suppress(EngineError, OSError):
                    self._collect([member], _never)

    def stop(self) -> None:
        """Ask all for an orderly end: nothing new is sent, everything is flushed. Harmless when they have ended."""
        for member in self._members:
            member.stop()

    def close(self) -> None:
        """End all workers; idempotent."""
        self._closing.set()
        for member in self._members:
            member.close()
        if self._keeper is not None:
            self._keeper.join(_ASK_EVERY_S)
        self._place.close()

    # --- listening --------------------------------------------------------------------------------------------

    def _progressed(self) -> None:
        """Tell of a second when all workers have told of it."""
        with self._changed:
            each = [member.progress for member in self._members if member.progress is not None]
            if len(each) < len(self._members) or min(p.t_us for p in each) <= self._told_us:
                return
            merged = merging.merged_progress(each)
            self._told_us = merged.t_us
        if self._on_progress is not None:
            self._on_progress(merged)

    def _keep_in_touch(self) -> None:
        """Ask for the time now and then: how the clocks run, and whether everybody is there."""
        while not self._closing.wait(_ASK_EVERY_S):
            for member in self._members:
                if member.lost is None:
                    with contextlib.suppress(EngineError):
                        member.ask_clock()

    def _each(self, act: Callable[[Member], object]) -> None:
        """Do something with all workers at once; the first error is raised."""
        with ThreadPoolExecutor(max(1, len(self._members))) as pool:
            for future in [pool.submit(act, member) for member in self._members]:
                future.result()

    def _wait(
        self,
        arrived: Callable[[], bool],
        timeout_s: float,
        what: str,
        cancelled: Cancelled,
        whose: Sequence[Member] | None = None,
    ) -> None:
        """Wait until `arrived`; a worker that is lost meanwhile, or too much time, is an EngineError."""
        deadline = time.monotonic() + timeout_s
        while True:
            cancelled()
            with self._changed:
                lost = next(
                    (m for m in (self._members if whose is None else whose) if m.lost is not None), None
                )
                if lost is None and arrived():
                    return
                left = deadline - time.monotonic()
                if lost is None and left > 0:
                    self._changed.wait(min(_POLL_S, left))
                    continue
            if lost is not None:
                raise EngineError(f"{lost.name} was lost: {lost.lost}; {lost.words() or lost.link.words()}")
            raise EngineError(f"the workers took longer than {timeout_s:.3g} s {what}")


def _all(members: Sequence[Member], is_so: Callable[[Member], bool]) -> Callable[[], bool]:
    return lambda: all(is_so(member) for member in members)


def _is_ready(member: Member) -> bool:
    """Or has ended: waiting will not make it ready."""
    return member.heard.ready is not None or member.ended is not None


def _knows_start(member: Member) -> bool:
    """Or refuses it."""
    return member.heard.started_ns is not None or bool(member.refused) or member.ended is not None


def _never() -> None:
    """Nobody can interrupt this."""


def _standing(member: Member) -> dict[str, Any]:
    standing, said = member.link.standing, member.welcome
    return {
        "worker": member.number,
        "kind": standing.kind,
        "where": standing.where,
        **standing.facts,
        "host": said.get("host"),
        "cpus": said.get("cpus"),
        "clock": member.clock.record(),
    }
