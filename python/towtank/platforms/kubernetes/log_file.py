"""The log of one container on this machine: its first lines kept, all bytes counted, and when they came.

The files are those that the guard writes of local instances (docs/formats.md, section 3): a log, and beside it the
times of its output. So everything that reads logs of a run reads these.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Literal

from towtank.platforms.kubernetes.log_stream import LogLine
from towtank.platforms.masking import Secrets

NOTED_EVERY_NS = 50_000_000
"""Times are noted this often; what lies between two of them came up to so much before the second."""


class ContainerLog:
    """Where the lines of a container go.

    Parameters
    ----------
    path : Path
        Begun anew.
    limit : int
        Bytes that are kept.
    secrets : Secrets
        Taken out of every line before it is written.
    """

    def __init__(self, path: Path, limit: int, secrets: Secrets) -> None:
        self.path = path
        self.written = 0
        """Bytes of output."""
        self.kept = 0
        self._cut = 0
        self._limit = limit
        self._secrets = secrets
        self._here_ns: Callable[[int], int] = int
        self._lock = threading.Lock()
        self._lines = 0
        self._ends_line = True
        self._since_ns: int | None = None
        self._last_ns = 0
        self._noted_ns = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._closed = False
        self._log, self._times = self._open("wb")

    @property
    def full(self) -> bool:
        """Whether nothing more is kept."""
        return self.kept >= self._limit

    def _open(self, mode: Literal["wb", "ab"]) -> tuple[BinaryIO, BinaryIO]:
        log = self.path.open(mode)
        try:
            return log, self.path.with_name(self.path.name + ".times").open(mode)
        except OSError:
            log.close()
            raise

    def _reopen(self) -> None:
        """Go on in files that were let go of."""
        if self._log.closed and not self._closed:
            self._log, self._times = self._open("ab")

    def written_on(self, here_ns: Callable[[int], int]) -> None:
        """From here on stamps are of this node: from its time of day to CLOCK_MONOTONIC of this machine."""
        with self._lock:
            if not self._log.closed:
                self._note()
            self._here_ns = here_ns

    def take(self, line: LogLine) -> None:
        """Keep a line as far as there is room, and count it.

        Raises
        ------
        OSError
            It cannot be written.
        """
        with self._lock:
            if self._closed:  # by somebody who waited no longer, and has said so
                return
            self._reopen()
            if self._since_ns is not None and line.t_ns - self._since_ns > NOTED_EVERY_NS:
                self._note()
            if self._since_ns is None:
                self._since_ns = line.t_ns
            self._last_ns = max(self._last_ns, line.t_ns)
            self.written += line.size
            if not line.text or self.full:
                self._cut += line.size
            else:
                self._keep(line)

    def _keep(self, line: LogLine) -> None:
        whole = line.size == len(line.text)
        safe = self._secrets.mask_line(line.text, whole=whole)
        safe = safe if whole else safe + b"\n"
        masked = safe[: self._limit - self.kept]
        self._cut += len(safe) - len(masked) + line.size - len(line.text)
        self._log.write(masked)
        self.kept += len(masked)
        self._lines += masked.count(b"\n")
        self._ends_line = masked.endswith(b"\n")
        if self.full and not self._ends_line:  # no more of it comes
            self._lines += 1

    def _note(self) -> None:
        """Write down how far it is; instants never go back, whatever a node's clock does."""
        if self._since_ns is None:
            return
        self._noted_ns = max(self._noted_ns, self._here_ns(self._last_ns))
        self._times.write(b"%d %d %d\n" % (self._noted_ns, self.written, self._lines))
        self._since_ns = None

    def end_life(self) -> None:
        """The container has ended: what another life of it writes begins on a line of its own."""
        with self._lock:
            if not self._ends_line and not self.full and not self._closed:
                self._reopen()
                self._log.write(b"\n")
                self._lines += 1
                self._ends_line = True

    def flush(self) -> None:
        """Write everything out that was taken."""
        with self._lock:
            if not self._log.closed:
                self._note()
                self._log.flush()
                self._times.flush()

    def let_go(self) -> None:
        """Write everything out and leave the files alone, until more comes."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        try:
            if not self._log.closed:
                self._note()
        finally:
            try:
                self._log.close()
            finally:
                self._times.close()

    def close(self) -> None:
        """Say in the log what was cut, and let go of it for good."""
        with self._lock:
            if self._closed:
                return
            if self._cut:
                self._reopen()
            self._closed = True
            if self._cut:
                newline = b"" if self._ends_line else b"\n"
                said = f"[towtank: {self._cut} more bytes of output were cut at {self._limit} bytes]\n"
                self._log.write(newline + said.encode())
            self._let_go()
