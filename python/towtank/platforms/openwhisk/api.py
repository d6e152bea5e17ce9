"""OpenWhisk's REST API (core/controller/src/main/resources/apiv1swagger.json), as far as an experiment needs it."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from towtank.errors import PlatformError
from towtank.platforms.masking import MASK, Secrets
from towtank.platforms.openwhisk.entities import Collection, Json
from towtank.platforms.probe import certificates
from towtank.platforms.rest import TIMEOUT_S, Reply, RestClient
from towtank.platforms.transport import Tls

PREFIX = "/api/v1"
DEFAULT_NAMESPACE = "_"
MOST_LISTED = 200
"""Of one answer; OpenWhisk gives no more."""
BLOCKING_WAIT_S = 60.0
"""How long OpenWhisk waits for a blocking call (docs/actions.md)."""
_HINTS = {
    400: "OpenWhisk does not take what it was sent: its reason names the key",
    401: "is the key that `auth` stands for this host's, and still valid? it has the form USER:KEY",
    403: "does the key belong to this namespace? `_` is the one that it belongs to",
    404: "is `url` the API host's address, without a path?",
    409: "nothing that is there already is changed or removed; remove it by hand, or give another name",
    413: "make the action's code or its parameters smaller, or let the operator raise the limit",
    429: "the namespace is over its limit of requests; wait, or let the operator raise it",
}


class Credentials:
    """The key of a namespace, and the means to keep it out of sight.

    Parameters
    ----------
    key : str
        As `USER:KEY`.
    secrets : Secrets
        Where it is from.

    Raises
    ------
    PlatformError
        It has another form.
    """

    def __init__(self, key: str, secrets: Secrets) -> None:
        user, colon, secret = key.strip().partition(":")
        if not user or not colon or not secret or not key.isascii():
            raise PlatformError(
                "the key that `auth` stands for is none of OpenWhisk's",
                hint="allowed is USER:KEY, as `wsk property get --auth` shows it",
            )
        self._secrets = secrets
        encoded = base64.b64encode(key.strip().encode()).decode()
        self._hidden = (encoded, secret)
        self.header = f"Basic {encoded}"

    def mask(self, text: str) -> str:
        """Replace the key, as it is and as it is sent, and every other secret of the deployment."""
        text = self._secrets.mask(text)
        for value in self._hidden:
            text = text.replace(value, MASK)
        return text


class Api:
    """The API of one host with one key; holds its connections until `close`.

    Parameters
    ----------
    url : str
    credentials : Credentials
    namespace : str
        `_` is that of the key.
    tls : Tls, optional
    root : Path
        Folder of the experiment file, where certificates are.

    Raises
    ------
    PlatformError
        A certificate cannot be used.
    """

    def __init__(
        self, url: str, credentials: Credentials, namespace: str, *, tls: Tls | None = None, root: Path
    ) -> None:
        try:
            verify = certificates(tls, root) if url.startswith("https:") else False
        except (OSError, ssl.SSLError) as error:
            raise PlatformError(f"the certificates for {url} cannot be used: {error}") from error
        client = httpx.Client(
            headers={"authorization": credentials.header}, verify=verify, timeout=TIMEOUT_S, trust_env=False
        )
        self.url = url
        self.namespace = namespace
        self.credentials = credentials
        self.rest = RestClient("OpenWhisk", url, client, mask=credentials.mask, reason=_reason, hints=_HINTS)

    def close(self) -> None:
        """Let go of the connections."""
        self.rest.close()

    def host(self) -> Json:
        """What the host says of itself, without a key: limits and runtimes; empty where it says nothing."""
        reply = self.rest.ask("GET", "/", what="asking the host about itself")
        return reply.content if reply.ok and isinstance(reply.content, dict) else {}

    def real_namespace(self) -> str:
        """Name of the namespace that the key may use.

        Raises
        ------
        PlatformError
            The key is not taken, or is for another namespace.
        """
        found = self.rest.must("GET", f"{PREFIX}/namespaces", what="asking for the namespaces of the key")
        names = [str(one) for one in found] if isinstance(found, list) else []
        if not names:
            raise PlatformError(f"{self.rest.where} names no namespace for the key: {str(found)[:200]!r}")
        if self.namespace != DEFAULT_NAMESPACE and self.namespace not in names:
            raise PlatformError(
                f"the key does not belong to the namespace {self.namespace!r} at {self.url}; it belongs to "
                f"{', '.join(names)}",
                hint="write that name, or `_`, or give the key of the other namespace",
            )
        return names[0] if self.namespace == DEFAULT_NAMESPACE else self.namespace

    def limits(self) -> Json:
        """Limits of the namespace; empty where this OpenWhisk does not say."""
        reply = self.rest.ask("GET", self._path("limits"), what="asking for limits")
        return reply.content if reply.ok and isinstance(reply.content, dict) else {}

    def find(self, collection: Collection, name: str) -> Json | None:
        """One entity without its code; None where there is none."""
        what = f"looking for {collection.removesuffix('s')} {name}"
        query = {"code": "false"} if collection == "actions" else None
        reply = self.rest.ask("GET", self._path(collection, name), what=what, query=query)
        if reply.status == 404:
            return None
        if not reply.ok:
            raise self.rest.refused(reply, what)
        return dict(reply.content)

    def create(self, collection: Collection, name: str, body: Mapping[str, Any]) -> Json:
        """Create an entity; one of that name must not be there.

        Raises
        ------
        Refused
            With status 409 where there is one.
        PlatformError
        """
        what = f"creating {collection.removesuffix('s')} {name}"
        found = self.rest.must(
            "PUT", self._path(collection, name), what=what, query={"overwrite": "false"}, body=body
        )
        return dict(found)

    def delete(self, collection: Collection, name: str) -> bool:
        """Delete an entity; whether it was there."""
        what = f"deleting {collection.removesuffix('s')} {name}"
        reply = self.rest.ask("DELETE", self._path(collection, name), what=what)
        if reply.status == 404:
            return False
        if not reply.ok:
            raise self.rest.refused(reply, what)
        return True

    def invoke(
        self, name: str, parameters: Mapping[str, Any], *, blocking: bool = True
    ) -> tuple[str, Json | None]:
        """Run an action: the id of its activation, and its record; None where that is not there yet.

        A blocking call that takes longer than OpenWhisk waits (60 s) is answered with the id alone, as any other.

        Raises
        ------
        PlatformError
        """
        what = f"invoking {name}"
        query = {"blocking": "true" if blocking else "false"}
        # What failed has run: only what was not let in is asked again.
        reply = self.rest.ask(
            "POST", self._path("actions", name), what=what, query=query, body=dict(parameters),
            retried=(429,), timeout_s=BLOCKING_WAIT_S + TIMEOUT_S,
        )  # fmt: skip
        content = reply.content if isinstance(reply.content, dict) else {}
        if "activationId" not in content:
            raise self.rest.refused(reply, what)
        record = content if "response" in content else None
        return str(content["activationId"]), record

    def activation(self, activation_id: str) -> Json | None:
        """A record; None while it is not there (it is written after the answer)."""
        what = f"looking for activation {activation_id}"
        reply = self.rest.ask("GET", self._path("activations", activation_id), what=what)
        if reply.status == 404:
            return None
        if not reply.ok:
            raise self.rest.refused(reply, what)
        return dict(reply.content)

    def activations(
        self, *, since_ms: int, upto_ms: int, skip: int = 0, limit: int = MOST_LISTED
    ) -> Sequence[Json]:
        """Whole records of a time, the latest first; times are Unix time of the host, ms.

        Raises
        ------
        PlatformError
        """
        query: dict[str, str | int] = {
            "since": since_ms,
            "upto": upto_ms,
            "skip": skip,
            "limit": limit,
            "docs": "true",
        }
        found = self.rest.must("GET", self._path("activations"), what="listing activations", query=query)
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def ping(self) -> Reply:
        """One cheap exchange, for its times.

        Raises
        ------
        Refused
        PlatformError
        """
        what = "asking for the time"
        reply = self.rest.ask("GET", f"{PREFIX}/namespaces", what=what)
        if not reply.ok:
            raise self.rest.refused(reply, what)
        return reply

    def _path(self, collection: str, name: str = "") -> str:
        return api_path(self.namespace, collection) + (f"/{quote(name)}" if name else "")


def api_path(namespace: str, collection: str) -> str:
    """Path of a collection."""
    return f"{PREFIX}/namespaces/{quote(namespace)}/{collection}"


def web_path(namespace: str, name: str, extension: str) -> str:
    """Path of a web action; its name has its package."""
    return f"{PREFIX}/web/{quote(namespace)}/{quote(name)}.{extension}"


def _reason(content: object) -> str:
    """OpenWhisk's own words: `error`, with the id by which its operator finds the request."""
    if not isinstance(content, dict):
        return " ".join(str(content or "").split())
    words = str(content.get("error") or content)
    return f"{words} (code {content['code']})" if content.get("code") else words
