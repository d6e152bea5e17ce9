"""A locustfile without users: logs every request of the locustfile beside it.

Runs inside Locust, which may live in another environment than Towtank: it uses nothing but Locust and the
standard library. It writes what `locust.contrib.csv_request_logger` writes (2.44 and later), with times in µs
and a buffer that is flushed each second.
"""

from __future__ import annotations

import csv
import os
import time
from typing import Any

from locust import events  # type: ignore[import-not-found,unused-ignore]

COLUMNS = (
    "timestamp",
    "request_type",
    "name",
    "response_time_ms",
    "response_length",
    "status_code",
    "exception",
)
FLUSH_S = 1.0


class RequestLog:
    """Writes a line a request.

    Parameters
    ----------
    path : str
    """

    def __init__(self, path: str) -> None:
        # lives as long as Locust
        self._file = open(path, "w", newline="", encoding="utf-8", buffering=1 << 16)  # noqa: SIM115, PTH123
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(COLUMNS)
        self._file.flush()
        self._flushed = time.monotonic()

    def on_request(
        self,
        *,
        request_type: str,
        name: str,
        response_time: float | None = None,
        response_length: int | None = None,
        exception: object = None,
        response: Any = None,  # noqa: ANN401 - of whatever client made the request
        start_time: float | None = None,
        **_: object,
    ) -> None:
        """Listen to Locust's `request` event."""
        took_s = (response_time or 0.0) / 1000
        started = start_time if start_time is not None else time.time() - took_s
        self._writer.writerow(
            (
                f"{started:.6f}", request_type, name, "" if response_time is None else f"{response_time:.3f}",
                response_length or 0, _status(response), "" if exception is None else str(exception),
            )
        )  # fmt: skip
        now = time.monotonic()
        if now - self._flushed >= FLUSH_S:
            self._flushed = now
            self._file.flush()

    def close(self, **_: object) -> None:
        """Flush what is left."""
        self._file.close()


def _status(response: Any) -> int:  # noqa: ANN401 - of whatever client made the request
    """Status code; 0 when there was no answer."""
    try:
        return int(getattr(response, "status_code", 0) or 0)
    except (TypeError, ValueError):
        return 0


@events.init.add_listener  # type: ignore[untyped-decorator,unused-ignore]
def _begin(environment: Any, **_: object) -> None:  # noqa: ANN401 - Locust's own
    path = os.environ.get("TOWTANK_LOCUST_LOG")
    if path:
        log = RequestLog(path)
        environment.events.request.add_listener(log.on_request)
        environment.events.quit.add_listener(log.close)
