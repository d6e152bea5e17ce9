"""Asking an HTTP server: bounded answers, secrets masked, every failure a `TelemetryError` that says which server."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx

from towtank.errors import PlatformError, TelemetryError
from towtank.platforms import placeholders
from towtank.platforms.masking import Secrets
from towtank.telemetry.http.deadline import Deadline
from towtank.telemetry.http.options import ServerOptions
from towtank.units import format_bytes, format_duration

MOST_SHOWN = 300
"""Characters of an answer that an error shows."""


@dataclass(frozen=True)
class Answer:
    """What a server said, and when.

    Parameters
    ----------
    status : int
    body : bytes
    sent_ns, received_ns : int
        CLOCK_MONOTONIC around the question and the head of its answer.
    date_s : int or None
        Its Date header as Unix time.
    """

    status: int
    body: bytes
    sent_ns: int
    received_ns: int
    date_s: int | None

    @property
    def ok(self) -> bool:
        """Whether it is a 2xx."""
        return 200 <= self.status < 300

    @property
    def words(self) -> str:
        """Its beginning, for an error."""
        text = " ".join(self.body[: 4 * MOST_SHOWN].decode("utf-8", "replace").split())
        shown = "".join(c for c in text if c.isprintable())
        return shown if len(shown) <= MOST_SHOWN else shown[:MOST_SHOWN] + " …"


class Server:
    """One HTTP server that a telemetry source asks; holds its connection until `close`.

    Parameters
    ----------
    source : str
        Name of the telemetry source, for errors.
    options : ServerOptions
    root : Path
        Folder of the experiment file.

    Raises
    ------
    TelemetryError
        A secret or the file with the authorities is not there.
    """

    def __init__(self, source: str, options: ServerOptions, root: Path) -> None:
        self._source = source
        self._options = options
        self._deadline = Deadline()
        try:
            secrets = Secrets(options.secret_names(), files=options.secret_files(), root=root)
            verify = _certificates(options, root)
        except PlatformError as error:
            raise TelemetryError(f"{source} at {options.url}: {error.message}", hint=error.hint) from error
        self._secrets = secrets
        values = secrets.placeholders
        basic = options.basic
        headers = {name: placeholders.render(value, values) for name, value in options.headers.items()}
        for name, value in headers.items():
            if not value.isascii() or not value.replace("\t", "").isprintable():
                raise TelemetryError(
                    f"{self.where}: the value of header {name!r} holds a line break, a control character or one beyond "
                    "ASCII, which HTTP does not carry",
                    hint=f"look at what {options.headers[name]!r} stands for",
                )
        self._client = httpx.Client(
            headers=headers,
            auth=(basic.user, placeholders.render(basic.password, values)) if basic is not None else None,
            verify=verify,
            timeout=options.timeout,
            trust_env=False,  # no proxy between us and the server unless it is asked for
            follow_redirects=False,
        )

    @property
    def where(self) -> str:
        """What it is called in messages."""
        return f"{self._source} at {self._options.url}"

    def ask(self, path: str, parameters: Mapping[str, str | int | float] | None = None) -> Answer:
        """Ask once.

        Raises
        ------
        TelemetryError
            No answer, one that breaks off, or one that is too long or takes too long; secrets are masked.
        """
        options = self._options
        begun_ns = time.monotonic_ns()
        received_ns = None
        try:
            with (
                self._deadline.within(options.timeout),
                self._client.stream(
                    "GET",
                    options.url + path,
                    params=dict(parameters) if parameters else None,
                    extensions={"trace": self._deadline.note},
                ) as answer,
            ):
                received_ns = time.monotonic_ns()
                body = bytearray()
                for part in answer.iter_bytes():
                    body += part
                    self._check_length(len(body))
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError, RuntimeError) as error:
            if self._deadline.passed or isinstance(error, httpx.TimeoutException):
                raise self._too_slow(begun=received_ns is not None) from error
            raise self.failed(self._words(error), hint="is it up, and reachable from here?") from error
        if self._deadline.passed:  # the end of a body without a length looks the same as being cut off
            raise self._too_slow(begun=True)
        return Answer(
            answer.status_code, bytes(body), begun_ns, received_ns, _date(answer.headers.get("date"))
        )

    def json(self, answer: Answer) -> Any:  # noqa: ANN401 - whatever a server says
        """Read an answer as JSON.

        Raises
        ------
        TelemetryError
            It is none, such as when it was cut off.
        """
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise self.failed(
                f"answers status {answer.status} with something that is no JSON ({error}): {self.mask(answer.words)!r}",
                hint="is this its address? a proxy or a login page may be in between",
            ) from error

    def refused(self, answer: Answer, words: str = "") -> TelemetryError:
        """Make an error of an answer that is no 2xx."""
        hints = {
            401: "it wants credentials: give `headers` or `basic`",
            403: "it does not allow this: give other credentials in `headers` or `basic`",
            404: "is this its address? a path in front of its API belongs to `url`",
        }
        said = self.mask(words or answer.words)
        return self.failed(f"answers status {answer.status}: {said}", hint=hints.get(answer.status))

    def failed(self, what: str, *, hint: str | None = None) -> TelemetryError:
        """Make an error that names this server; secrets are masked."""
        return TelemetryError(f"{self.where} {self.mask(what)}", hint=hint)

    def mask(self, text: str) -> str:
        """Replace every secret value in a text."""
        return self._secrets.mask(text)

    def close(self) -> None:
        """Let go of the connection; harmless to repeat."""
        self._client.close()

    def _check_length(self, length: int) -> None:
        options = self._options
        if length > options.most_bytes:
            raise self.failed(
                f"sent an answer longer than {format_bytes(options.most_bytes)}, which is not read further",
                hint="ask for less (aggregate, a longer interval), or raise `most_bytes`",
            )

    def _too_slow(self, *, begun: bool) -> TelemetryError:
        time_s = format_duration(self._options.timeout)
        if begun:
            return self.failed(
                f"had not sent its whole answer after {time_s}", hint="ask for less, or raise `timeout`"
            )
        return self.failed(f"did not answer within {time_s}", hint="is it up, and reachable from here?")

    def _words(self, error: Exception) -> str:
        if isinstance(error, httpx.RemoteProtocolError):
            return f"broke off its answer: {error}"
        if isinstance(error, httpx.ConnectError):
            return f"cannot be reached: {error}"
        return f"could not be asked: {error or type(error).__name__}"


def told(error: TelemetryError) -> str:
    """An error with its hint, as one line."""
    return f"{error.message} ({error.hint})" if error.hint else error.message


def _certificates(options: ServerOptions, root: Path) -> ssl.SSLContext | bool:
    if not options.url.startswith("https:"):
        return False
    ca = options.tls.ca if options.tls is not None else None
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(root / ca))
    except (OSError, ssl.SSLError) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise PlatformError(
            f"the authorities in {ca!r} cannot be used: {words}",
            hint="`tls.ca` names a PEM file in the experiment's folder",
        ) from error
    if options.tls is not None and options.tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _date(text: str | None) -> int | None:
    """Unix time of a Date header; None when there is none that can be read."""
    try:
        return None if text is None else int(parsedate_to_datetime(text).timestamp())
    except (ValueError, TypeError, OverflowError):
        return None
