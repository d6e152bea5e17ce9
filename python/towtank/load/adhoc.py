"""An ad-hoc load against one URL: hey's options turned into the same job that experiments use."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import ValidationError

from towtank.design.load_shape import LONGEST_S as MOST_DURATION_S
from towtank.design.model import ClosedLoad, Generator, Journey, OpenLoad, Request, Workload
from towtank.design.request_model import Body
from towtank.load.adhoc_headers import authorization, proxy_of
from towtank.load.adhoc_options import made
from towtank.load.adhoc_url import Address, AdhocError, read_address, shown
from towtank.load.job import JobRequest, build_job
from towtank.platforms.base import Instance, Target
from towtank.platforms.transport import Tls, Transport
from towtank.units import format_duration

DEFAULT_REQUESTS = 200
DEFAULT_USERS = 50
DEFAULT_TIMEOUT_S = 20.0
DEFAULT_OPEN_S = 10.0
SHORTEST_TIMEOUT_S = 1e-6
LONGEST_TIMEOUT_S = 1800.0
"""The engine's own bound, and what `-t 0` (hey: no timeout) means: everything ends some time."""
LOWEST_RATE_PER_USER_PER_S, HIGHEST_RATE_PER_USER_PER_S = 1e-6, 1e6
"""The engine's own bounds."""
LONGEST_S = 24 * 3600.0
POISSON_SPARE = 40.0
"""Times 1 + √n more arrivals than n make it as good as certain (all but 10⁻¹⁵) that n are due in time."""
MOST_SEED = 2**64 - 1
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TARGET, WORKLOAD = "target", "load"
"""What the only target and the only workload are called in the job."""
_TEMPLATE_MARKS = ("{{", "{%", "{#")


