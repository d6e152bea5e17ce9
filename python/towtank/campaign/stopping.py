"""Ctrl-C and SIGTERM: the first ends the current run in order, the second hurries."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self

from towtank.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S = 0.05
"""Polled, because an Event that a signal handler sets can deadlock with the thread that waits for it."""


class StopRequest:
    """Whether the user wants to stop; a context manager that listens to signals while it is entered.

    It is a `Cancelled`: waiting loops call it, and it raises `Interrupted`.
    """

    def __init__(self) -> None:
        self._asked = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            # whoever was asked to stop is about to end: a second signal must not cut its last words off
            signal.signal(number, signal.SIG_IGN if self._asked else handler)
        self._before.clear()

    def __call__(self) -> None:
        """Return quietly, or raise.

        Raises
        ------
        Interrupted
        """
        if self._asked:
            raise Interrupted(
                "stopped; the current run was put away, everything before it is kept",
                hint="the same command resumes where it stopped",
            )

    @property
    def asked(self) -> bool:
        """Somebody asked to stop."""
        return self._asked > 0

    @property
    def hurry(self) -> bool:
        """Somebody asked twice: no grace for anything that can be cut off."""
        return self._asked > 1

    def ask(self) -> None:
        """Ask to stop, as a signal does."""
        self._asked += 1

    def sleep(self, seconds: float) -> None:
        """Sleep, but not a moment longer than wanted.

        Raises
        ------
        Interrupted
        """
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self()
            time.sleep(min(left, _POLL_S))
        self()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.ask()
