"""The server's side of a port-forward over a WebSocket, as a kubelet has it: to a port of loopback."""

from __future__ import annotations

import base64
import hashlib
import http.server
import socket
import struct
import threading
from contextlib import suppress

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection
from wsproto.utilities import LocalProtocolError

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def carry(handler: http.server.BaseHTTPRequestHandler, asked_for: int, to: int | None) -> None:
    """Answer a request for a port-forward, and carry it until one side ends.

    Parameters
    ----------
    handler : BaseHTTPRequestHandler
    asked_for : int
        Port of the pod.
    to : int, optional
        Port of loopback; without it nobody listens.
    """
    key = handler.headers["Sec-WebSocket-Key"] + _GUID
    handler.send_response(101)
    handler.send_header("Upgrade", "websocket")
    handler.send_header("Connection", "Upgrade")
    handler.send_header(
        "Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    )
    handler.send_header("Sec-WebSocket-Protocol", handler.headers["Sec-WebSocket-Protocol"])
    handler.end_headers()
    handler.wfile.flush()
    handler.close_connection = True
    ws, outside, lock = Connection(ConnectionType.SERVER), handler.connection, threading.Lock()

    def say(channel: int, content: bytes) -> None:
        with lock:
            outside.sendall(ws.send(BytesMessage(bytes([channel]) + content)))

    for channel in (0, 1):
        say(channel, struct.pack("<H", asked_for))
    if to is None:
        say(1, b"error forwarding port: connect: connection refused")
        with lock:
            outside.sendall(ws.send(CloseConnection(1000)))
        return
    with socket.create_connection(("127.0.0.1", to)) as inside:
        back = threading.Thread(target=_back, args=(inside, outside, say), daemon=True)
        back.start()
        with suppress(OSError):
            while not _ended(ws, outside.recv(1 << 16), inside):
                pass
            inside.shutdown(socket.SHUT_RDWR)
        back.join(5)


def _ended(ws: Connection, said: bytes, inside: socket.socket) -> bool:
    """Pass on what came; whether that was the end."""
    ws.receive_data(said or None)
    for event in ws.events():
        if isinstance(event, CloseConnection):
            return True
        if isinstance(event, BytesMessage):
            content = bytes(event.data)
            if not _within.get(ws):
                assert content[0] == 0
                content = content[1:]
            _within[ws] = not event.message_finished
            inside.sendall(content)
    return False


_within: dict[Connection, bool] = {}
"""Whether a message has begun whose end is still to come."""


def _back(inside: socket.socket, outside: socket.socket, say) -> None:
    with suppress(OSError, LocalProtocolError):
        while said := inside.recv(1 << 15):
            say(0, said)
    with suppress(OSError):
        outside.shutdown(socket.SHUT_RDWR)
