"""Talking to the API server of one named context: plain JSON objects in and out, refusals as errors in words.

lightkube brings what is hard about reaching a cluster (contexts, certificates, tokens, exec plug-ins). Its typed
models are left aside on purpose: they drop fields that they do not know, and what an author wrote must arrive whole.
"""

from __future__ import annotations

import base64
import http
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

import httpx2
from lightkube import ConfigError
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import User

from towtank.errors import PlatformError

Json = dict[str, Any]
T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0
RETRY_FOR_S = 20.0
"""An API server that is restarted is away for seconds; what may safely be asked twice is."""
_RETRY_PAUSE_S = 0.5
_NOT_LET_IN = {429}
"""The server had too much to do, and did not begin (API priority and fairness)."""
_BUSY = {*_NOT_LET_IN, 502, 503, 504}
_NO_CREDENTIALS = (ConfigError, FileNotFoundError, PermissionError, json.JSONDecodeError, KeyError, TypeError)
"""What a program that is to give a token ends in when it fails, is not there, or prints something else."""
_NETWORK = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError, RuntimeError)
PAGE = 500
"""Objects in one answer to a list: 5,000 pods in one answer would be 50 MB."""


class ApiError(PlatformError):
    """The API server refused.

    Parameters
    ----------
    message : str
    code : int
        HTTP status.
    reason : str
        The server's word for it, such as AlreadyExists.
    said : str
        What the server said, alone.
    """

    def __init__(self, message: str, *, code: int, reason: str, said: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.reason = reason
        self.said = said


class Unreachable(PlatformError):  # noqa: N818 - the field's word
    """The API server did not answer."""


class Lines:
    """Lines of an answer that goes on until the server or another thread ends it."""

    def __init__(self, answer: httpx2.Response, failed: Callable[[Exception], PlatformError]) -> None:
        self._answer = answer
        self._failed = failed

    def __iter__(self) -> Iterator[str]:
        return self._told(self._answer.iter_lines())

    def pieces(self) -> Iterator[bytes]:
        """The same as bytes, in pieces as they come: a log may be no text, and its lines as long as they like."""
        return self._told(self._answer.iter_bytes())

    def _told(self, parts: Iterator[T]) -> Iterator[T]:
        """Only what goes wrong here is the network's: who takes a part may meet a full disk."""
        try:
            yield from parts
        except _NETWORK as error:
            raise self._failed(error) from error

    def end(self) -> None:
        """Wake whoever waits for a line, from another thread: closing a socket alone would not."""
        network = self._answer.extensions.get("network_stream")
        held = network.get_extra_info("socket") if network is not None else None
        if held is not None:
            with suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)


