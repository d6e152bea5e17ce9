"""The ingress of one component: a process with pipes, started, told and listened to."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from towtank.errors import PlatformError
from towtank.platforms.launch import inherited
from towtank.platforms.ports import LOOPBACK
from towtank.platforms.scaling.seam import PROTOCOL

READY_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 10.0
INSTANCE_HEADER = "x-instance"
HELD_HEADER = "x-towtank-held-us"
COLD_HEADER = "x-towtank-cold"
Heard = Callable[[Mapping[str, Any]], None]


class Ingress:
    """A running ingress; it ends with its stdin, however Towtank ends.

    Parameters
    ----------
    binary : Path
    name : str
        Of the component.
    token : str
        Mark in its environment by which `clean` knows it.
    log : Path
        Its stderr.
    heard : callable
        Called with every event but `ready`, from the reader thread; must not block.
    """

    def __init__(self, binary: Path, name: str, *, token: str, log: Path, heard: Heard) -> None:
        self._binary = binary
        self._name = name
        self._token = token
        self._log = log
        self._heard = heard
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._ready: Mapping[str, Any] | None = None
        self._answered = threading.Event()
        self._over = threading.Event()
        self._writing = threading.Lock()

    def start(self, port: int, *, grace_s: float) -> None:
        """Start it and wait until it listens.

        Parameters
        ----------
        port : int
            Free one on loopback.
        grace_s : float
            How long what is in flight may take at the end.

        Raises
        ------
        PlatformError
        """
        command = [
            str(self._binary), "--listen", f"{LOOPBACK}:{port}", "--grace-ms", str(round(grace_s * 1000)),
            "--instance-header", INSTANCE_HEADER, "--held-header", HELD_HEADER, "--cold-header", COLD_HEADER,
        ]  # fmt: skip
        with self._log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                    encoding="utf-8", errors="replace", env={**inherited(), "TOWTANK_TOKEN": self._token},
                    start_new_session=True,  # Ctrl-C on the terminal is ours to handle
                )  # fmt: skip
            except OSError as error:
                raise PlatformError(
                    f"the ingress of {self._name} cannot be started from {self._binary}: {error.strerror}"
                ) from error
        self._reader = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        if not self._answered.wait(READY_TIMEOUT_S) or self._ready is None:
            self.close(grace_s=0)
            raise PlatformError(
                f"the ingress of {self._name} did not come up on port {port}",
                hint=f"its words are in {self._log}",
            )
        if self._ready.get("protocol") != PROTOCOL:
            self.close(grace_s=0)
            raise PlatformError(
                f"{self._binary} speaks protocol {self._ready.get('protocol')!r}; Towtank speaks {PROTOCOL}",
                hint="build both from the same version",
            )

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and not self._over.is_set()

    @property
    def identity(self) -> tuple[int, int] | None:
        """Its pid and start time in ticks; None when it is gone."""
        pid = self._process.pid if self._process is not None else 0
        try:
            fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            return None
        return pid, int(fields[19])

    def facts(self) -> dict[str, Any]:
        """What it says of itself."""
        ready = self._ready or {}
        return {key: ready[key] for key in ("pid", "version", "build", "listen") if key in ready}

    def send(self, **command: Any) -> None:  # noqa: ANN401 - of any field
        """Tell it something; one that is gone is noticed by its reader."""
        process = self._process
        if process is None or process.stdin is None:
            return
        with self._writing, contextlib.suppress(OSError, ValueError):
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()

    def close(self, *, grace_s: float) -> None:
        """End it; what is in flight has its grace. Harmless when repeated."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError, ValueError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(grace_s + CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._reader is not None:
            self._reader.join(CLOSE_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()

    def _listen(self, stdout: IO[str] | None) -> None:
        """Reader thread: every event, until the ingress ends."""
        with contextlib.suppress(ValueError, OSError):  # closed under us
            for line in stdout or ():
                with contextlib.suppress(json.JSONDecodeError):
                    event = json.loads(line)
                    if event.get("event") == "ready":
                        self._ready = event
                        self._answered.set()
                    else:
                        self._heard(event)
        self._over.set()
        self._answered.set()
