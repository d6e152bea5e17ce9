"""Who is at the other end of a connection: both sides show that they have the token, without sending it."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
from typing import Any

from towtank.errors import EngineError
from towtank.load.workers import frames

PROTOCOL = 1
_NONCE_BYTES = 32
_WITHIN_S = 10.0


def greet(connection: socket.socket, token: str | None) -> dict[str, Any]:
    """Let a worker know us, and make sure that it is ours.

    Parameters
    ----------
    connection : socket
    token : str, optional
        None where the connection itself says who is there.

    Returns
    -------
    dict
        What the worker says of itself.

    Raises
    ------
    EngineError
        It does not let us in, or does not know the token itself.
    """
    connection.settimeout(_WITHIN_S)
    hello = message(connection)
    if hello.get("event") != "hello" or hello.get("protocol") != PROTOCOL:
        raise EngineError(
            f"the worker said {str(hello)[:200]}; a hello of protocol {PROTOCOL} was expected",
            hint="its engine is of another version: give it this one's",
        )
    theirs, ours = str(hello.get("nonce", "")), secrets.token_hex(_NONCE_BYTES)
    proof = "" if token is None else _proof(token, "orchestrator", theirs, ours)
    frames.send_message(connection, {"protocol": PROTOCOL, "nonce": ours, "proof": proof})
    welcome = message(connection)
    if welcome.get("event") != "welcome":
        raise EngineError(f"the worker does not let us in: {welcome.get('message', welcome)}")
    expected = "" if token is None else _proof(token, "worker", theirs, ours)
    if not hmac.compare_digest(str(welcome.get("proof", "")).encode(), expected.encode()):
        raise EngineError("what answers there does not know the token: it is none of our workers")
    connection.settimeout(None)
    return welcome


def _proof(token: str, who: str, worker: str, orchestrator: str) -> str:
    signed = f"towtank {PROTOCOL} {who} {worker} {orchestrator}".encode()
    return hmac.new(token.encode(), signed, hashlib.sha256).hexdigest()


def message(connection: socket.socket) -> dict[str, Any]:
    """Receive one message.

    Raises
    ------
    EngineError
        The connection has ended, or what came is none.
    """
    is_message, content = frames.receive(connection)
    try:
        found = json.loads(content) if is_message else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise EngineError(f"what answers there said {content[:100]!r}, which is no worker's message")
    return found
