"""The HTTP side of OTLP: POST /v1/traces with protobuf or JSON, answered as the OTLP specification says."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import zlib
from typing import Any, NamedTuple, cast

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from towtank.errors import TelemetryError
from towtank.telemetry.otlp import messages
from towtank.telemetry.otlp.kept import KeptExports

PATH = "/v1/traces"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
IDLE_S = 60.0
"""A connection on which nothing comes for so long is closed; exporters open another."""
MOST_CONNECTIONS = 256
_INVALID_ARGUMENT, _NOT_FOUND, _UNAVAILABLE = 3, 5, 14
"""Codes of google.rpc.Status."""


class Refused(Exception):  # noqa: N818 - not an error of this program
    """An export that is refused as a whole."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Export(NamedTuple):
    """A body and how it is written."""

    body: bytes
    kind: str


class Receiver:
    """Listens from creation until `close`.

    Parameters
    ----------
    address : tuple of str and int
    kept : KeptExports
    most_body : int
        Bytes of one body, also after decompression.

    Raises
    ------
    TelemetryError
        The address cannot be listened at.
    """

    def __init__(self, address: tuple[str, int], kept: KeptExports, *, most_body: int) -> None:
        self._server = bind(address)
        self._server.kept, self._server.most_body = kept, most_body
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="towtank-otlp", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and end the connections that are still open."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.end_connections()


def bind(address: tuple[str, int]) -> _Server:
    """Take an address.

    Raises
    ------
    TelemetryError
        Says which, and what to do.
    """
    host, port = address
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return _Server(address, family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TelemetryError(
            f"telemetry source 'otlp' cannot listen at {host}:{port}: {reason}",
            hint="end what listens there (ss -ltnp), or give another address: `otlp: {listen: 127.0.0.1:4319}`",
        ) from error


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    kept: KeptExports
    most_body: int

    def __init__(self, address: tuple[str, int], family: int) -> None:
        self.address_family = family
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without asking for the host's name: a slow resolver must not hold up a run."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ANN401, ARG002 - socketserver's own
        """Refuse connections beyond the bound."""
        with self._guard:
            if len(self._open) >= MOST_CONNECTIONS:
                return False
            self._open.add(request)
            return True

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - socketserver's own
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        """End what is still open."""
        with self._guard:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - socketserver's own
        """Count a connection that broke; what it was to say is the exporter's to say again."""
        self.kept.refuse("connection broken off")


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def do_POST(self) -> None:
        kept = self._server.kept
        kind = (self.headers.get("content-type") or "").partition(";")[0].strip().lower()
        try:
            export = self._export(kind)
            message = messages.read_json(export.body) if kind == JSON else messages.read_protobuf(export.body)
        except messages.Undecodable as error:
            kept.refuse("400 undecodable")
            self._refuse(kind, Refused(400, _INVALID_ARGUMENT, str(error)))
        except Refused as refused:
            self.close_connection = True  # its body may not have been read
            kept.refuse(f"{refused.status} {http.HTTPStatus(refused.status).phrase.lower()}")
            self._refuse(kind, refused)
        else:
            body = message.SerializeToString() if kind == JSON else export.body
            rejected, why = kept.take(message, body)
            self._accept(kind, rejected, why)

    def do_GET(self) -> None:
        self.close_connection = True
        self._refuse(JSON, Refused(405, _INVALID_ARGUMENT, f"exports are sent with POST to {PATH}"))

    do_PUT = do_DELETE = do_HEAD = do_GET  # noqa: N815

    @property
    def _server(self) -> _Server:
        return cast("_Server", self.server)

    def _export(self, kind: str) -> Export:
        """Read the body of an export.

        Raises
        ------
        Refused, Undecodable
        """
        if self.path.partition("?")[0].rstrip("/") != PATH:
            raise Refused(404, _NOT_FOUND, f"only traces are received, at {PATH}")
        if kind not in (PROTOBUF, JSON):
            raise Refused(
                415, _INVALID_ARGUMENT, f"content-type {kind or 'none'}; allowed are {PROTOBUF} and {JSON}"
            )
        packing = (self.headers.get("content-encoding") or "identity").strip().lower()
        if packing not in ("gzip", "identity", "none", ""):
            raise Refused(415, _INVALID_ARGUMENT, f"content-encoding {packing}; allowed is gzip")
        body = self._body()
        return Export(self._unpacked(body) if packing == "gzip" else body, kind)

    def _body(self) -> bytes:
        most = self._server.most_body
        if "chunked" in (self.headers.get("transfer-encoding") or "").lower():
            return self._chunks(most)
        length = self.headers.get("content-length") or ""
        if not length.isascii() or not length.isdigit():
            raise Refused(400, _INVALID_ARGUMENT, "the request has no content-length")
        if int(length) > most:
            raise self._too_large()
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise Refused(400, _INVALID_ARGUMENT, "the body is shorter than its content-length")
        return body

    def _chunks(self, most: int) -> bytes:
        """Read a body in chunks, as exporters for Node.js send it."""
        parts: list[bytes] = []
        size = 0
        while True:
            try:
                length = int(self.rfile.readline(256).partition(b";")[0], 16)
            except ValueError as error:
                raise Refused(400, _INVALID_ARGUMENT, "the body is not in chunks") from error
            size += length
            if size > most or length < 0:
                raise self._too_large()
            if not length:
                break
            parts.append(self.rfile.read(length))
            self.rfile.readline(256)
        while self.rfile.readline(1024).strip():
            pass  # trailers
        return b"".join(parts)

    def _unpacked(self, body: bytes) -> bytes:
        most = self._server.most_body
        unpacker = zlib.decompressobj(wbits=31)
        try:
            plain = unpacker.decompress(body, most + 1)
        except zlib.error as error:
            raise messages.Undecodable(f"not gzip: {error}") from error
        if len(plain) > most:
            raise self._too_large()
        if not unpacker.eof:
            raise messages.Undecodable("not gzip: it was cut off")
        return plain

    def _too_large(self) -> Refused:
        return Refused(413, _INVALID_ARGUMENT, f"a body may have {self._server.most_body} bytes (most_body)")

    # --- answers -----------------------------------------------------------------------------------------

    def _accept(self, kind: str, rejected: int, why: str) -> None:
        if kind == JSON:
            partial = {"rejectedSpans": str(rejected), "errorMessage": why}
            self._answer(200, JSON, json.dumps({"partialSuccess": partial} if rejected else {}).encode())
            return
        answer = ExportTraceServiceResponse()
        if rejected:
            answer.partial_success.CopyFrom(
                ExportTracePartialSuccess(rejected_spans=rejected, error_message=why)
            )
        self._answer(200, PROTOBUF, answer.SerializeToString())

    def _refuse(self, kind: str, refused: Refused) -> None:
        """Answer with a google.rpc.Status: a number in field 1 and a text in field 2, as a partial success has them."""
        if kind == PROTOBUF:
            status = ExportTracePartialSuccess(rejected_spans=refused.code, error_message=refused.message)
            self._answer(refused.status, PROTOBUF, status.SerializeToString())
        else:
            said = {"code": refused.code, "message": refused.message}
            self._answer(refused.status, JSON, json.dumps(said).encode())

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """Say nothing of versions."""
        return "towtank"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own
        """Say nothing: what was refused is counted."""
