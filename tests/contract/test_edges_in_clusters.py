"""Faults on edges as pods make them: the real Toxiproxy with the file that it is given, and a disturber beside it."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.peers import found_or_skipped
from support.servers import Quiet, on_loopback, serving
from towtank.errors import PlatformError
from towtank.load.workers import places
from towtank.platforms import edge_proxy, toxics
from towtank.platforms.base import LOAD, Edge, EdgeTrouble
from towtank.platforms.kubernetes import edge_objects
from towtank.platforms.kubernetes.control import Reached
from towtank.platforms.kubernetes.edges import Way
from towtank.platforms.kubernetes.grip import Grip
from towtank.platforms.ports import reserve_free

WAY = "towtank-edge-0-80"
pytestmark = pytest.mark.slow


class Answering(Quiet):
    """What is called."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


class Proxied:
    """Toxiproxy in front of a server, and a disturber beside it.

    Parameters
    ----------
    engine, toxiproxy : Path
    folder : Path
    upstream_port : int
    """

    def __init__(self, engine: Path, toxiproxy: str, folder: Path, upstream_port: int) -> None:
        self._engine = engine
        self._folder = folder
        self._token = secrets.token_hex(32)
        way = Way(Edge(LOAD, "app"), "app", {}, {}, ({"port": 80},), ())
        (file,) = edge_objects.config_map([way], {"app": "127.0.0.1"})["data"].values()
        (entry,) = json.loads(file)
        with reserve_free() as listen, reserve_free() as api:
            self.url = f"http://127.0.0.1:{listen.port}"
            self._api = f"127.0.0.1:{api.port}"
        # Ports of a pod are its own; here others have some.
        entry |= {"listen": self.url.partition("//")[2], "upstream": f"127.0.0.1:{upstream_port}"}
        (folder / "edges.json").write_text(json.dumps([entry]))
        (folder / "token").write_text(self._token)
        words = [
            "-host",
            "127.0.0.1",
            "-port",
            self._api.partition(":")[2],
            "-config",
            str(folder / "edges.json"),
        ]
        self._proxy = subprocess.Popen(
            [toxiproxy, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._start_hand()
        until = time.monotonic() + 20
        while not self.comes_through():
            assert time.monotonic() < until
            time.sleep(0.05)

    def _start_hand(self) -> None:
        command = [
            str(self._engine), "disturb", "--listen", "127.0.0.1:0", "--token-file", str(self._folder / "token"),
            "--journal", str(self._folder / "journal"),
        ]  # fmt: skip
        self._hand = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._hand.stdout is not None
        self._port = int(json.loads(self._hand.stdout.readline())["address"].rpartition(":")[2])

    def comes_through(self, timeout_s: float = 0.5) -> bool:
        """Over a connection of its own."""
        try:
            return httpx.get(self.url, trust_env=False, timeout=timeout_s).is_success
        except httpx.HTTPError:
            return False

    def begin(self, trouble: EdgeTrouble, lasts_s: float | None = 60.0, way: str = WAY) -> Grip:
        reached = Reached(places.connected("127.0.0.1", self._port), "direct", "127.0.0.1")
        held = Grip(reached, self._token, "the disturber")
        named = [{"name": f"towtank-{secrets.token_hex(6)}", **toxic} for toxic in toxics.of(trouble)]
        held.begin({"kind": "toxics", "api": self._api, "ways": [way], "toxics": named}, lasts_s)
        return held

    def kill_hand(self) -> None:
        """And start it again, as a kubelet does."""
        self._hand.send_signal(signal.SIGKILL)
        self._reap_hand()
        self._start_hand()

    def _reap_hand(self) -> None:
        self._hand.wait(20)
        assert self._hand.stdout is not None
        self._hand.stdout.close()

    def close(self) -> None:
        for process in (self._hand, self._proxy):
            process.kill()
        self._reap_hand()
        self._proxy.wait(20)


@pytest.fixture(scope="module")
def proxied(engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    found = found_or_skipped(edge_proxy.PROGRAM)
    with serving() as serve:
        upstream = serve(on_loopback(Answering)).server_address[1]
        made = Proxied(engine, found, tmp_path_factory.mktemp("edge"), upstream)
        yield made
        made.close()


def eventually(holds: Callable[[], Any], within_s: float = 20.0) -> None:
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("kind", ["delay", "drop", "abort", "cut"])
def test_calls_go_wrong_on_standing_connections_too_and_then_come_through(
    proxied: Proxied, kind: Any
) -> None:
    with httpx.Client(base_url=proxied.url, trust_env=False, timeout=0.4) as standing:
        standing.get("/").raise_for_status()
        held = proxied.begin(EdgeTrouble(kind, delay_s=0.8 if kind == "delay" else 0.0))
        with pytest.raises(httpx.TransportError):
            standing.get("/")
    assert not proxied.comes_through(0.4)
    held.undo()
    eventually(proxied.comes_through)


def test_it_is_undone_whatever_ends_it(proxied: Proxied) -> None:
    held = proxied.begin(EdgeTrouble("drop"))
    assert not proxied.comes_through()
    held.close()
    eventually(proxied.comes_through)
    held = proxied.begin(EdgeTrouble("drop"))
    assert not proxied.comes_through()
    proxied.kill_hand()
    assert proxied.comes_through(5.0), "it listens when that is done"
    with contextlib.suppress(PlatformError):
        held.undo()


def test_a_way_that_is_not_there_is_refused(proxied: Proxied) -> None:
    with pytest.raises(PlatformError, match="has no way towtank-edge-9-80: status 404"):
        proxied.begin(EdgeTrouble("drop"), way="towtank-edge-9-80")
