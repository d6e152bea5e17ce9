"""One engine process: started, listened to, stopped; it never outlives its `EngineProcess`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from towtank.errors import EngineError
from towtank.load.events import Done, Heard, Progress, Ready
from towtank.platforms.base import Cancelled

READY_TIMEOUT_S = 15.0
START_AHEAD_S = 0.3
"""The start is ordered this far ahead, so that the engine is asleep on its clock when it comes."""
START_TIMEOUT_S = 5.0
"""Longest wait for `started` after the instant the load should start."""
FLUSH_TIMEOUT_S = 60.0
"""Longest time for draining records to disk after the last request, besides what the rows need."""
ROWS_PER_S = 50_000.0
"""Slowest compaction worth waiting for."""
STOP_GRACE_S = 5.0
BAD_JOB_EXIT_CODE = 3
_POLL_S = 0.05
_TAIL_BYTES = 4096
_LINE_LIMIT = 1 << 20

TOKEN_VARIABLE = "TOWTANK_TOKEN"  # noqa: S105 - a name, not a secret


class JobRefused(EngineError):  # noqa: N818 - the field's word
    """The engine understood the job and refuses it; it would refuse it again.

    Parameters
    ----------
    message : str
    hint : str, optional
    problems : sequence of str
        What it said, each with its path in the job: ``$.targets.app: …``.
    """

    def __init__(self, message: str, *, hint: str | None = None, problems: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)


class EngineProcess:
    """A running engine.

    Use as a context manager: leaving it ends the process, whatever happened.

    Parameters
    ----------
    binary : Path
    job_path : Path
        The job as it is kept with the run.
    private_job : mapping, optional
        The job with its secrets, when the kept one is masked: handed over in memory, never written to a disk.
    log_path : Path
        The engine's stderr.
    token : str
        Mark in its environment by which `clean` knows it.
    on_progress : callable, optional
        Called each second from the reader thread; must not block.
    """

    start_ahead_s = START_AHEAD_S

    def __init__(
        self,
        binary: Path,
        job_path: Path,
        *,
        log_path: Path,
        token: str,
        private_job: Mapping[str, Any] | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._binary = binary
        self._job_path = job_path
        self._private_job = private_job
        self._log_path = log_path
        self._token = token
        self._on_progress = on_progress
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._changed = threading.Condition()
        self._heard = Heard()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id; 0 before it was started."""
        return self._process.pid if self._process else 0

    @property
    def own_pids(self) -> tuple[int, ...]:
        """Processes on this machine that make the load."""
        return (self.pid,)

    def facts(self) -> dict[str, Any]:
        """What run.json says of where the load came from, besides `Ready`: nothing; it is this machine."""
        return {}

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Findings so far, oldest first."""
        with self._changed:
            return list(self._heard.findings)

    def start(self) -> None:
        """Start the process; it then reads its job.

        Raises
        ------
        EngineError
            The program cannot be executed.
        """
        private = None if self._private_job is None else _in_memory(self._private_job)
        argument = str(self._job_path) if private is None else f"/proc/self/fd/{private}"
        try:
            with self._log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    [str(self._binary), "run", argument],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env={**os.environ, TOKEN_VARIABLE: self._token},
                    pass_fds=() if private is None else (private,),
                    start_new_session=True,  # Ctrl-C is for us alone: we stop it in order
                )
        except OSError as error:
            raise EngineError(f"the engine {self._binary} cannot be started: {error}") from error
        finally:
            if private is not None:
                os.close(private)
        stdout = self._process.stdout
        if stdout is None:
            raise EngineError("the engine was started without a pipe for its events")
        self._reader = threading.Thread(target=self._read, args=(stdout,), name="engine-events", daemon=True)
        self._reader.start()

    def wait_ready(self, *, cancelled: Cancelled, timeout_s: float = READY_TIMEOUT_S) -> Ready:
        """Wait until the engine has understood its job.

        Raises
        ------
        JobRefused
            The job is wrong.
        EngineError
            It died or said nothing in time.
        """
        self._wait(lambda heard: heard.ready is not None, timeout_s, "to become ready", cancelled)
        if self._heard.ready is None:
            failure = self._failure("ended before it was ready")
            if self._process is not None and self._process.returncode == BAD_JOB_EXIT_CODE:
                with self._changed:
                    problems = tuple(self._heard.errors)
                raise JobRefused(
                    f"the engine refuses the job{self._said()}", hint=failure.hint, problems=problems
                ) from failure
            raise failure
        return self._heard.ready

    def start_at(self, monotonic_ns: int | None) -> None:
        """Order the start of the load at an instant of CLOCK_MONOTONIC; None is now."""
        self._send({"start_at_ns": monotonic_ns})

    def wait_started(self, *, cancelled: Cancelled, timeout_s: float = START_TIMEOUT_S) -> int:
        """Wait for the load's first instant.

        Returns
        -------
        int
            CLOCK_MONOTONIC of run-clock zero as the engine has it, ns.
        """
        self._wait(lambda heard: heard.started_ns is not None, timeout_s, "to start the load", cancelled)
        if self._heard.started_ns is None:
            raise self._failure("ended before the load started")
        return self._heard.started_ns

    def wait_done(self, *, timeout_s: float, cancelled: Cancelled) -> Done:
        """Wait for the end of the load and until all records are on disk.

        Raises
        ------
        EngineError
            It died, or took longer than `timeout_s`.
        """
        self._wait(lambda heard: heard.done is not None, timeout_s, "to finish", cancelled)
        if self._heard.done is None:
            raise self._failure("was lost before it finished")
        return self._heard.done

    def stop(self) -> None:
        """Ask for an orderly end: nothing new is sent, everything is flushed. Harmless when it has ended."""
        try:
            self._send({"stop": True})
        except EngineError:
            return

    def close(self, *, grace_s: float = STOP_GRACE_S) -> None:
        """End the process: its lifeline first, then SIGTERM, then SIGKILL. Idempotent."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None and not process.stdin.closed:
            with contextlib.suppress(OSError):  # the pipe is broken because it has ended already
                process.stdin.close()
        for order in (None, signal.SIGTERM, signal.SIGKILL):
            if order is not None and process.poll() is None:
                process.send_signal(order)
            try:
                process.wait(grace_s)
                break
            except subprocess.TimeoutExpired:
                continue
        if self._reader is not None:
            self._reader.join(grace_s)
        if process.stdout is not None:
            process.stdout.close()

    def kill(self) -> None:
        """End the process at once; what it flushed so far stays readable."""
        self.close(grace_s=0.0)

    def stderr_tail(self) -> str:
        """The last lines of what the engine wrote to stderr."""
        try:
            with self._log_path.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(0, log.tell() - _TAIL_BYTES))
                return log.read().decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def _send(self, order: Mapping[str, Any]) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise EngineError("the engine has not been started")
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        except (OSError, ValueError) as error:
            raise self._failure("does not take orders any more") from error

    def _wait(
        self, arrived: Callable[[Heard], bool], timeout_s: float, what: str, cancelled: Cancelled
    ) -> None:
        """Wait until `arrived`, the end of the events, or the time is up (EngineError)."""
        deadline = time.monotonic() + timeout_s
        while True:
            cancelled()
            with self._changed:
                if arrived(self._heard) or self._heard.closed:
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(_POLL_S, left))
        raise EngineError(
            f"the engine (pid {self.pid}) took longer than {timeout_s:.0f} s {what}{self._said()}",
            hint=f"its own words are in {self._log_path}",
        )

    def _failure(self, what: str) -> EngineError:
        """Say how it ended, with everything that it said about it."""
        code: int | None = None
        if self._process is not None:
            try:
                code = self._process.wait(1.0)
            except subprocess.TimeoutExpired:
                code = None
        how = "" if code is None else f" ({_exit_words(code)})"
        return EngineError(
            f"the engine {what}{how}{self._said()}", hint=f"its own words are in {self._log_path}"
        )

    def _said(self) -> str:
        with self._changed:
            words = list(self._heard.errors)
        tail = self.stderr_tail()
        if tail:
            words.append(tail)
        return ": " + "\n".join(words) if words else ""

    def _read(self, stdout: IO[bytes]) -> None:
        """Reader thread: one event a line until the pipe ends."""
        try:
            while line := stdout.readline(_LINE_LIMIT):
                self._take(line)
        except (OSError, ValueError) as error:  # closed under us by close()
            with self._changed:
                self._heard.errors.append(f"its events could not be read: {error}")
        finally:
            with self._changed:
                self._heard.closed = True
                self._changed.notify_all()

    def _take(self, line: bytes) -> None:
        with self._changed:
            progress = self._heard.take(line)
            self._changed.notify_all()
        if progress is not None and self._on_progress is not None:
            self._on_progress(progress)


def flush_timeout_s(rows: int) -> float:
    """How long writing `rows` records may take at the end of a run, seconds."""
    return FLUSH_TIMEOUT_S + rows / ROWS_PER_S


def _in_memory(job: Mapping[str, Any]) -> int:
    """Write a job to anonymous memory; the descriptor, positioned at its start."""
    descriptor = os.memfd_create("towtank-job", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(json.dumps(job).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _exit_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
