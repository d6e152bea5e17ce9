"""An ad-hoc load against one URL: hey's options turned into the same job that experiments use."""

from __future__ import annotations

import base64
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import towtank
from towtank.design.model import ClosedLoad, Expect, Generator, Journey, OpenLoad, Request, Workload
from towtank.errors import ExitCode, TowtankError
from towtank.load.job import JobRequest, build_job
from towtank.platforms.base import Instance, Target

DEFAULT_REQUESTS = 200
DEFAULT_USERS = 50
DEFAULT_TIMEOUT_S = 20.0
DEFAULT_OPEN_S = 10.0
LONGEST_TIMEOUT_S = 3600.0
"""What `-t 0` (hey: no timeout) means: everything ends some time."""
LONGEST_S = 24 * 3600.0
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_TARGET = "target"
_TEMPLATE_MARKS = ("{{", "{%", "{#")
_OPTION_OF = (
    (re.compile(r"\.headers\.(.+)"), r"the header \1"),
    (re.compile(r"\.(?:url|path)"), "the URL"),
    (re.compile(r"\.body"), "the body"),
    (re.compile(r"\.load\b.*"), "the load that -n, -c, -q, -z and --rate ask for"),
    (re.compile(r"\.threads"), "-cpus"),
    (re.compile(r"\.timeout_us"), "-t"),
)
"""End of a path in the job → what the user wrote it as."""