@dataclass(frozen=True)
class AdhocLoad:
    """What `towtank load` was asked.

    Parameters
    ----------
    url : str
    requests : int
        Requests in all (closed), or arrivals in all (open, when given).
    users : int
        Workers, each with a connection (closed).
    duration_s : float, optional
        Instead of a number of requests.
    rate_per_user_per_s : float, optional
        Bound on each worker.
    rate_per_s : float, optional
        Open load: arrivals per second, whatever the answers take.
    headers : mapping
    body : str, optional
    timeout_s : float
        Per request.
    keepalive : bool
        Reuse connections.
    redirects : int
        Followed at most, on the same host.
    proxy : str, optional
        ``host:port`` of an HTTP proxy, or a URL with http or socks5.
    http2 : bool
        HTTP/2: over TLS if the server wants it, else with prior knowledge.
    unix_socket : Path, optional
        Where to connect, instead of to the host of the URL.
    tls : Tls
        For https: which certificates are trusted, and one's own.
    body_file : Path, optional
        Sent byte for byte, instead of `body`.
    templates : bool
        ``{{ … }}`` in path, headers and body is the engine's language; else it is sent as it is.
    """

    url: str
    requests: int | None = None
    users: int | None = None
    duration_s: float | None = None
    rate_per_user_per_s: float | None = None
    rate_per_s: float | None = None
    arrivals: Literal["uniform", "poisson"] = "uniform"
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    threads: int = 1
    keepalive: bool = True
    redirects: int = 0
    proxy: str | None = None
    http2: bool = False
    unix_socket: Path | None = None
    tls: Tls = field(default_factory=Tls)
    body_file: Path | None = None
    templates: bool = False
    seed: int = 0

    def workload(self) -> Workload:
        """The load model and the one-step journey.

        Raises
        ------
        AdhocError
            Options contradict each other.
        """
        address = self._address()
        self._check_numbers()
        text = str if self.templates else _literal
        headers = {**authorization(address.user), **self.headers}
        headers = {name: text(value) for name, value in headers.items()}
        if self.method not in METHODS:
            raise AdhocError(f"-m {self.method!r}: allowed is one of {', '.join(METHODS)}")
        request = made(
            Request, name="request", method=self.method, path="/" + text(address.path.removeprefix("/")),
            headers=headers, body=self._body(text), redirects=self.redirects,
        )  # fmt: skip
        load = self._open() if self.rate_per_s is not None else self._closed()
        return made(
            Workload,
            load=load,
            journey=made(Journey, steps=(request,), cookies=False),
            timeout=f"{self.longest_s}s",
            connections={} if self.keepalive else {"policy": "new"},
        )

    @property
    def longest_s(self) -> float:
        """The timeout of each request that is meant, seconds."""
        return self.timeout_s or LONGEST_TIMEOUT_S

    def _check_numbers(self) -> None:
        """Refuse numbers that mean nothing, in the words of who wrote them."""
        # nan is refused too
        if self.timeout_s != 0 and not SHORTEST_TIMEOUT_S <= self.timeout_s <= LONGEST_TIMEOUT_S:
            raise AdhocError(
                f"-t {self.timeout_s:g}: allowed are seconds from {SHORTEST_TIMEOUT_S:f} to "
                f"{LONGEST_TIMEOUT_S:,.0f}; 0 stands for the longest"
            )
        rate = self.rate_per_user_per_s
        if rate is not None and not LOWEST_RATE_PER_USER_PER_S <= rate <= HIGHEST_RATE_PER_USER_PER_S:
            raise AdhocError(
                f"-q {rate:g}: allowed are requests per second of each worker from {LOWEST_RATE_PER_USER_PER_S:f} "
                f"to {HIGHEST_RATE_PER_USER_PER_S:,.0f}; 0 is no limit"
            )
        if self.duration_s is None and self.requests is not None and self.requests < 1:
            raise AdhocError(f"-n {self.requests}: at least one request is needed")
        if self.users is not None and self.users < 1:
            raise AdhocError(f"-c {self.users}: at least one worker is needed")
        most = Generator().max_connections
        if self.users is not None and self.users > most:
            raise AdhocError(f"-c {self.users}: each worker has a connection; allowed are at most {most:,}")
        if self.duration_s is not None and not 0 < self.duration_s <= MOST_DURATION_S:
            raise AdhocError(
                f"-z {self.duration_s:g}s: allowed is a time above 0 and up to {MOST_DURATION_S / 86400:g} days"
            )
        if not 0 <= self.seed <= MOST_SEED:
            raise AdhocError(f"--seed {self.seed}: allowed are whole numbers from 0 to 2^64 − 1")

    @property
    def base(self) -> str:
        """Where requests go: scheme, host and port, or the socket."""
        if self.unix_socket is not None:
            return f"unix:{self.unix_socket.absolute()}"
        return self._address().base

    def job(self, output: Path, run_id: str = "adhoc") -> dict[str, Any]:
        """The engine's job; its records go to `output`."""
        target = Target(TARGET, (Instance(TARGET, self.base),), transport=self.transport())
        generator = made(Generator, threads=self.threads)
        return build_job(
            JobRequest(run_id, self.seed, output, {WORKLOAD: self.workload()}, {TARGET: target}, generator)
        )

    def transport(self) -> Transport:
        """How the target is reached.

        Raises
        ------
        AdhocError
            Options contradict each other.
        """
        base = self._address().base
        is_https = base.startswith("https:")
        if not is_https and self.tls != Tls():
            raise AdhocError(f"{shown(self.url)}: --insecure, --cacert, --cert and --key are for https only")
        if self.unix_socket is not None and (is_https or self.proxy is not None):
            other = "https" if is_https else "-x"
            raise AdhocError(f"--unix-socket and {other} exclude each other")
        protocol = ("auto" if is_https else "http2") if self.http2 else "http1"
        proxy = None if self.proxy is None else proxy_of(self.proxy)
        host = urlsplit(base).netloc if self.unix_socket is not None else None
        try:
            return Transport.model_validate(
                {"protocol": protocol, "proxy": proxy, "host": host, "tls": self.tls if is_https else None}
            )
        except ValidationError as error:
            words = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise AdhocError(f"-x {shown(self.proxy or '')}: {words}") from error

    def _body(self, text: Callable[[str], str]) -> str | Body | None:
        if self.body_file is not None:
            return Body(file=str(self.body_file.absolute()))
        return None if self.body is None else text(self.body)

    def resolve(self) -> None:
        """Look the host up, so that a mistyped one is not loaded.

        Raises
        ------
        AdhocError
            It has no address.
        """
        if self.unix_socket is not None:
            try:
                found = self.unix_socket.is_socket()
            except OSError as error:  # such as a name that is too long
                raise AdhocError(f"--unix-socket {self.unix_socket}: {error.strerror}") from error
            if not found:
                raise AdhocError(f"--unix-socket {self.unix_socket}: there is no socket")
            return
        if self.proxy is not None:
            return  # the proxy may know names that this machine does not
        parts = urlsplit(self._address().base)
        try:
            socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            raise AdhocError(
                f"{shown(self.url)}: the host {parts.hostname!r} has no address ({words})",
                hint="allowed is a URL with a host that this machine can resolve",
            ) from error

    def _closed(self) -> ClosedLoad:
        users = self.users if self.users is not None else DEFAULT_USERS
        requests = self.requests if self.requests is not None else DEFAULT_REQUESTS
        known: dict[str, Any] = {
            "model": "closed",
            "users": users,
            "graceful": f"{self.longest_s}s",
            "max_rate_per_user": self.rate_per_user_per_s,
        }
        if self.duration_s is not None:
            return made(ClosedLoad, **known, duration=f"{self.duration_s}s")
        if requests < users:
            raise AdhocError(
                f"-n {requests} is less than -c {users}: each worker sends at least one request",
                hint="lower -c or raise -n",
            )
        return made(ClosedLoad, **known, iterations=requests, duration=f"{LONGEST_S}s")

    def _open(self) -> OpenLoad:
        rate = self.rate_per_s or 0.0
        if rate <= 0:
            raise AdhocError("--rate must be above 0/s")
        if self.users is not None and self.users < self.threads:
            raise AdhocError(
                f"-c {self.users} is less than -cpus {self.threads}: each thread needs a request in flight",
                hint="raise -c or lower -cpus",
            )
        if self.rate_per_user_per_s is not None:
            raise AdhocError("-q bounds workers, but with --rate there are none", hint="leave -q away")
        most = self.requests if self.duration_s is None else None
        return made(
            OpenLoad,
            model="open",
            rate=rate,
            duration=f"{self._open_s(rate)}s",
            arrivals=self.arrivals,
            max_in_flight=self.users,
            max_arrivals=most,
        )

    def _open_s(self, rate: float) -> float:
        """Length of the schedule; where -n ends the load, long enough that so many are due in it."""
        if self.duration_s is not None:
            return self.duration_s
        if self.requests is None:
            return DEFAULT_OPEN_S
        spare = 1.0 if self.arrivals == "uniform" else POISSON_SPARE * (1 + math.sqrt(self.requests))
        longest = (self.requests + spare) / rate
        if longest > MOST_DURATION_S:
            raise AdhocError(
                f"-n {self.requests} with --rate {rate:g}/s can take {format_duration(longest)}; "
                f"allowed are at most {MOST_DURATION_S / 86400:g} days",
                hint="lower -n, raise --rate, or say with -z how long",
            )
        return longest

    def _address(self) -> Address:
        return read_address(self.url)


def _literal(text: str) -> str:
    """Keep the engine from reading template marks in what the user wants to send as it is."""
    if not any(mark in text for mark in _TEMPLATE_MARKS):
        return text
    parts = text.split("{% endraw %}")
    return "{{ '{% endraw %}' }}".join("{% raw %}" + part + "{% endraw %}" for part in parts)
