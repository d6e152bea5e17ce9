"""Toxiproxy on the edges of a local deployment: calls go through it in every run, and a fault makes it misbehave.

It is a process of the deployment, so the guard ends it, and all that it disturbs with it. It is there whether the
treatment has a fault or not: else the proxy's own cost would be taken for the fault's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from towtank.errors import PlatformError
from towtank.platforms import toxics
from towtank.platforms.base import DeployContext, Edge, EdgeTrouble, Undo
from towtank.platforms.guard import Guard
from towtank.platforms.guard_messages import SpawnRequest
from towtank.platforms.launch import Planned, inherited
from towtank.platforms.ports import LOOPBACK, Reservation, reserve_free

INSTANCE = "edge-proxy"
"""What the guard calls it."""
PROGRAM = "toxiproxy-server"
VARIABLE = "TOWTANK_TOXIPROXY"
HOW_TO_GET = (
    f"get it from its packages, or build it (`go build -o {PROGRAM} github.com/Shopify/toxiproxy/v2/cmd/server`), and "
    f"put it in PATH, or its path into the variable {VARIABLE}"
)
READY_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S = 10.0
_LOG_LIMIT_BYTES = 1 << 20
_GRACE_MS = 1000
_LOOK_EVERY_S = 0.02


def find_program() -> Path | None:
    """Where Toxiproxy is; None when it is not there."""
    named = os.environ.get(VARIABLE)
    found = shutil.which(named or PROGRAM)
    return Path(found).absolute() if found else None


@dataclass(frozen=True)
class Way:
    """One edge to one instance: what listens for whom, and where it leads."""

    edge: Edge
    instance: str
    listen: Reservation
    upstream_port: int
    scheme: str

    @property
    def name(self) -> str:
        """What the proxy calls it."""
        return f"{self.edge.source}>{self.instance}"

    @property
    def url(self) -> str:
        """Address that leads over it."""
        return f"{self.scheme}://{LOOPBACK}:{self.listen.port}"


def plan_ways(edges: Sequence[Edge], planned: Sequence[Planned]) -> list[Way]:
    """A way over each edge to each instance, with a port of its own."""
    return [
        Way(edge, one.name, reserve_free(), one.port, "https" if one.component.tls is not None else "http")
        for edge in edges
        for one in planned
        if one.component_name == edge.target
    ]


def addresses(ways: Sequence[Way]) -> dict[tuple[str, str], str]:
    """(Where calls come from, instance) → address to use instead of the instance's own."""
    return {(way.edge.source, way.instance): way.url for way in ways}


class EdgeProxy:
    """Toxiproxy under a guard.

    Parameters
    ----------
    guard : Guard
    ways : sequence of Way
    context : DeployContext
    """

    def __init__(self, guard: Guard, ways: Sequence[Way], context: DeployContext) -> None:
        self._guard = guard
        self._ways = ways
        self._context = context
        self._http = httpx.Client(trust_env=False, timeout=_ANSWER_TIMEOUT_S)
        self._base = ""
        self._numbers = 0

    def start(self) -> None:
        """Start it, and open every way.

        Raises
        ------
        PlatformError
            It is not there, or does not come up.
        """
        program = find_program()
        if program is None:
            raise PlatformError(f"the program {PROGRAM!r} is not there", hint=HOW_TO_GET)
        with reserve_free() as held:
            port = held.port
        self._base = f"http://{LOOPBACK}:{port}"
        self._guard.spawn(
            SpawnRequest(
                INSTANCE, [str(program), "-host", LOOPBACK, "-port", str(port)], inherited(),
                self._context.root, self._context.log_dir.absolute() / f"{INSTANCE}.log", _LOG_LIMIT_BYTES, _GRACE_MS,
            )
        )  # fmt: skip
        until = time.monotonic() + READY_TIMEOUT_S
        while True:
            with contextlib.suppress(httpx.TransportError):
                if self._http.get(f"{self._base}/version").is_success:
                    break
            if time.monotonic() > until or INSTANCE not in self._guard.running():
                raise PlatformError(
                    f"{program} did not come up",
                    hint=f"its words are in {self._context.log_dir}/{INSTANCE}.log",
                )
            time.sleep(_LOOK_EVERY_S)
        for way in self._ways:
            way.listen.release()
            self._ask("POST", "/proxies", {
                "name": way.name, "listen": f"{LOOPBACK}:{way.listen.port}",
                "upstream": f"{LOOPBACK}:{way.upstream_port}", "enabled": True,
            })  # fmt: skip

    def disturb(self, edge: Edge, instance: str, trouble: EdgeTrouble) -> Undo:
        """Make the way to an instance misbehave; connections that stand are met too.

        Raises
        ------
        PlatformError
            There is no such way, or the proxy refuses.
        """
        name = next((w.name for w in self._ways if (w.edge, w.instance) == (edge, instance)), None)
        if name is None:
            raise PlatformError(f"no call from {edge.source} to {instance} goes through the proxy")
        made: list[str] = []

        def undo() -> None:
            while made:
                self._ask("DELETE", f"/proxies/{quote(name, safe='')}/toxics/{made.pop()}")

        try:
            for toxic in toxics.of(trouble):
                self._numbers += 1
                toxic_name = f"fault-{self._numbers}"
                self._ask("POST", f"/proxies/{quote(name, safe='')}/toxics", {"name": toxic_name, **toxic})
                made.append(toxic_name)
        except PlatformError:
            undo()
            raise
        return undo

    def close(self) -> None:
        """Let go of connections; the guard ends the process."""
        self._http.close()
        for way in self._ways:
            way.listen.release()

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        try:
            answer = self._http.request(method, self._base + path, json=body)
        except httpx.TransportError as error:
            raise PlatformError(f"the proxy of the edges does not answer: {error}") from error
        if not answer.is_success:
            raise PlatformError(
                f"the proxy of the edges refuses {method} {path}: {answer.text.strip()[:200]}"
            )
