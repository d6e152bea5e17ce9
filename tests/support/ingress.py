"""A real ingress for tests, told and listened to line by line, with real instances behind it."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from support.waiting import eventually
from towtank.platforms.ingress import find_ingress

HEADERS = ("--instance-header", "x-instance", "--held-header", "x-held-us", "--cold-header", "x-cold")
END_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Answer:
    """What a client got."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def instance(self) -> str:
        """Who answered."""
        return self.headers["x-instance"]


@dataclass(frozen=True)
class InstanceProcess:
    """A process behind the ingress."""

    process: subprocess.Popen[str]
    port: int

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def seen(self) -> tuple[int, int]:
        """Requests that it got, and most at once."""
        seen = self.all_seen()
        return seen["requests"], seen["most"]

    def all_seen(self) -> dict[str, int]:
        """All that it counts."""
        found: dict[str, int] = json.loads(ask(self.port, "/seen").body)
        return found

    def busy_with(self, count: int) -> None:
        """Wait until it serves so many requests at once."""
        eventually(lambda: self.all_seen()["now"] == count)


@contextlib.contextmanager
def instance(port: int = 0, **environment: str) -> Iterator[InstanceProcess]:
    """An instance that listens, until the block ends."""
    port = port or free_port()
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("ingress_instance.py")), str(port)],
        stdout=subprocess.PIPE, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield InstanceProcess(process, port)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def free_port() -> int:
    """A port that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def finish(client: socket.socket) -> bytes:
    """Send the rest of a request that was begun; its whole answer."""
    with client:
        client.sendall(b"whole")
        return receive(client, b"the whole")


def receive(client: socket.socket, end: bytes) -> bytes:
    """What comes, until it ends so or is over."""
    said = b""
    while not said.endswith(end) and (piece := client.recv(1 << 16)):
        said += piece
    return said


def ask(
    port: int, path: str = "/", *, method: str = "GET", body: bytes | None = None, timeout_s: float = 60
) -> Answer:
    """Ask on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        return ask_on(connection, path, method=method, body=body)
    finally:
        connection.close()


def ask_on(
    connection: http.client.HTTPConnection, path: str = "/", *, method: str = "GET", body: bytes | None = None
) -> Answer:
    """Ask on a connection that is there."""
    connection.request(method, path, body=body)
    answer = connection.getresponse()
    return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


@dataclass
class Ingress:
    """A running ingress; the block ends it in order, and all that it counted must add up."""

    process: subprocess.Popen[str]
    reader: threading.Thread = field(init=False)
    heard: list[dict[str, Any]] = field(default_factory=list)
    clients: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(64))

    @classmethod
    def start(cls, *options: str) -> Self:
        """Start it and wait until it listens."""
        process = subprocess.Popen(
            [str(find_ingress()), *HEADERS, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        ingress = cls(process)
        ingress.reader = threading.Thread(target=ingress._listen, daemon=True)
        ingress.reader.start()
        ingress.wait("ready")
        return ingress

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.heard.append(json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *caught: object) -> None:
        with contextlib.suppress(Exception) if caught[0] else contextlib.nullcontext():
            self.end()
        self.process.kill()
        self.process.wait()
        self.reader.join(END_TIMEOUT_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.clients.shutdown(wait=False, cancel_futures=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.told("ready")[0]["listen"].rpartition(":")[2])

    def tell(self, command: str, **fields: Any) -> None:
        """Write one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"cmd": command, **fields}) + "\n")
        self.process.stdin.flush()

    def limits(self, **fields: Any) -> None:
        """Change limits, and wait until they hold: what is wrong with the next line is told after it."""
        self.tell("limits", **fields)
        fence = f"fence-{len(self.heard)}"
        self.tell("drain", instance=fence)
        eventually(lambda: any(fence in error["message"] for error in self.told("error")))

    def add(self, name: str, one: InstanceProcess, **fields: Any) -> None:
        """Add an instance and wait until it takes requests."""
        known = len(self.told("instance_ready", instance=name))
        self.tell("add", instance=name, address=one.address, **fields)
        eventually(lambda: len(self.told("instance_ready", instance=name)) > known)

    def told(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """Every event of a kind so far that has these fields."""
        return [one for one in list(self.heard) if one["event"] == event and fields.items() <= one.items()]

    def wait(self, event: str, **fields: Any) -> dict[str, Any]:
        """Wait for the first event of a kind that has these fields."""
        found: list[dict[str, Any]] = eventually(lambda: self.told(event, **fields), within_s=30)
        return found[0]

    def ask(self, path: str = "/", **options: Any) -> Answer:
        """Ask, and wait for the answer."""
        return ask(self.port, path, **options)

    def asking(self, path: str = "/", **options: Any) -> Future[Answer]:
        """Ask without waiting."""
        return self.clients.submit(self.ask, path, **options)

    def connect(self) -> socket.socket:
        """A connection without words."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def hold(self, count: int, path: str = "/") -> list[socket.socket]:
        """Requests that are held, one after another; each on a connection."""
        connections = []
        for _ in range(count):
            connections.append(self.connect())
            connections[-1].sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        return connections

    def begin(self) -> socket.socket:
        """A request that is under way until `finish`: half of its body is missing."""
        client = self.connect()
        client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nthe ")
        return client

    def peak_bytes(self) -> int:
        """Most that was resident of it."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    def end(self) -> dict[str, Any]:
        """End it; its last words."""
        if not self.told("done"):
            assert self.process.stdin is not None
            self.process.stdin.close()
            assert self.process.wait(END_TIMEOUT_S) == 0
            self.wait("done")
            self.check()
        return self.told("done")[0]

    def counted(self, name: str) -> Counter[str]:
        """A table of all statistics, summed up."""
        total: Counter[str] = Counter()
        for stats in self.told("stats"):
            total.update(stats[name])
        return total

    def check(self) -> None:
        """Intervals join without a gap, and every request ended exactly once."""
        all_stats = self.told("stats")
        for before, after in itertools.pairwise(all_stats):
            assert after["from_ns"] == before["to_ns"]
        arrivals = sum(stats["arrivals"] for stats in all_stats)
        ended = sum(sum(self.counted(table).values()) for table in ("answered", "made", "left")) + sum(
            stats["cut"] for stats in all_stats
        )
        assert arrivals == ended + self.told("done")[0]["interrupted"], self.heard
