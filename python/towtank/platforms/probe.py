"""Asking instances whether they are ready, one after the other, until all are or time is up."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx

from towtank.platforms.base import Cancelled, Instance
from towtank.platforms.readiness import Ready

PROBE_TIMEOUT_S = 2.0
"""Of one probe; an instance that is slower under no load is not ready."""
_NAP_S = 0.02
"""Longest sleep between two looks at cancellation and at instances that died."""


@dataclass
class Waiting:
    """An instance that is not ready yet."""

    instance: Instance
    ready: Ready
    seen: str = "nothing yet"
    due_s: float = field(default=0.0)


class Prober:
    """Sends readiness probes; a context manager, since it holds an HTTP client.

    Parameters
    ----------
    headers : mapping
        Sent with HTTP probes.
    """

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._headers = dict(headers or {})
        self._clients: dict[bool, httpx.Client] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.close()

    def probe(self, url: str, ready: Ready, *, timeout_s: float = PROBE_TIMEOUT_S) -> str | None:
        """Ask once.

        Returns
        -------
        str or None
            None when ready; otherwise what was seen.
        """
        if ready.http is None:
            return _connect(url, timeout_s)
        try:
            answer = self._client(url).get(url + ready.http, timeout=timeout_s)
        except httpx.HTTPError as error:
            return str(error) or type(error).__name__
        if answer.is_success or answer.is_redirect:
            return None
        return f"status {answer.status_code}"

    def _client(self, url: str) -> httpx.Client:
        """One client per need of certificates: reading those costs more than a whole start."""
        tls = url.startswith("https:")
        if tls not in self._clients:
            self._clients[tls] = httpx.Client(
                headers=self._headers,
                verify=tls,
                trust_env=False,  # the engine uses no proxy, so the probe must not either
                limits=httpx.Limits(max_keepalive_connections=0),
            )
        return self._clients[tls]


def wait_until_ready(
    waiting: Sequence[Waiting],
    *,
    prober: Prober,
    cancelled: Cancelled,
    watch: Callable[[], None],
    give_up: Callable[[Waiting], Exception],
) -> None:
    """Probe until every instance is ready.

    Parameters
    ----------
    waiting : sequence of Waiting
    prober : Prober
    cancelled : Cancelled
    watch : callable
        Called between probes; raises when waiting makes no sense any more.
    give_up : callable
        Makes the exception for an instance whose time is up.
    """
    begin = time.monotonic()
    pending = list(waiting)
    while pending:
        for item in list(pending):
            cancelled()
            watch()
            now = time.monotonic()
            left_s = begin + item.ready.timeout - now
            if left_s <= 0:
                raise give_up(item)
            if now < item.due_s:
                continue
            seen = prober.probe(item.instance.url, item.ready, timeout_s=min(left_s, PROBE_TIMEOUT_S))
            if seen is None:
                pending.remove(item)
            else:
                item.seen = seen
                item.due_s = time.monotonic() + item.ready.interval
        if pending:
            pause_s = min(item.due_s for item in pending) - time.monotonic()
            time.sleep(min(max(pause_s, 0.0), _NAP_S))
    watch()


def _connect(url: str, timeout_s: float) -> str | None:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=timeout_s):
            return None
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__
