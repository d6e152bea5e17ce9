"""Asking a platform's REST API: bounded retries, its own reason in every error, secrets masked."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from towtank.errors import PlatformError
from towtank.units import format_duration

TIMEOUT_S = 30.0
"""Of one answer; creating an action with megabytes of code takes seconds."""
RETRIED = frozenset({429, 502, 503, 504})
"""Answers that say: later. What is asked here does the same when it is asked twice, or is found out about after."""
PATIENCE_S = 30.0
"""How long such answers are waited out, all together, for one question."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
MOST_SHOWN = 500
"""Characters of a reason."""


@dataclass(frozen=True)
class Reply:
    """What was answered, and when: times are CLOCK_MONOTONIC, `date_s` its Date header as Unix time."""

    status: int
    content: Any
    sent_ns: int
    received_ns: int
    date_s: int | None = None

    @property
    def ok(self) -> bool:
        """Whether it is a 2xx."""
        return 200 <= self.status < 300


class Refused(PlatformError):  # noqa: N818 - the platform did its work
    """The platform answered, and its answer is no.

    Parameters
    ----------
    status : int
    reason : str
        In its own words.
    """

    def __init__(self, message: str, *, status: int, reason: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.reason = reason


class RestClient:
    """One API at one address; holds its connections until `close`.

    Parameters
    ----------
    name : str
        Of the platform, for messages.
    url : str
        What paths are added to.
    client : httpx.Client
        With credentials and certificates.
    mask : callable
        Takes secrets out of a text.
    reason : callable
        What a failed answer gives as its reason: JSON (or text) → words.
    hints : mapping
        Status → what to do.
    patience_s : float
        How long 429 and the like are waited out.
    """

    def __init__(
        self,
        name: str,
        url: str,
        client: httpx.Client,
        *,
        mask: Callable[[str], str],
        reason: Callable[[Any], str],
        hints: Mapping[int, str],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.url = url
        self._name = name
        self._client = client
        self._mask = mask
        self._reason = reason
        self._hints = hints
        self._patience_s = patience_s

    @property
    def where(self) -> str:
        """What it is called in messages."""
        return f"{self._name} at {self.url}"

    def close(self) -> None:
        """Let go of the connections; harmless to repeat."""
        self._client.close()

    def ask(
        self,
        method: str,
        path: str,
        *,
        what: str,
        query: Mapping[str, str | int] | None = None,
        body: object = None,
        retried: Collection[int] = RETRIED,
        timeout_s: float = TIMEOUT_S,
    ) -> Reply:
        """Ask until there is an answer that does not say "later".

        Parameters
        ----------
        method, path : str
        what : str
            What is being done, for messages, such as ``creating the action hello``.
        query : mapping, optional
        body : object, optional
            Sent as JSON.
        retried : collection of int
            Answers that say "later": fewer for what must not be done twice.
        timeout_s : float
            Of one answer.

        Raises
        ------
        PlatformError
            No answer.
        """
        keys = {"params": dict(query) if query else None, "json": body, "timeout": timeout_s}
        until_s = time.monotonic() + self._patience_s
        pause_s = FIRST_PAUSE_S
        while True:
            reply, wait_s = self._once(method, path, what, keys)
            wait_s = min(max(wait_s, pause_s), LONGEST_PAUSE_S)
            if reply.status not in retried or time.monotonic() + wait_s > until_s:
                return reply
            time.sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def must(
        self,
        method: str,
        path: str,
        *,
        what: str,
        query: Mapping[str, str | int] | None = None,
        body: object = None,
    ) -> Any:  # noqa: ANN401 - whatever the API says
        """As `ask`; the content of an answer that is a 2xx.

        Raises
        ------
        Refused
            It is none.
        PlatformError
            No answer.
        """
        reply = self.ask(method, path, what=what, query=query, body=body)
        if not reply.ok:
            raise self.refused(reply, what)
        return reply.content

    def refused(self, reply: Reply, what: str) -> Refused:
        """Make an error of an answer: what was done, where, and the platform's own reason."""
        reason = self._mask(self._reason(reply.content))[:MOST_SHOWN] or "it gives no reason"
        later = (
            f", for {format_duration(self._patience_s)} each time it was asked" if reply.status == 429 else ""
        )
        return Refused(
            f"{what} failed: {self.where} answers {reply.status}{later}: {reason}",
            status=reply.status,
            reason=reason,
            hint=self._hints.get(reply.status),
        )

    def _once(self, method: str, path: str, what: str, keys: dict[str, Any]) -> tuple[Reply, float]:
        """One answer, and how long it asks to be left alone, s."""
        sent_ns = time.monotonic_ns()
        try:
            answer = self._client.request(method, self.url + path, **keys)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
            words = self._mask(str(error) or type(error).__name__)
            slow = isinstance(error, httpx.TimeoutException)
            did = "did not answer in time" if slow else f"cannot be reached: {words}"
            raise PlatformError(
                f"{what} failed: {self.where} {did}", hint="is this its address, and is it up?"
            ) from error
        received_ns = time.monotonic_ns()
        try:
            content = answer.json()
        except ValueError:
            content = answer.text
        reply = Reply(
            answer.status_code, content, sent_ns, received_ns, _unix_time(answer.headers.get("date"))
        )
        return reply, _seconds(answer.headers.get("retry-after"))


def said(error: PlatformError) -> str:
    """An error with its hint, as one problem."""
    return f"{error.message}; {error.hint}" if error.hint else error.message


def _seconds(text: str | None) -> float:
    """Of a Retry-After header; 0 where it names none."""
    return float(text) if text is not None and text.isdigit() else 0.0


def _unix_time(text: str | None) -> int | None:
    try:
        return None if text is None else int(parsedate_to_datetime(text).timestamp())
    except (ValueError, TypeError, OverflowError):
        return None
