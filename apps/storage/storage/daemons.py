"""The processes of a backend: started with a log each, waited for until they answer, ended in reverse."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from storage.errors import StorageError

POLL_S = 0.1
END_S = 5.0
"""What daemons get between SIGTERM and SIGKILL."""
COMMAND_S = 60.0
"""No single command of a set-up takes longer on a busy machine; beyond it something hangs."""
UNMOUNT_S = 15.0
LAST_LINES = 8


class Daemons:
    """Running processes of one backend.

    Parameters
    ----------
    logs : Path
        Folder of their logs, one file each.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, *command: str | Path) -> None:
        """Start one in the foreground of this group; its output goes to its log.

        Raises
        ------
        StorageError
            The program is missing.
        """
        with (self._logs / f"{name}.log").open("ab") as log:
            try:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            except FileNotFoundError:
                raise missing_program(str(command[0])) from None
        self._running.append((name, process))

    def ended(self) -> str | None:
        """Name of a daemon that is not running any more, if there is one."""
        return next((name for name, process in self._running if process.poll() is not None), None)

    def wait_for(self, what: str, answers: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `answers` says yes.

        Raises
        ------
        StorageError
            A daemon ended meanwhile, or the time is over; with the last lines of logs.
        """
        deadline = time.monotonic() + timeout_s
        while not answers():
            gone = self.ended()
            if gone:
                raise StorageError(f"{gone} ended before {what}: {self.last_words(gone)}")
            if time.monotonic() > deadline:
                words = "; ".join(f"{name}: {self.last_words(name)}" for name, _ in self._running)
                raise StorageError(f"no sign of {what} within {timeout_s:g} s. Last words: {words}")
            time.sleep(POLL_S)

    def last_words(self, name: str) -> str:
        """The end of a daemon's log, on one line."""
        text = (self._logs / f"{name}.log").read_text("utf-8", "replace")
        return " | ".join(line.strip() for line in text.strip().splitlines()[-LAST_LINES:]) or "nothing"

    def unmount_and_end(self, mount: Path) -> None:
        """Unmount, which writes back what is cached, then end all.

        Raises
        ------
        StorageError
            Something still uses the mount; all are ended even so.
        """
        try:
            if self.ended() is None:  # else a client may wait for it; the mount goes with the namespace
                unmount(mount)
        finally:
            self.end()

    def end(self) -> None:
        """End all at once; together they get some time to close their files."""
        for _, process in self._running:
            process.terminate()
        deadline = time.monotonic() + END_S
        while self._running:
            _, process = self._running.pop()
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def unmount(mount: Path) -> None:
    """Unmount, if it is mounted; what is cached is written back.

    Raises
    ------
    StorageError
        Something still uses it.
    """
    if os.path.ismount(mount):  # is_mount raises when the client behind it has ended
        run("umount", mount, timeout_s=UNMOUNT_S)


def run(*command: str | Path, timeout_s: float = COMMAND_S, stdin: bytes = b"") -> str:
    """Run a command of a set-up and return what it printed.

    Raises
    ------
    StorageError
        It is missing, fails, or does not end in time.
    """
    words = " ".join(str(word) for word in command[:4])
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout_s, check=False)
    except FileNotFoundError:
        raise missing_program(str(command[0])) from None
    except subprocess.TimeoutExpired:
        raise StorageError(f"`{words}` did not end within {timeout_s:g} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise StorageError(f"`{words}` failed with exit code {done.returncode}: {said[-500:]}")
    return done.stdout.decode("utf-8", "replace")


def missing_program(name: str) -> StorageError:
    """The error for a program that is not installed."""
    return StorageError(f"{name} is not installed; `tools/system-packages.sh storage` installs what it needs")
