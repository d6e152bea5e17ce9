"""What goes over the connection to a worker: messages (JSON) and pieces of files, each behind its kind and length."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

from towtank.errors import EngineError

MESSAGE_BYTES = PIECE_BYTES = 1 << 20
_HEADER = struct.Struct("<cI")
_MESSAGE, _PIECE = b"M", b"P"


class ConnectionEnded(EngineError):  # noqa: N818 - the field's word
    """Nothing more comes over a connection, or what comes is not a worker's."""


def send_message(connection: socket.socket, message: Mapping[str, Any]) -> None:
    """Send one message.

    Raises
    ------
    ConnectionEnded
    """
    _send(connection, _MESSAGE, json.dumps(message).encode())


def send_piece(connection: socket.socket, piece: bytes) -> None:
    """Send some bytes of a file, at most `PIECE_BYTES`.

    Raises
    ------
    ConnectionEnded
    """
    _send(connection, _PIECE, piece)


def receive(connection: socket.socket) -> tuple[bool, bytes]:
    """Receive one frame: whether it is a message, and its content.

    Raises
    ------
    ConnectionEnded
    """
    kind, length = _HEADER.unpack(_exactly(connection, _HEADER.size))
    if kind not in (_MESSAGE, _PIECE):
        raise ConnectionEnded(f"it said {kind!r} where a frame begins; it is no worker of this version")
    if length > MESSAGE_BYTES:
        raise ConnectionEnded(f"it announced a frame of {length} bytes; at most {MESSAGE_BYTES} are allowed")
    return kind == _MESSAGE, _exactly(connection, length)


def _send(connection: socket.socket, kind: bytes, content: bytes) -> None:
    if len(content) > MESSAGE_BYTES:
        raise ValueError(f"a frame of {len(content)} bytes; at most {MESSAGE_BYTES} can be sent")
    try:
        connection.sendall(_HEADER.pack(kind, len(content)) + content)
    except OSError as error:
        raise ConnectionEnded(f"the connection was lost: {error.strerror or error}") from error


def _exactly(connection: socket.socket, count: int) -> bytes:
    content = bytearray(count)
    view, filled = memoryview(content), 0
    while filled < count:
        try:
            got = connection.recv_into(view[filled:])
        except TimeoutError as error:
            raise ConnectionEnded("nothing was heard in time") from error
        except OSError as error:
            raise ConnectionEnded(f"the connection was lost: {error.strerror or error}") from error
        if got == 0:
            raise ConnectionEnded("the connection has ended")
        filled += got
    return bytes(content)
