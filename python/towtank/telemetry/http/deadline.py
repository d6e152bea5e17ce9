"""A bound on the time of a whole answer: httpx bounds each read, and a head that comes in drops has many."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any


class Deadline:
    """Cuts the connection of a question when its time is up, wherever it is then.

    One question at a time. `note` belongs into the extension `trace` of the request.

    Attributes
    ----------
    passed : bool
        Whether the last question was cut off.
    """

    def __init__(self) -> None:
        self.passed = False
        self._changing = threading.Lock()
        self._stream: Any = None
        """Network stream of the last connection that was made; a kept one is asked again without a word of it."""

    def note(self, event: str, info: Mapping[str, Any]) -> None:
        """Hear of a connection; ends at once one that comes when the time is up."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            with self._changing:
                self._stream = info["return_value"]
                if self.passed:
                    self._cut()

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Bound what is done in the block."""
        self.passed = False
        timer = threading.Timer(seconds, self._time_is_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # it must not cut off the next question

    def _time_is_up(self) -> None:
        with self._changing:
            self.passed = True
            self._cut()

    def _cut(self) -> None:
        connection = None if self._stream is None else self._stream.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                connection.shutdown(socket.SHUT_RDWR)
