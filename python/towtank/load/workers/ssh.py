"""Workers on other machines, through the plain ssh client: its connection is theirs, and nothing else is opened."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from towtank.errors import EngineError
from towtank.load.engine import TOKEN_VARIABLE
from towtank.load.workers.places import END_GRACE_S, Link, Standing, how_ended, last_words
from towtank.platforms.base import Cancelled

_OPTIONS = (
    "BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3", "ClearAllForwardings=yes"
)  # fmt: skip
"""Never a question that nobody answers; a machine that is gone is noticed within seconds."""


class Ssh:
    """Workers on machines that ssh reaches, one after the other.

    Parameters
    ----------
    addresses : sequence of str
        ``ssh://[user@]host[:port]``; worker k is on the k-th of them, modulo their number.
    engine : Path
        This machine's engine: it is sent along, and removed when the worker ends.
    remote_engine : str, optional
        The engine that is there already; nothing is sent then.
    logs : Path
        Folder for what ssh and the workers write to stderr.
    mark : str
        Mark in the environment of the ssh clients by which `clean` knows them.
    words : sequence of str, optional
        What the engine is told there, instead of being a worker: an agent is started in the same way.
    role : str
        What it is there, for names of logs and messages.
    """

    start_timeout_s = 60.0

    def __init__(
        self,
        addresses: Sequence[str],
        engine: Path,
        *,
        remote_engine: str | None,
        logs: Path,
        mark: str,
        words: Sequence[str] | None = None,
        role: str = "worker",
    ) -> None:
        self._addresses = tuple(urlsplit(address) for address in addresses)
        self._engine = engine
        self._remote_engine = remote_engine
        self._logs = logs
        self._mark = mark
        self._told = words
        self._role = role
        self._clients: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def own_pids(self) -> tuple[int, ...]:
        """The ssh clients."""
        return tuple(client.pid for client in self._clients.values())

    def start(self, count: int, *, deadline_s: float, cancelled: Cancelled) -> Sequence[Link]:
        """Start a client for each worker, and send the engine along; see `Place.start`."""
        return [self.start_one(number, cancelled, max(1, round(deadline_s))) for number in range(count)]

    def findings(self) -> Sequence[dict[str, Any]]:
        """Nothing: what else is on those machines is not known."""
        return ()

    def close(self) -> None:
        """End all clients; their workers end with them. Idempotent."""
        until = time.monotonic() + END_GRACE_S
        for client in self._clients.values():
            try:
                client.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                client.terminate()
                client.wait()
        self._clients.clear()

    def start_one(self, number: int, cancelled: Cancelled, deadline_s: int = 0) -> Link:
        """Start the n-th of them; one that was there before has lost its connection, and ends.

        Raises
        ------
        EngineError
        """
        cancelled()
        if (before := self._clients.pop(number, None)) is not None:
            before.terminate()
            before.wait()
        address = self._addresses[number % len(self._addresses)]
        engine = b"" if self._remote_engine is not None else self._content()
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._log(number).open("ab") as log:
                self._clients[number] = subprocess.Popen(
                    [*_client(address), self._command(len(engine), deadline_s)],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=log,
                    env={**os.environ, TOKEN_VARIABLE: self._mark},
                    start_new_session=True,
                )
            ours.settimeout(self.start_timeout_s)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # why is said when it is greeted
                ours.sendall(engine)
        except OSError as error:
            ours.close()
            raise EngineError(
                f"{address.geturl()}: no {self._role} can be started there by ssh: {error.strerror or error}",
                hint="is the ssh client installed, and the machine reachable?",
            ) from error
        standing = Standing("ssh", address.hostname or "", {"address": address.geturl()})
        return Link(ours, None, standing, lambda: self._words(number))

    def _content(self) -> bytes:
        try:
            return self._engine.read_bytes()
        except OSError as error:
            raise EngineError(f"the engine {self._engine} cannot be read: {error.strerror}") from error

    def _command(self, engine_bytes: int, deadline_s: int) -> str:
        """What the shell on the other side does: take the engine from stdin, let it work, remove it."""
        words = shlex.join(self._told or ("worker", "--stdio", "--deadline-s", str(deadline_s)))
        if self._remote_engine is not None:
            return f"exec {shlex.quote(self._remote_engine)} {words}"
        folder = "" if self._told else ' --dir "$d"'
        return (
            'umask 077; d=$(mktemp -d "${TMPDIR:-/tmp}/towtank-XXXXXX") || exit 1; '
            "trap 'rm -rf \"$d\"' EXIT; trap 'exit 143' HUP INT TERM; "
            f'head -c {engine_bytes} > "$d/towtank-engine" && chmod 700 "$d/towtank-engine" && '
            f'"$d/towtank-engine" {words}{folder}'
        )

    def _words(self, number: int) -> str:
        return f"ssh: {how_ended(self._clients.get(number))}{last_words(self._log(number))}"

    def _log(self, number: int) -> Path:
        return self._logs / f"{self._role}-{number}.log"


def _client(address: SplitResult) -> list[str]:
    command = ["ssh", "-T"]
    for option in _OPTIONS:
        command += ["-o", option]
    if address.port is not None:
        command += ["-p", str(address.port)]
    if address.username:
        command += ["-l", address.username]
    return [*command, "--", address.hostname or ""]
