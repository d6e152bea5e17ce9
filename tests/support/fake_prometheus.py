"""A server that speaks as much of Prometheus's HTTP API as the source asks for, and misbehaves when told to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support import servers
from towtank.telemetry.prometheus.api import SCRAPED

Value = Callable[[float], float | str | None]
"""Unix time of the server → value; None where there is none."""


@dataclass
class Script:
    """What the server knows, and how it behaves."""

    series: dict[str, list[tuple[dict[str, str], Value]]] = field(default_factory=dict)
    errors: dict[str, tuple[int, str]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    ahead_s: float = 0.0
    scrape_interval: str | None = "1s"
    scraped_at: Value = lambda t: t
    status: int = 200
    raw: bytes | None = None
    cut: bool = False
    dead: bool = False
    delay_s: float = 0.0
    late_s: float = 0.0
    """As VictoriaMetrics: answers are of this long ago, unless `nocache` and `latency_offset` are given."""
    obeys: bool = True
    """Whether they are heeded."""
    wants: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def now(self) -> float:
        """The server's clock."""
        return time.time() + self.ahead_s


class Handler(servers.Quiet):
    """Answers by the script of its server."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        script: Script = self.server.script  # type: ignore[attr-defined]
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        asked = {name: values[0] for name, values in query.items()}
        script.asked.append((path, asked))
        script.headers.append({k.lower(): v for k, v in self.headers.items()})
        time.sleep(script.delay_s)
        if script.dead:
            self.close_connection = True
        elif any(self.headers.get(name) != value for name, value in script.wants.items()):
            self._send(401, b"no such user")
        elif script.raw is not None:
            self._send(script.status, script.raw)
        else:
            status, data = respond(script, path, asked)
            self._send(status, json.dumps(data).encode(), cut=script.cut and "range" in path)

    def _send(self, status: int, body: bytes, *, cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True


def respond(script: Script, path: str, asked: dict[str, str]) -> tuple[int, Any]:
    """Status and JSON of one answer."""
    if path == "/api/v1/targets":
        if script.scrape_interval is None:
            return 404, {"status": "error", "errorType": "not_found", "error": "no"}
        target = {"labels": {"job": "app"}, "scrapeInterval": script.scrape_interval}
        return 200, {"status": "success", "data": {"activeTargets": [target]}}
    if path == "/api/v1/status/buildinfo":
        return 200, {"status": "success", "data": {"version": "2.42.0-fake"}}
    query = asked["query"]
    if query in script.errors:
        status, words = script.errors[query]
        return status, {"status": "error", "errorType": "bad_data", "error": words}
    known = {SCRAPED: [({}, script.scraped_at)], **script.series}.get(query, [])
    if path == "/api/v1/query":
        at_once = script.obeys and asked.get("nocache") == "1"
        return _now(script, query, known, 0.0 if at_once else script.late_s)
    start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
    at_once = script.obeys and asked.get("latency_offset") == "1ms"
    newest = script.now() - (0.0 if at_once else script.late_s)
    times = [round(start + k * step, 3) for k in range(int((end - start) / step + 1e-6) + 1)]
    result = []
    for labels, value in known:
        points = [[t, str(found)] for t in times if (found := value(min(t, newest))) is not None]
        if points:
            result.append({"metric": labels, "values": points})
    return _success("matrix", result, script)


def _now(
    script: Script, query: str, known: list[tuple[dict[str, str], Value]], late_s: float
) -> tuple[int, Any]:
    now = round(script.now(), 3)
    if query == "time()":
        return _success("scalar", [now, str(round(now - late_s, 3))], script)
    result = [
        {"metric": labels, "value": [now, str(found)]}
        for labels, value in known
        if (found := value(now - late_s)) is not None
    ]
    return _success(script.kinds.get(query, "vector"), result, script)


def _success(kind: str, result: Any, script: Script) -> tuple[int, Any]:
    answer = {"status": "success", "data": {"resultType": kind, "result": result}}
    return 200, {**answer, **({"warnings": script.warnings} if script.warnings else {})}


def fake_prometheus(start: Callable[[Any], Any], script: Script | None = None) -> tuple[str, Script]:
    """Start one (`start` is from `servers.serving`); its address and its script."""
    server = servers.on_loopback(Handler)
    server.script = script or Script()
    start(server)
    return f"http://127.0.0.1:{server.server_address[1]}", server.script
