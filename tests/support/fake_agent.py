"""An agent that says what a test tells it to, over a real connection."""

from __future__ import annotations

import json
import secrets
import socket
import struct
import threading
import time
from typing import Any

from towtank.errors import EngineError
from towtank.load.workers.places import Link, Standing

_HEADER = struct.Struct("<cI")


class FakeAgent:
    """Speaks an agent's protocol; its clock is `ahead_ns` before ours.

    Attributes
    ----------
    items : list of dict
        What it has seen; the first has the number 1.
    overrun : int
        So many of the first are not kept any more.
    refuses : bool
        Nobody reaches it.
    most, answers : int
        Items in one answer; so many such answers until it is lost.
    clock : dict, optional
        What it says when it is asked for the time, instead of that.
    """

    def __init__(self, ahead_ns: int = 0) -> None:
        self.ahead_ns = ahead_ns
        self.items: list[dict[str, Any]] = []
        self.overrun = 0
        self.refuses = False
        self.life = secrets.token_hex(4)
        self.answer: bytes | None = None
        self.clock: dict[str, Any] | None = None
        self.most, self.answers = 1 << 30, 1 << 30
        self._open: list[socket.socket] = []

    def read(self, t_ns: int, **values: float) -> None:
        """It has read this at an instant of our clock."""
        self.items.append({"t_ns": t_ns + self.ahead_ns, "values": {"": values}})

    def reach(self) -> Link:
        """A connection to it."""
        if self.refuses:
            raise EngineError("nobody is there")
        ours, theirs = socket.socketpair()
        self._open.append(theirs)
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()
        return Link(ours, None, Standing("local", "here"), str)

    def cut(self) -> None:
        """Every connection breaks."""
        for connection in self._open:
            connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _serve(self, connection: socket.socket) -> None:
        def say(**message: Any) -> None:
            content = json.dumps(message).encode()
            connection.sendall(_HEADER.pack(b"M", len(content)) + content)

        with connection:
            try:
                say(event="hello", protocol=1, nonce="00")
                self._hear(connection)
                say(event="welcome", proof="", life=self.life, containers="cgroup v2")
                while (asked := self._hear(connection))["do"] != "finish":
                    now_ns = time.monotonic_ns() + self.ahead_ns
                    if asked["do"] == "clock" and self.clock is not None:
                        say(event="clock", **self.clock)
                    elif asked["do"] == "clock":
                        say(event="clock", sent_ns=asked["sent_ns"], received_ns=now_ns, answered_ns=now_ns)
                    elif self.answer is not None:
                        connection.sendall(self.answer)
                    elif self.answers == 0:
                        return
                    else:
                        self.answers -= 1
                        first = max(asked["after"], self.overrun) + 1
                        items = self.items[first - 1 :][: self.most]
                        say(event="taken", first=first, newest=len(self.items), items=items)
                say(event="bye")
            except (OSError, struct.error):
                return

    @staticmethod
    def _hear(connection: socket.socket) -> dict[str, Any]:
        _, length = _HEADER.unpack(connection.recv(_HEADER.size, socket.MSG_WAITALL))
        heard: dict[str, Any] = json.loads(connection.recv(length, socket.MSG_WAITALL))
        return heard
