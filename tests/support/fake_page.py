"""A page of counters in Prometheus' text format, on loopback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support import servers


class Handler(servers.Quiet):
    """Shows the lines that the server has, with its status."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.server.got.append(self.path)
        body = "".join(f"{line}\n" for line in self.server.lines).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def fake_page(start: Callable[[Any], Any], lines: list[str]) -> tuple[str, Any]:
    """Start one (`start` is from `servers.serving`); its address and server, whose `lines` and `status` may change."""
    server = servers.on_loopback(Handler)
    server.lines, server.status = list(lines), 200
    start(server)
    return f"http://127.0.0.1:{server.server_address[1]}", server
