"""The frame of the small servers of these examples: requests in, answers out, and what was seen and what was wrong.

Stdlib only. `GET /_seen` says as JSON how often each thing was seen, and what clients did wrong: the tests of the
examples read it after a load.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import socketserver
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Request:
    """What a client sent; names of headers are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    source: tuple[str, int]

    @property
    def cookies(self) -> dict[str, str]:
        """Cookies that it carries."""
        return {name: morsel.value for name, morsel in SimpleCookie(self.headers.get("cookie", "")).items()}

    def form(self) -> dict[str, str]:
        """Fields of a URL-encoded form."""
        return {
            name: values[0] for name, values in parse_qs(self.body.decode(), keep_blank_values=True).items()
        }


@dataclass(frozen=True)
class Answer:
    """What a server answers: bytes as they are, anything else as JSON."""

    body: object = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def encoded(self) -> tuple[bytes, str]:
        """Body and media type."""
        if isinstance(self.body, bytes):
            return self.body, "application/octet-stream"
        if isinstance(self.body, str):
            return self.body.encode(), "text/html; charset=utf-8"
        return json.dumps(self.body).encode(), "application/json"


class Service:
    """An application: override `answer`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()

    def answer(self, request: Request) -> Answer:
        """Answer one request; may be called by several threads at once."""
        raise NotImplementedError

    def count(self, what: str) -> None:
        """Something that is as it should be."""
        with self.lock:
            self.seen[what] += 1

    def refuse(self, what: str, status: int = 400) -> Answer:
        """Something that a client should not have done."""
        with self.lock:
            self.wrong[what] += 1
        return Answer({"error": what}, status)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        parts = urlsplit(self.path)
        request = Request(
            self.command,
            parts.path,
            {name: values[0] for name, values in parse_qs(parts.query).items()},
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(length),
            self.client_address,
        )
        service = self.server.service
        if request.path == "/health":
            answer = Answer("ok")
        elif request.path == "/_seen":
            with service.lock:
                answer = Answer({"seen": dict(service.seen), "wrong": dict(service.wrong)})
        else:
            answer = service.answer(request)
        body, kind = answer.encoded()
        headers = {
            "content-type": kind,
            "content-length": str(len(body)),
            "x-instance": os.environ.get("INSTANCE", ""),
        }
        lines = [f"HTTP/1.1 {answer.status} {self.responses.get(answer.status, ('',))[0]}"]
        lines += [f"{name}: {value}" for name, value in {**headers, **answer.headers}.items()]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        self.wfile.write(head if request.method == "HEAD" else head + body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: object) -> None:
        """Say nothing: what matters is counted."""


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int, service: Service) -> None:
        self.service = service
        super().__init__(("127.0.0.1", port), _Handler)


def serve(make: Callable[[argparse.Namespace], Service], *options: str) -> None:
    """Run a service until it is ended.

    Parameters
    ----------
    make : callable
        From the options of the command line to the service.
    options : str
        Further options, such as ``--idle``; their values are text.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    for option in options:
        parser.add_argument(option, default="")
    asked = parser.parse_args()
    sys.setswitchinterval(0.001)
    _Server(asked.port, make(asked)).serve_forever(poll_interval=0.05)
