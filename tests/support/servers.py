"""Servers on threads of the test itself: plain, on a Unix socket, with TLS; and the certificates that they show."""

from __future__ import annotations

import contextlib
import http.server
import shutil
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

OPENSSL = shutil.which("openssl")


class Quiet(http.server.BaseHTTPRequestHandler):
    """A handler that answers every method alike, writes nothing, and looks up no names (clients on Unix sockets have
    none)."""

    def answer(self) -> None:
        """Answer one request."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.answer()

    do_POST = do_GET  # noqa: N815

    def address_string(self) -> str:
        return "somebody"

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A server on a Unix socket, one thread a connection."""

    daemon_threads = True


def on_loopback(handler: type[Quiet]) -> Any:
    """A server on a free port of loopback, not yet started."""
    return http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)


def with_tls(server: Any, certificate: Path) -> Any:
    """Put TLS in front of a server that has not been started; the key lies beside the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server


@contextlib.contextmanager
def serving() -> Iterator[Callable[[Any], Any]]:
    """Start servers that end with the block; handlers put what they were asked for into ``server.got``."""
    started = []

    def start(server: Any) -> Any:
        server.got = []
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        started.append(server)
        return server

    try:
        yield start
    finally:
        for server in started:
            server.shutdown()
            server.server_close()


def openssl(folder: Path, *words: str) -> None:
    """Run openssl in a folder."""
    assert OPENSSL, "this test makes certificates: install openssl"
    subprocess.run([OPENSSL, *words], cwd=folder, check=True, capture_output=True)


def make_certificate(folder: Path, name: str, *extensions: str, subject: str = "localhost") -> Path:
    """Make ``name.pem``, signed with its own key ``name.key``, with these X.509 extensions."""
    more = [word for extension in extensions for word in ("-addext", extension)]
    openssl(
        folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", f"/CN={subject}", *more,
    )  # fmt: skip
    return folder / f"{name}.pem"
