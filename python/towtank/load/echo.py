"""The engine's own small server on loopback, a process of its own: what its ceiling is measured against."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from pathlib import Path
from typing import Self

from towtank.errors import EngineError
from towtank.load.engine import TOKEN_VARIABLE

_READY_TIMEOUT_S = 10.0
_END_TIMEOUT_S = 5.0


class EchoServer:
    """`towtank-engine serve`: answers every request on a free port with the same short body.

    Use as a context manager: leaving it ends the process, and so does the end of this process.

    Parameters
    ----------
    binary : Path
    core : int, optional
        CPU that it is pinned to.
    token : str
        Mark in its environment by which `clean` knows it.
    """

    def __init__(self, binary: Path, *, core: int | None, token: str) -> None:
        self._binary = binary
        self._core = core
        self._token = token
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        try:
            self._process = subprocess.Popen(
                [str(self._binary), "serve"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env={**os.environ, TOKEN_VARIABLE: self._token}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise EngineError(f"the engine {self._binary} cannot be started: {error}") from error
        try:
            self._await()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _await(self) -> None:
        """Read where it listens, then give it its core: until then it had nothing to do."""
        process = self._process
        if process is None or process.stdout is None:
            raise EngineError("the server was started without a pipe for what it says")
        waiting, _, _ = select.select([process.stdout], [], [], _READY_TIMEOUT_S)
        line = process.stdout.readline() if waiting else b""
        try:
            event = json.loads(line or b"{}")
            self.port = int(event["port"])
        except (ValueError, KeyError, TypeError) as error:
            said = line.decode(errors="replace").strip() or "nothing"
            raise EngineError(
                f"`{self._binary} serve` did not say where it listens; it said {said[:200]!r}",
                hint="Towtank and its engine are of different versions? Build or install the engine again",
            ) from error
        if self._core is not None:
            os.sched_setaffinity(process.pid, {self._core})

    def cpu_s(self) -> float:
        """User and system CPU of its serving thread so far, seconds."""
        if self._process is None:
            return 0.0
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise EngineError(f"the server against which the engine is measured has gone: {error}") from error
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End it. Idempotent."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None and not process.stdin.closed:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_END_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()
        self._process = None
