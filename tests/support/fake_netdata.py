"""A server that speaks as much of Netdata's API v1 as the source asks for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support import servers


@dataclass
class Script:
    """What the agent knows, and how it behaves."""

    charts: dict[str, dict[str, Any]] = field(default_factory=dict)
    value: Callable[[str, str, int], float | None] = lambda chart, line, t: float(t % 10)
    """Chart, line and Unix time → value."""
    ahead_s: float = 0.0
    status: int = 200
    raw: bytes | None = None
    broken: bool = False
    dead: bool = False
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def chart(self, id: str, context: str, units: str, *lines: str, every: int = 1) -> None:  # noqa: A002
        """Add a chart."""
        self.charts[id] = {
            "id": id, "context": context, "units": units, "update_every": every,
            "dimensions": {line: {"name": line} for line in lines},
        }  # fmt: skip


class Handler(servers.Quiet):
    """Answers by the script of its server."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        script: Script = self.server.script  # type: ignore[attr-defined]
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        asked = {name: values[0] for name, values in query.items()}
        script.asked.append((path, asked))
        if script.dead:
            self.close_connection = True
            return
        body = script.raw if script.raw is not None else json.dumps(respond(script, path, asked)).encode()
        self.send_response(script.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The agent's own clock."""
        script: Script = self.server.script  # type: ignore[attr-defined]
        return formatdate(time.time() + script.ahead_s, usegmt=True)


def respond(script: Script, path: str, asked: dict[str, str]) -> Any:
    """JSON of one answer."""
    if path == "/api/v1/charts":
        return {"version": "v1.37-fake", "charts": script.charts}
    if path == "/api/v1/data":
        if script.broken:
            return {"labels": ["time", "another"], "data": [[1, 2]]}
        chart = script.charts[asked["chart"]]
        lines = list(chart["dimensions"])
        after, before, points = (int(asked[name]) for name in ("after", "before", "points"))
        step = max(1, (before - after) // points)
        times = range(before, after, -step)
        rows = [[t, *(script.value(asked["chart"], line, t) for line in lines)] for t in times]
        return {"labels": ["time", *lines], "data": rows}
    return {"version": "v1.37-fake"}


def fake_netdata(start: Callable[[Any], Any], script: Script | None = None) -> tuple[str, Script]:
    """Start one (`start` is from `servers.serving`); its address and its script."""
    server = servers.on_loopback(Handler)
    server.script = script or Script()
    start(server)
    return f"http://127.0.0.1:{server.server_address[1]}", server.script