class ApiClient:
    """Requests to one API server. Safe to use from several threads.

    Parameters
    ----------
    config : SingleConfig
        The context, as `kubeconfig.find_context` gives it.
    transport : httpx2.BaseTransport, optional
        For tests.

    Raises
    ------
    PlatformError
        Certificates or credentials of the context cannot be used.
    """

    def __init__(self, config: SingleConfig, transport: httpx2.BaseTransport | None = None) -> None:
        self._config, self._transport = config, transport
        self.context = config.context_name
        self.server = config.cluster.server
        if config.user is None:
            config = config._replace(user=User())
        self._timeout = httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        parameters = client_adapter.ConnectionParams(
            timeout=self._timeout, trust_env=False, transport=transport
        )
        try:
            self._http = client_adapter.Client(config, parameters)
        except (ConfigError, OSError, ValueError, TypeError) as error:
            raise PlatformError(
                f"the context {self.context!r} cannot be used: its certificates or credentials are broken: {error}",
                hint=f"`kubectl --context {self.context} get namespaces` should work first",
            ) from error
        self._closed = threading.Event()

    def opened(self) -> ApiClient:
        """This one; where it was closed, another one of the same context: removing is tried again with it."""
        return ApiClient(self._config, self._transport) if self._closed.is_set() else self

    def close(self) -> None:
        """Close all connections; watches end."""
        self._closed.set()
        self._http.close()

    # --- what may be asked twice -----------------------------------------------------------------------------

    def get(self, path: str, **params: str) -> Json:
        """Read an object, or whatever else answers JSON.

        Raises
        ------
        ApiError, Unreachable
        """
        return self._again(lambda: self._json("GET", path, params=params))

    def find(self, path: str, **params: str) -> Json | None:
        """Read an object; None where there is none."""
        try:
            return self.get(path, **params)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def text(self, path: str, **params: str) -> str:
        """Read a text, such as a log."""
        answer = self._again(lambda: self._send("GET", path, params=params))
        return answer.content.decode("utf-8", errors="replace")

    def glance(self, path: str, *, timeout_s: float, **params: str) -> bytes:
        """Read what is only of use at once, such as a sample: asked one time, and not waited for longer.

        Raises
        ------
        ApiError, Unreachable
        """
        return self._send("GET", path, params=params, timeout_s=timeout_s).content

    def date(self, path: str, *, timeout_s: float) -> str:
        """The Date header of an answer, empty where it has none; asked one time.

        Raises
        ------
        ApiError, Unreachable
        """
        return str(self._send("GET", path, timeout_s=timeout_s).headers.get("date", ""))

    def pages(self, path: str, **params: str) -> Iterator[tuple[Sequence[Json], str]]:
        """All objects of a collection, page by page, each with the version at which it was read."""
        params = {**params, "limit": str(PAGE)}
        while True:
            page = self.get(path, **params)
            meta = page.get("metadata") or {}
            yield page.get("items") or [], str(meta.get("resourceVersion", ""))
            if not meta.get("continue"):
                return
            params["continue"] = meta["continue"]

    def list(self, path: str, **params: str) -> tuple[list[Json], str]:
        """All objects of a collection, and the version at which they were read."""
        found: list[Json] = []
        version = ""
        for page, at in self.pages(path, **params):
            found += page
            version = at
        return found, version

    def delete(self, path: str, uid: str, *, grace_s: int | None = None) -> bool:
        """Delete an object if it is still the one with this UID; whether there was one.

        Its dependents go first, so that it is gone only when they are.
        """
        body: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Foreground",
        }
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        try:
            self._again(lambda: self._json("DELETE", path, body=body))
        except ApiError as error:
            if error.code == 404:
                return False
            if error.code == 409 and "uid" in error.said.lower():
                return False  # somebody else's object has taken the name meanwhile
            raise
        return True

    # --- what is done once ----------------------------------------------------------------------------------

    def create(self, path: str, body: Json, *, dry_run: bool = False) -> Json:
        """Create an object; one that exists already, or has a field that its kind has not, is an error.

        Without being asked to be strict the server drops fields that it does not know: a patch with a typing error
        would change nothing.
        """
        params = {"fieldManager": "towtank", "fieldValidation": "Strict"}
        asked = {**params, "dryRun": "All"} if dry_run else params
        return self._again(lambda: self._json("POST", path, params=asked, body=body), unless_done=True)

    def replace(self, path: str, body: Json) -> Json:
        """Write an object back as it was read and changed."""
        params = {"fieldManager": "towtank"}
        return self._again(lambda: self._json("PUT", path, params=params, body=body), unless_done=True)

    @contextmanager
    def stream(self, path: str, params: Mapping[str, str], *, read_timeout_s: float) -> Iterator[Lines]:
        """Lines of an answer that goes on: a watch.

        Raises
        ------
        ApiError, Unreachable
        """
        timeout = httpx2.Timeout(read_timeout_s, connect=CONNECT_TIMEOUT_S)
        open_now = ExitStack()
        try:
            with self._asking():
                going = self._http.stream("GET", path.lstrip("/"), params=dict(params), timeout=timeout)
                answer = open_now.enter_context(going)
                if answer.is_error:
                    answer.read()
            if answer.is_error:
                self._refuse("GET", path, answer)
            yield Lines(answer, self._unreachable)
        finally:
            with suppress(*_NETWORK):  # everything was read, or nobody wants the rest
                open_now.close()

    def upgrade(self, path: str, subprotocol: str, **params: str) -> httpx2.Response:
        """Turn a connection to the API server into a WebSocket; it is the caller's, who closes the answer.

        Raises
        ------
        ApiError, Unreachable
        """
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(secrets.token_bytes(16)).decode(),
            "Sec-WebSocket-Protocol": subprotocol,
        }
        request = self._http.build_request(
            "GET", path.lstrip("/"), params=params, headers=headers, timeout=self._timeout
        )
        with self._asking():
            answer = self._http.send(request, stream=True)
            is_refused = answer.status_code != http.HTTPStatus.SWITCHING_PROTOCOLS
            if is_refused:
                answer.read()
                answer.close()
        if is_refused:
            self._refuse("GET", path, answer)
        return answer

    def _json(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Json:
        answer = self._send(method, path, params=params, body=body)
        try:
            found = answer.json()
        except ValueError as error:
            raise ApiError(
                f"{method} {path} at {self.server} was answered with something that is not JSON",
                code=answer.status_code, reason="NotJson", said=answer.text[:200],
                hint=f"is {self.server} really the API server of context {self.context!r}?",
            ) from error  # fmt: skip
        return found if isinstance(found, dict) else {"items": found}

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json | None = None,
        timeout_s: float | None = None,
    ) -> httpx2.Response:
        headers = {"Accept": "application/json"} if "/log" not in path and "/proxy/" not in path else {}
        timeout = self._timeout if timeout_s is None else httpx2.Timeout(timeout_s)
        with self._asking():
            answer = self._http.request(
                method, path.lstrip("/"), params=dict(params or {}), json=body, headers=headers, timeout=timeout
            )  # fmt: skip
        if answer.is_error:
            self._refuse(method, path, answer)
        return answer

    def _refuse(self, method: str, path: str, answer: httpx2.Response) -> None:
        try:
            status = answer.json()
        except ValueError:
            status = {}
        status = status if isinstance(status, dict) else {}
        said = str(status.get("message") or answer.text[:300].strip() or answer.reason_phrase)
        code, reason = answer.status_code, str(status.get("reason") or answer.reason_phrase)
        hint = None
        if code == 401:
            said += f" (the credentials of context {self.context!r} are not accepted: expired, or of another cluster)"
            hint = "log in anew, then repeat the command"
        elif code == 403:
            hint = (
                f"`towtank doctor --context {self.context}` lists the rights that are missing; "
                "docs/kubernetes.md grants them"
            )
        raise ApiError(f"{method} {path}: {said}", code=code, reason=reason, said=said, hint=hint)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Tell what goes wrong on the way to the server in our words."""
        try:
            yield
        except _NO_CREDENTIALS as error:
            raise self._no_credentials(error) from error
        except _NETWORK as error:
            raise self._unreachable(error) from error

    def _no_credentials(self, error: Exception) -> PlatformError:
        words = (
            str(error)
            if isinstance(error, ConfigError | OSError)
            else f"what it printed is no ExecCredential: {error!r}"
        )
        return PlatformError(
            f"context {self.context!r}: its credentials could not be had: {words}",
            hint=f"`kubectl --context {self.context} get namespaces` should work first",
        )

    def _unreachable(self, error: Exception) -> Unreachable:
        words = str(error) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in words:
            return Unreachable(
                f"what answers at {self.server}, the API server of context {self.context!r}, is not known: {words}",
                hint="it may be another cluster than the one that the kubeconfig was made for: fetch it anew",
            )
        return Unreachable(
            f"the API server of context {self.context!r} at {self.server} does not answer: {words}",
            hint="is the cluster up, and reachable from here?",
        )

    def _again(self, ask: Callable[[], T], *, unless_done: bool = False) -> T:
        """Ask until it is answered: what is asked this way does no harm when it is asked twice.

        With `unless_done` it would: then it is asked again only after a 429, by which nothing was done.
        """
        later = _NOT_LET_IN if unless_done else _BUSY
        until = time.monotonic() + RETRY_FOR_S
        while True:
            try:
                return ask()
            except Unreachable:
                if unless_done or time.monotonic() >= until or self._closed.is_set():
                    raise
            except ApiError as error:
                if error.code not in later or time.monotonic() >= until or self._closed.is_set():
                    raise
            self._closed.wait(_RETRY_PAUSE_S)


def parse_event(line: str) -> tuple[str, Json]:
    """One line of a watch: what happened, and to which object.

    Raises
    ------
    ApiError
        The server ended the watch, perhaps in the middle of a line; code 410 means that it has to begin anew.
    """
    try:
        event = json.loads(line)
    except ValueError as error:
        raise ApiError("watch: a line was cut off", code=500, reason="NotJson", said=line[:100]) from error
    kind, thing = str(event.get("type")), event.get("object") or {}
    if kind == "ERROR":
        said = str(thing.get("message", ""))
        raise ApiError(
            f"watch: {said}", code=int(thing.get("code") or 500), reason=str(thing.get("reason")), said=said
        )
    return kind, thing
