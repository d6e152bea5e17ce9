"""Asking instances whether they are ready, one after the other, until all are or time is up."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx

from towtank.platforms.base import Cancelled, Instance, Target
from towtank.platforms.readiness import Ready
from towtank.platforms.transport import Tls, Transport

PROBE_TIMEOUT_S = 2.0
"""Of one probe; an instance that is slower under no load is not ready."""
_NAP_S = 0.02
"""Longest sleep between two looks at cancellation and at instances that died."""


@dataclass
class Waiting:
    """An instance that is not ready yet."""

    instance: Instance
    ready: Ready
    target: Target
    seen: str = "nothing yet"
    due_s: float = field(default=0.0)


class Prober:
    """Sends readiness probes; a context manager, since it holds HTTP clients.

    Parameters
    ----------
    root : Path, optional
        Folder of the experiment file, where certificates are.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or Path()
        self._clients: dict[tuple[str, str], httpx.Client] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients.values():
            client.close()

    def probe(
        self, url: str, ready: Ready, target: Target, *, timeout_s: float = PROBE_TIMEOUT_S
    ) -> str | None:
        """Ask once, in the way that requests will go.

        Returns
        -------
        str or None
            None when ready; otherwise what was seen.
        """
        proxy = target.transport.proxy
        if ready.http is None:
            return _connect(url if proxy is None else proxy.url, timeout_s)
        _, socket_path, prefix = socket_of(url)
        base = f"http://localhost{prefix}" if socket_path else url
        try:
            client = self._client(target, url, socket_path)
            server_name = server_name_of(target.transport, url)
            extensions = {"sni_hostname": server_name} if server_name else None
            answer = client.get(base + ready.http, timeout=timeout_s, extensions=extensions)
        except httpx.HTTPError as error:
            return str(error) or type(error).__name__
        except (OSError, ssl.SSLError, ImportError, ValueError) as error:
            return f"no connection could be prepared: {error}"
        if answer.is_success or answer.is_redirect:
            return None
        return f"status {answer.status_code}"

    def _client(self, target: Target, url: str, socket_path: str) -> httpx.Client:
        """One client per need of certificates: reading those costs more than a whole start."""
        key = (target.name, socket_path or url.partition(":")[0])
        if key not in self._clients:
            transport = target.transport
            host = {} if transport.host is None else {"host": transport.host}
            verify = certificates(transport.tls, self._root) if url.startswith("https:") else False
            limits = httpx.Limits(max_keepalive_connections=0)
            asked = transport.proxy
            proxy = None if asked is None else httpx.Proxy(asked.url, headers=asked.headers)
            self._clients[key] = httpx.Client(
                headers={**host, **target.headers},
                verify=verify,
                trust_env=False,  # the engine takes no proxy from the environment, so the probe must not either
                limits=limits,
                proxy=proxy,
                transport=httpx.HTTPTransport(uds=socket_path, limits=limits) if socket_path else None,
            )
        return self._clients[key]


def certificates(tls: Tls | None, root: Path) -> ssl.SSLContext:
    """What TLS is spoken with; raises OSError or ssl.SSLError where a file of it cannot be used."""

    def path_of(name: str | None) -> str | None:
        return None if name is None else str(root / name)

    context = ssl.create_default_context(cafile=path_of(tls.ca if tls else None))
    if tls is not None and tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls is not None and tls.cert is not None:
        context.load_cert_chain(str(path_of(tls.cert)), path_of(tls.key))
    return context


def socket_of(url: str) -> tuple[str, str, str]:
    """Scheme, path of the Unix socket and prefix of paths; the latter two are empty for other addresses."""
    scheme, _, rest = url.partition(":")
    if scheme != "unix":
        return scheme, "", ""
    path, _, prefix = rest.partition(":")
    return scheme, path, prefix


def server_name_of(transport: Transport, url: str) -> str | None:
    """Name that a server's certificate must have, where it is not that of the address."""
    if not url.startswith("https:"):
        return None
    if transport.tls is not None and transport.tls.server_name is not None:
        return transport.tls.server_name
    return None if transport.host is None else urlsplit(f"//{transport.host}").hostname


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
            timeout_s = min(left_s, PROBE_TIMEOUT_S)
            seen = prober.probe(item.instance.url, item.ready, item.target, timeout_s=timeout_s)
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
    _, socket_path, _ = socket_of(url)
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        if socket_path:
            with socket.socket(socket.AF_UNIX) as local:
                local.settimeout(timeout_s)
                local.connect(socket_path)
            return None
        with socket.create_connection((parts.hostname or "", port), timeout=timeout_s):
            return None
    except OSError as error:
        return error.strerror or str(error) or type(error).__name__
