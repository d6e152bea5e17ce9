"""Where workers come from: what every place has to offer, and the one that is always there, this machine."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from towtank.errors import EngineError
from towtank.load.engine import TOKEN_VARIABLE
from towtank.platforms.base import Cancelled

CONNECT_TIMEOUT_S = 5.0
END_GRACE_S = 12.0
"""A worker that is asked to end has this long to write its logs."""


@dataclass(frozen=True)
class Standing:
    """Where a worker stands, for run.json.

    Parameters
    ----------
    kind : str
        ``local``, ``ssh`` or ``cluster``.
    where : str
        For people: a machine, a node.
    facts : dict
        What else is known of the place.
    """

    kind: str
    where: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Link:
    """A way to one worker.

    Parameters
    ----------
    connection : socket
    token : str, optional
        None where the connection itself says who is there.
    standing : Standing
    words : callable
        What is known of how it ended, if it did: exit code, last words.
    """

    connection: socket.socket
    token: str | None
    standing: Standing
    words: Callable[[], str]


class Place(Protocol):
    """Where the workers of one run are."""

    start_timeout_s: float
    """All workers must be there within this."""

    def start(self, count: int, *, deadline_s: float, cancelled: Cancelled) -> Sequence[Link]:
        """Start workers and reach them; each ends by itself after `deadline_s`.

        Raises
        ------
        EngineError
            Not all of them could be reached. What was started goes with `close`.
        """

    @property
    def own_pids(self) -> tuple[int, ...]:
        """Processes on this machine that belong to the instrument."""

    def findings(self) -> Sequence[dict[str, Any]]:
        """What should be known of this place, as findings of an engine: a node shared with the system under test."""

    def close(self) -> None:
        """End all workers; what was created is gone afterwards. Idempotent."""


class Local:
    """Processes on this machine, reached over loopback.

    Parameters
    ----------
    engine : Path
    logs : Path
        Folder for what the workers write to stderr.
    mark : str
        Mark in their environment by which `clean` knows them.
    """

    start_timeout_s = 20.0

    def __init__(self, engine: Path, *, logs: Path, mark: str) -> None:
        self._engine = engine
        self._logs = logs
        self._mark = mark
        self._token = secrets.token_hex(32)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def start(self, count: int, *, deadline_s: float, cancelled: Cancelled) -> Sequence[Link]:
        """Start workers and reach them; see `Place.start`."""
        self._folder = tempfile.TemporaryDirectory(prefix="towtank-workers-")
        folder = Path(self._folder.name)
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(self._token, encoding="ascii")
        for number in range(count):
            self._spawn(number, token, folder, deadline_s)
        return [self._reach(number, cancelled) for number in range(count)]

    @property
    def own_pids(self) -> tuple[int, ...]:
        """The workers; their engines are below them."""
        return tuple(process.pid for process in self._processes)

    def findings(self) -> Sequence[dict[str, Any]]:
        """Nothing: that the load comes from this machine is said of every local run."""
        return ()

    def close(self) -> None:
        """End all workers."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + END_GRACE_S
        for process in self._processes:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._processes.clear()
        if self._folder is not None:  # a worker that was killed has left its own folder in it
            self._folder.cleanup()
            self._folder = None

    def _spawn(self, number: int, token: Path, folder: Path, deadline_s: float) -> None:
        command = [
            str(self._engine), "worker", "--listen", "127.0.0.1:0", "--token-file", str(token),
            "--dir", str(folder), "--deadline-s", str(max(1, round(deadline_s))),
        ]  # fmt: skip
        try:
            with (self._logs / f"worker-{number}.log").open("ab") as log:
                self._processes.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        env={**os.environ, TOKEN_VARIABLE: self._mark},
                        start_new_session=True,
                    )
                )
        except OSError as error:
            raise EngineError(f"the engine {self._engine} cannot be started: {error}") from error

    def _reach(self, number: int, cancelled: Cancelled) -> Link:
        cancelled()
        process = self._processes[number]
        line = process.stdout.readline() if process.stdout is not None else b""
        try:
            address = str(json.loads(line)["address"])
        except (ValueError, KeyError, TypeError) as error:
            raise EngineError(
                f"a worker on this machine did not begin to listen: {self._words(number)}"
            ) from error
        host, _, port = address.rpartition(":")
        standing = Standing("local", socket.gethostname(), {"pid": process.pid})
        return Link(connected(host, int(port)), self._token, standing, lambda: self._words(number))

    def _words(self, number: int) -> str:
        how = how_ended(self._processes[number] if number < len(self._processes) else None)
        return f"{how}{last_words(self._logs / f'worker-{number}.log')}"


def how_ended(process: subprocess.Popen[bytes] | None) -> str:
    """How a process ended, in words; one that ends is given a moment for it."""
    if process is None:
        return "it has ended"
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    code = process.returncode
    if code is None:
        return "it still runs"
    return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"


def connected(host: str, port: int) -> socket.socket:
    """Connect to a worker, or to another helper.

    Raises
    ------
    EngineError
    """
    try:
        connection = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise EngineError(f"{host}:{port} cannot be reached: {error.strerror or error}") from error
    return connection


def last_words(log: Path) -> str:
    """The end of what a worker wrote to stderr, to be put behind a message; empty when it wrote nothing."""
    try:
        text = log.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
    return f": {text[-1000:]}" if text else ""