class AdhocError(TowtankError):
    """The options of an ad-hoc load contradict each other or cannot be carried out."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True)
class AdhocLoad:
    """What `towtank load` was asked.

    Parameters
    ----------
    url : str
    requests : int
        Requests in all (closed), or most arrivals (open, when given).
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
    templates: bool = False
    seed: int = 0

    def workload(self) -> Workload:
        """The load model and the one-step journey.

        Raises
        ------
        AdhocError
            Options contradict each other.
        """
        _, path = self._address()
        text = str if self.templates else _literal
        headers = {name: text(value) for name, value in self.headers.items()}
        if self.method not in METHODS:
            raise AdhocError(f"-m {self.method}: allowed is one of {', '.join(METHODS)}")
        request = Request(
            name="request", method=self.method, path=text(path), headers=headers, expect=Expect(),
            body=None if self.body is None else text(self.body), timeout=None,
        )  # fmt: skip
        load = self._open() if self.rate_per_s is not None else self._closed()
        timeout = min(self.timeout_s or LONGEST_TIMEOUT_S, LONGEST_TIMEOUT_S)
        return Workload.model_validate(
            {"load": load, "journey": Journey(steps=(request,)), "timeout": f"{timeout}s"}
        )

    def job(self, output: Path) -> dict[str, Any]:
        """The engine's job; its records go to `output`."""
        base, _ = self._address()
        target = Target(_TARGET, (Instance(_TARGET, base),))
        generator = Generator.model_validate({"threads": self.threads})
        return build_job(
            JobRequest("adhoc", self.seed, output, "load", self.workload(), {_TARGET: target}, generator)
        )

    def resolve(self) -> None:
        """Look the host up, so that a mistyped one is not loaded.

        Raises
        ------
        AdhocError
            It has no address.
        """
        parts = urlsplit(self._address()[0])
        try:
            socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            raise AdhocError(
                f"{self.url!r}: the host {parts.hostname!r} has no address ({words})",
                hint="allowed is http://host[:port]/path, with a host that this machine can resolve",
            ) from error

    def _closed(self) -> ClosedLoad:
        users = self.users if self.users is not None else DEFAULT_USERS
        requests = self.requests if self.requests is not None else DEFAULT_REQUESTS
        if users < 1:
            raise AdhocError(f"-c {users}: at least one worker is needed")
        known: dict[str, Any] = {
            "model": "closed",
            "users": users,
            "graceful": f"{self.timeout_s or LONGEST_TIMEOUT_S}s",
            "session": "user" if self.keepalive else "iteration",
            "max_rate_per_user": self.rate_per_user_per_s,
        }
        if self.duration_s is not None:
            return ClosedLoad.model_validate({**known, "duration": f"{self.duration_s}s"})
        if requests < users:
            raise AdhocError(
                f"-n {requests} is less than -c {users}: each worker sends at least one request",
                hint="lower -c or raise -n",
            )
        return ClosedLoad.model_validate({**known, "iterations": requests, "duration": f"{LONGEST_S}s"})

    def _open(self) -> OpenLoad:
        rate = self.rate_per_s or 0.0
        if rate <= 0:
            raise AdhocError("--rate must be above 0/s")
        if self.rate_per_user_per_s is not None:
            raise AdhocError("-q bounds workers, but with --rate there are none", hint="leave -q away")
        if not self.keepalive:
            raise AdhocError(
                "-disable-keepalive needs workers, but with --rate arrivals share a pool of connections",
                hint="leave --rate away; -c and -q bound a load of workers",
            )
        duration = self.duration_s
        if duration is None:
            duration = min(self.requests / rate, LONGEST_S) if self.requests is not None else DEFAULT_OPEN_S
        return OpenLoad.model_validate(
            {
                "model": "open",
                "rate": rate,
                "duration": f"{duration}s",
                "arrivals": self.arrivals,
                "max_in_flight": self.users,
            }
        )

    def _address(self) -> tuple[str, str]:
        """Split the URL in what the target is and what the request asks for."""
        url = self.url if "://" in self.url else f"http://{self.url}"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise AdhocError(f"{self.url!r} is not a URL: {error}") from error
        if parts.scheme == "https":
            raise AdhocError(
                f"{self.url!r}: https cannot be loaded yet", hint="allowed is http://host[:port]/path"
            )
        if parts.scheme != "http" or not parts.hostname:
            raise AdhocError(
                f"{self.url!r} is not a URL that can be loaded; allowed is http://host[:port]/path",
                hint="write the URL last, after all options",
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        base = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
        return base, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def headers_from(
    lines: list[str], *, accept: str | None, content_type: str | None, basic: str | None, host: str | None,
    compression: bool, has_body: bool,
) -> dict[str, str]:  # fmt: skip
    """Headers as hey sends them.

    Raises
    ------
    AdhocError
        A line is not ``Name: value``.
    """
    headers = {"user-agent": f"towtank/{towtank.__version__}"}
    if compression:
        headers["accept-encoding"] = "gzip"
    if has_body or content_type is not None:
        headers["content-type"] = content_type or "text/html"
    if accept is not None:
        headers["accept"] = accept
    if host is not None:
        headers["host"] = host
    if basic is not None:
        if ":" not in basic:
            raise AdhocError("-a wants user:password")
        headers["authorization"] = "Basic " + base64.b64encode(basic.encode()).decode()
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise AdhocError(f'-H {line!r} is not a header; allowed is -H "Name: value"')
        headers[name.strip().lower()] = value.strip()
    return headers


def refusal(problems: Sequence[str]) -> AdhocError:
    """Say why the engine refuses a job in the words of who asked for the load, who never saw the job."""
    for problem in problems:
        path, colon, words = problem.partition(": ")
        if colon and path.startswith("$"):
            for pattern, option in _OPTION_OF:
                if match := pattern.search(path):
                    return AdhocError(f"{match.expand(option)} cannot be used: {words}")
            return AdhocError(f"this load cannot be driven: {words}")
    return AdhocError(f"this load cannot be driven: {'; '.join(problems) or 'the engine does not say why'}")


def _literal(text: str) -> str:
    """Keep the engine from reading template marks in what the user wants to send as it is."""
    if not any(mark in text for mark in _TEMPLATE_MARKS):
        return text
    parts = text.split("{% endraw %}")
    return "{{ '{% endraw %}' }}".join("{% raw %}" + part + "{% endraw %}" for part in parts)
