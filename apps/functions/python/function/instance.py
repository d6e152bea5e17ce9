"""One instance of the function, as func-python's runtime calls it: an ASGI application."""

from __future__ import annotations

import json
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from cloudevents.core.bindings.http import HTTPMessage, from_http, to_binary_event
from cloudevents.core.exceptions import BaseCloudEventException
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from function.work import RefusedError, Work, work_of_data, work_of_query

BEGAN = time.monotonic()
MAX_BODY_BYTES = 1 << 20
EVENT_TYPE = "application/cloudevents+json"
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class Instance:
    """Answers every request.

    Parameters
    ----------
    variables : mapping
        The environment.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.name = _name(variables)
        self._was_asked = False

    async def handle(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_cold, self._was_asked = not self._was_asked, True
        told = [(b"x-instance", self.name.encode()), (b"x-cold-start", str(is_cold).lower().encode())]
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        body = await _read(receive)
        if body is None:
            await _reply(send, 413, {"error": "a body may have 1 MiB"}, [*told, (b"connection", b"close")])
            return
        try:
            if "ce-specversion" in headers or headers.get("content-type", "").startswith(EVENT_TYPE):
                asked = work_of_data(_event(headers, body).get_data())
                event = to_binary_event(
                    CloudEvent(
                        attributes={
                            "id": str(uuid.uuid4()),
                            "type": "towtank.function.answer",
                            "source": "/functions/python",
                            "specversion": "1.0",
                            "datacontenttype": "application/json",
                        },
                        data=await self._carry_out(asked, is_cold=is_cold),
                    )
                )
                told += [(key.lower().encode(), value.encode()) for key, value in event.headers.items()]
                await _send(send, 200, event.body, told)
            else:
                asked = work_of_query(scope["query_string"])
                await _reply(send, 200, await self._carry_out(asked, is_cold=is_cold), told)
        except RefusedError as refused:
            await _reply(send, 400, {"error": str(refused)}, told)

    async def _carry_out(self, asked: Work, *, is_cold: bool) -> dict[str, object]:
        slept_s, burned_s = await asked.carry_out()
        return {
            "runtime": "python", "instance": self.name, "cold": is_cold,
            "uptime_s": time.monotonic() - BEGAN, "slept_s": slept_s, "burned_s": burned_s,
        }  # fmt: skip


def _name(variables: Mapping[str, str]) -> str:
    if given := variables.get("INSTANCE"):
        return given
    if (pod := variables.get("HOSTNAME")) and variables.get("KUBERNETES_SERVICE_HOST"):
        return pod
    return f"python-{secrets.token_hex(8)}"


def _event(headers: dict[str, str], body: bytes) -> CloudEvent:
    try:
        return from_http(HTTPMessage(headers, body), JSONFormat(), _complete)
    except (BaseCloudEventException, ValueError, TypeError, AttributeError) as wrong:
        raise RefusedError(f"not a CloudEvent: {wrong}") from wrong


def _complete(attributes: dict[str, Any], data: object) -> CloudEvent:
    """Make an event of what was sent; the library would make up an id that is missing."""
    for name in ("id", "source", "type"):
        if not attributes.get(name):
            raise RefusedError(f"not a CloudEvent: {name} is required")
    if attributes.get("specversion") != "1.0":
        raise RefusedError(f"CloudEvents of version 1.0 are answered, not {attributes.get('specversion')}")
    return CloudEvent(attributes=attributes, data=data)


async def _read(receive: Receive) -> bytes | None:
    """Return the body, or nothing when it is too large; what is too large is not kept."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY_BYTES:
            return None
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


async def _reply(send: Send, status: int, body: dict[str, object], told: list[tuple[bytes, bytes]]) -> None:
    await _send(send, status, json.dumps(body).encode(), [*told, (b"content-type", b"application/json")])


async def _send(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
