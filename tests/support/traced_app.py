"""An application of two processes that traces itself, as OpenTelemetry's SDKs do: shop asks stock, both export spans.

`python traced_app.py --port N --collector URL` serves until it is ended. Shop exports protobuf with gzip, stock
JSON with hexadecimal ids; both only trace what a sampled `traceparent` asks for (parentbased_always_off). Every
tenth request waits for a slow query in stock.
"""

# ruff: noqa: T201 - a program
from __future__ import annotations

import argparse
import contextlib
import gzip
import http.server
import json
import os
import secrets
import socketserver
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

QUERY_S, SLOW_QUERY_S, RENDER_S = 0.004, 0.040, 0.003
SLOW_EACH = 10


class Done(NamedTuple):
    trace: str
    span: str
    parent: str
    name: str
    kind: int
    start_ns: int
    end_ns: int


class Tracer:
    """Collects spans and exports them each `every_s`."""

    def __init__(self, service: str, collector: str, every_s: float, *, binary: bool) -> None:
        self.service, self.collector, self.binary = service, collector, binary
        self._done: list[Done] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._export_always, args=(every_s,), daemon=True).start()

    @contextlib.contextmanager
    def span(self, name: str, kind: int, trace: str, parent: str) -> Iterator[str]:
        own, start_ns = secrets.token_hex(8), time.time_ns()
        try:
            yield own
        finally:
            if trace:
                with self._lock:
                    self._done.append(Done(trace, own, parent, name, kind, start_ns, time.time_ns()))

    def _export_always(self, every_s: float) -> None:
        while True:
            time.sleep(every_s)
            with self._lock:
                done, self._done = self._done, []
            if done and self.collector:
                with contextlib.suppress(OSError):
                    self._send(done)

    def _send(self, done: list[Done]) -> None:
        body, kind = (gzip.compress(self._protobuf(done)), "application/x-protobuf") if self.binary else (
            json.dumps(self._json(done)).encode(), "application/json")  # fmt: skip
        headers = {"Content-Type": kind, **({"Content-Encoding": "gzip"} if self.binary else {})}
        request = urllib.request.Request(f"{self.collector}/v1/traces", body, headers)
        urllib.request.urlopen(request, timeout=5).close()

    def _json(self, done: list[Done]) -> dict[str, Any]:
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": self.service}}]}
        spans = [
            {
                "traceId": d.trace, "spanId": d.span, "parentSpanId": d.parent, "name": d.name, "kind": d.kind,
                "startTimeUnixNano": str(d.start_ns), "endTimeUnixNano": str(d.end_ns),
                "attributes": [{"key": "db.system", "value": {"stringValue": "none"}}],
            }
            for d in done
        ]  # fmt: skip
        return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}

    def _protobuf(self, done: list[Done]) -> bytes:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        message = ExportTraceServiceRequest()
        resource = message.resource_spans.add()
        resource.resource.attributes.add(key="service.name").value.string_value = self.service
        scope = resource.scope_spans.add()
        for d in done:
            scope.spans.add(
                trace_id=bytes.fromhex(d.trace), span_id=bytes.fromhex(d.span), parent_span_id=bytes.fromhex(d.parent),
                name=d.name, kind=d.kind, start_time_unix_nano=d.start_ns, end_time_unix_nano=d.end_ns,
            )  # fmt: skip
        return message.SerializeToString()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer in one piece: Nagle and delayed ACKs would add 40 ms
    server: App

    def do_GET(self) -> None:
        trace, parent = self._context()
        if self.path == "/health":
            self._answer(b"ok")
            return
        with self.server.tracer.span(f"GET {self.path}", 2, trace, parent) as own:
            self._answer(self.server.work(trace, own))

    def _context(self) -> tuple[str, str]:
        """Trace and parent, where somebody asks for spans."""
        given = (self.headers.get("traceparent") or "").split("-")
        return (given[1], given[2]) if len(given) == 4 and int(given[3], 16) & 1 else ("", "")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class App(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, tracer: Tracer, stock: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.tracer, self.stock, self.served = tracer, stock, 0

    def work(self, trace: str, own: str) -> bytes:
        return self._shop(trace, own) if self.stock else self._query(trace, own)

    def _shop(self, trace: str, own: str) -> bytes:
        with self.tracer.span("ask stock", 3, trace, own) as asking:
            headers = {"traceparent": f"00-{trace}-{asking}-01"} if trace else {}
            request = urllib.request.Request(f"{self.stock}/stock", headers=headers)
            with urllib.request.urlopen(request, timeout=5) as answer:
                found = answer.read()
        with self.tracer.span("render", 1, trace, own):
            time.sleep(RENDER_S)
        return bytes(found)

    def _query(self, trace: str, own: str) -> bytes:
        self.served += 1
        with self.tracer.span("query", 1, trace, own):
            time.sleep(SLOW_QUERY_S if self.served % SLOW_EACH == 0 else QUERY_S)
        return b"7 in stock"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--collector", default="")
    parser.add_argument("--every", type=float, default=0.4)
    parser.add_argument("--role", choices=["shop", "stock"], default="shop")
    args = parser.parse_args()
    tracer = Tracer(args.role, args.collector, args.every, binary=args.role == "shop")
    if args.role == "stock":
        app = App(args.port, tracer, "")
        print(app.server_address[1], flush=True)
    else:
        words = ["--role", "stock", "--port", "0", "--collector", args.collector, "--every", str(args.every)]
        # as another process: it ends with its standard input
        child = subprocess.Popen(
            [sys.executable, __file__, *words], stdout=subprocess.PIPE, stdin=subprocess.PIPE
        )
        assert child.stdout
        app = App(args.port, tracer, f"http://127.0.0.1:{int(child.stdout.readline())}")
    if args.role == "stock":
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        app.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
