"""Servers that misbehave, one connection at a time: what a load must survive and name."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

HEAD = b"HTTP/1.1 200 OK\r\n"


def _reset(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _stall(connection: socket.socket) -> None:
    connection.recv(65536)
    time.sleep(5)


def _stall_in_body(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(HEAD + b"content-length: 100\r\n\r\nhalf")
    time.sleep(5)


def _drop_by_drop(connection: socket.socket, *parts: bytes) -> None:
    """Some bytes at once, the others one by one, each soon enough for who waits for one read only."""
    connection.recv(65536)
    connection.sendall(parts[0])
    for byte in parts[1]:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def _trickle_head(connection: socket.socket) -> None:
    _drop_by_drop(connection, HEAD, b"x-filler: " + b"x" * 200)


def _trickle_body(connection: socket.socket) -> None:
    _drop_by_drop(connection, HEAD + b"content-type: text/plain\r\n\r\n", b"y" * 200)


def _garbage(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"\x16\x03\x01 this is no HTTP at all\r\n\r\n" * 10)


def _endless(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    with contextlib.suppress(OSError):
        for _ in range(20_000):
            connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")


def _short(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(HEAD + b"content-length: 100\r\n\r\nonly this")


BEHAVIOURS: dict[str, Callable[[socket.socket], None]] = {
    "reset": _reset, "stall": _stall, "stall-in-body": _stall_in_body, "garbage": _garbage, "endless": _endless,
    "short": _short, "trickle-head": _trickle_head, "trickle-body": _trickle_body,
}  # fmt: skip


@contextlib.contextmanager
def misbehaving(kind: str) -> Iterator[str]:
    """Serve on a free port; yields the address."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)
    ended = threading.Event()

    def serve_one(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            BEHAVIOURS[kind](connection)

    def accept() -> None:
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                connection.settimeout(5)
                threading.Thread(target=serve_one, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        ended.set()
        thread.join()
        listener.close()
