"""Client of `towtank-engine guard`, the process that runs local instances and ends all of them.

The protocol is docs/formats.md §3: commands go to its stdin, events come from its stdout, and the end of its
stdin is the end of everything it runs, however Towtank itself may end.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

from towtank.errors import PlatformError
from towtank.platforms.guard_messages import Exited, GuardReady, Heard, Spawned, SpawnRequest

ANSWER_TIMEOUT_S = 10.0
"""A guard answers within milliseconds; ten seconds are those of a machine that swaps."""
CLOSE_TIMEOUT_S = 15.0
"""Time beyond the longest grace for a guard to end what it runs, itself included."""
SWEEP_TIMEOUT_S = 60.0
_STDERR_LINES = 20
_T = TypeVar("_T")


class Guard:
    """A running guard.

    Methods may be called from any thread.

    Parameters
    ----------
    binary : Path
        The engine.
    token : str
        Mark in the environment of every process it starts.
    on_exit : callable, optional
        Called from the reader thread when an instance is gone; must not block.
    """

    def __init__(self, binary: Path, token: str, *, on_exit: Callable[[Exited], None] | None = None) -> None:
        self._binary = binary
        self._token = token
        self._on_exit = on_exit
        self._process: subprocess.Popen[str] | None = None
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition()
        self._requests = threading.Lock()
        self._writing = threading.Lock()
        self._heard = Heard()
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)

    def start(self) -> GuardReady:
        """Start the guard and wait until it stands.

        Raises
        ------
        PlatformError
        """
        command = [str(self._binary), "guard", "--token", self._token, "--cgroup", cgroup_name(self._token)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # Ctrl-C on the terminal is ours to handle, not the guard's
            )
        except OSError as error:
            raise PlatformError(
                f"the guard cannot be started from {self._binary}: {error.strerror}",
                hint="build the engine again: `cargo build --release`",
            ) from error
        self._threads = [
            threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._collect, args=(self._process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return self._wait(lambda heard: heard.ready, "did not say that it is ready")

    @property
    def alive(self) -> bool:
        """False once the guard has ended, whoever ended it."""
        with self._changed:
            return self._process is not None and not self._heard.closed

    @property
    def pid(self) -> int | None:
        """Of the guard process."""
        return self._process.pid if self._process else None

    def spawn(self, request: SpawnRequest) -> Spawned:
        """Start an instance.

        Raises
        ------
        PlatformError
            It could not be started, with the reason; or the guard is gone.
        """
        with self._requests:
            with self._changed:
                self._heard.spawned.pop(request.id, None)
                self._heard.failed.pop(request.id, None)
                known_errors = len(self._heard.errors)
            self._send(request.command())

            def answer(heard: Heard) -> tuple[Spawned | None, str] | None:
                if request.id in heard.spawned:
                    return heard.spawned[request.id], ""
                refused = heard.failed.get(request.id) or "; ".join(heard.errors[known_errors:])
                return (None, refused) if refused else None

            spawned, refused = self._wait(answer, f"did not answer when {request.id} was to be started")
        if spawned is None:
            raise PlatformError(f"instance {request.id} could not be started: {refused}")
        return spawned

    def stop(self, instance: str, *, signal: str, grace_s: float) -> None:
        """Ask an instance to end; `wait_ended` waits for it."""
        self._send({"cmd": "stop", "id": instance, "signal": signal, "grace_ms": round(grace_s * 1000)})

    def signal(self, instance: str, signal: str) -> None:
        """Send a signal to every process of an instance."""
        self._send({"cmd": "signal", "id": instance, "signal": signal})

    def wait_gone(self, instance: str, timeout_s: float) -> bool:
        """Wait until an instance runs no more; False when time is up or the guard has died."""
        with self._changed:
            self._changed.wait_for(
                lambda: instance not in self._heard.running or self._heard.closed, timeout_s
            )
            return instance not in self._heard.running

    def wait_ended(self, timeout_s: float) -> bool:
        """Wait until no instance runs any more; False when time is up or the guard has died."""
        with self._changed:
            self._changed.wait_for(lambda: not self._heard.running or self._heard.closed, timeout_s)
            return not self._heard.running

    def status(self) -> Mapping[str, Mapping[str, Any]]:
        """Ask how the instances are: id → pid, running, log_bytes, oom_kills and more."""
        with self._requests:
            with self._changed:
                known = self._heard.statuses
            self._send({"cmd": "status"})
            self._wait(lambda heard: heard.statuses > known, "did not answer `status`")
            with self._changed:
                return self._heard.status

    def running(self) -> set[str]:
        """Instances that have not ended."""
        with self._changed:
            return set(self._heard.running)

    def exits(self) -> list[Exited]:
        """Instances that have ended, oldest first."""
        with self._changed:
            return list(self._heard.exits)

    def close(self, *, grace_s: float) -> bool:
        """End the guard and, through it, all that it runs.

        Returns
        -------
        bool
            False when it had to be killed or had died: then something may be left, see `sweep`.
        """
        if self._process is None:
            return True
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            clean = self._process.wait(grace_s + CLOSE_TIMEOUT_S) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            clean = False
        for thread in self._threads:
            thread.join(timeout=ANSWER_TIMEOUT_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        return clean

    def death(self) -> PlatformError:
        """Say that the guard is gone, and what it said last."""
        said = "; ".join([*self._heard.errors[-3:], *list(self._stderr)[-3:]]) or "nothing"
        return PlatformError(
            f"the guard of the local deployment (pid {self.pid}) is gone; the last it said: {said}",
            hint="what it ran was ended with it; the next run starts another one",
        )

    def _send(self, command: Mapping[str, Any]) -> None:
        if self._process is None or self._process.stdin is None or not self.alive:
            raise self.death()
        try:
            with self._writing:  # not `_changed`: the reader must go on while the guard's pipe is full
                self._process.stdin.write(json.dumps(command) + "\n")
                self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise self.death() from error

    def _wait(self, find: Callable[[Heard], _T | None], silence: str) -> _T:
        """Wait until something was heard; `find` gives something true then."""
        until = time.monotonic() + ANSWER_TIMEOUT_S
        with self._changed:
            while not (found := find(self._heard)):
                if self._heard.closed:
                    raise self.death()
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise PlatformError(
                        f"the guard (pid {self.pid}) {silence} within {ANSWER_TIMEOUT_S:g} s",
                        hint="is this machine out of memory or stopped? look with `vmstat 1`",
                    )
                self._changed.wait(left_s)
            return found

    def _listen(self, stdout: IO[str]) -> None:
        """Reader thread: every event, until the guard ends."""
        try:
            for line in stdout:
                try:
                    event = json.loads(line)
                    with self._changed:
                        ended = self._heard.take(event)
                        self._changed.notify_all()
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    with self._changed:
                        self._heard.errors.append(f"an event that is none: {line.strip()[:200]!r} ({error})")
                        self._changed.notify_all()
                    continue
                if ended is not None and self._on_exit is not None:
                    self._on_exit(ended)
        except (OSError, ValueError):
            pass  # the pipe was closed under us: the same as its end
        finally:
            with self._changed:
                self._heard.closed = True
                self._changed.notify_all()

    def _collect(self, stderr: IO[str]) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in stderr:
                self._stderr.append(line.strip()[:500])


def cgroup_name(token: str) -> str:
    """Name of the control group of a deployment."""
    return f"towtank-{token}"


def sweep(binary: Path, token: str) -> int:
    """End what a killed guard has left.

    Returns
    -------
    int
        Processes that were ended.

    Raises
    ------
    PlatformError
        The sweep did not work, with what it said.
    """
    command = [str(binary), "sweep", "--token", token, "--cgroup", cgroup_name(token)]
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SWEEP_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        for line in answer.stdout.splitlines():
            event = json.loads(line)
            if event.get("event") == "swept" and answer.returncode == 0:
                return int(event["killed"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError) as error:
        raise PlatformError(f"what a killed guard has left cannot be ended: {error}") from error
    said = (answer.stderr.strip() or answer.stdout.strip() or "nothing")[-500:]
    raise PlatformError(
        f"not everything of token {token} could be ended (exit code {answer.returncode}); the sweep said: {said}",
        hint="`towtank clean` tries again",
    )
