"""Readiness probes go the way that requests will go: certificates, sockets, host names and proxies included."""

from __future__ import annotations

import http.server
import shutil
import socketserver
import ssl
import subprocess
import threading

import pytest

from towtank.platforms.base import Instance, Target
from towtank.platforms.probe import Prober
from towtank.platforms.readiness import Ready
from towtank.platforms.transport import Transport

OPENSSL = shutil.which("openssl")
HEALTH = Ready(http="/health")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("host")))
        self.send_response(200 if self.path.endswith("/health") else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def address_string(self):
        return "somebody"

    def log_message(self, *_):
        """Say nothing."""


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@pytest.fixture
def serving():
    """Start servers that end with the test."""
    started = []

    def start(server):
        server.asked = []
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    assert OPENSSL, "these tests make certificates: install openssl"
    folder = tmp_path_factory.mktemp("pems")
    subprocess.run(
        [OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
         "a.key", "-out", "a.pem", "-days", "2", "-subj", "/CN=shop.example", "-addext",
         "subjectAltName=DNS:shop.example"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder


def probe(folder, url, ready=HEALTH, **transport):
    target = Target("app", (Instance("app-0", url),), transport=Transport.model_validate(transport))
    with Prober(folder) as prober:
        return prober.probe(url, ready, target, timeout_s=5)


def test_https_with_an_authority_of_our_own(serving, pems):
    server = serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pems / "a.pem", pems / "a.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = f"https://127.0.0.1:{server.server_address[1]}"
    assert probe(pems, url, tls={"ca": "a.pem"}, host="shop.example") is None
    assert server.asked[-1] == ("/health", "shop.example")
    assert probe(pems, url, tls={"insecure": True}) is None
    assert "CERTIFICATE_VERIFY_FAILED" in probe(pems, url)
    assert "mismatch" in probe(pems, url, tls={"ca": "a.pem", "server_name": "other.example"})
    assert "no connection could be prepared" in probe(pems, url, tls={"ca": "gone.pem"})


def test_a_unix_socket_with_a_prefix(serving, tmp_path):
    server = serving(UnixServer(str(tmp_path / "a.sock"), Handler))
    assert probe(tmp_path, f"unix:{tmp_path}/a.sock:/v1", host="app.example") is None
    assert server.asked == [("/v1/health", "app.example")]
    assert probe(tmp_path, f"unix:{tmp_path}/a.sock", Ready(tcp=True)) is None
    assert probe(tmp_path, f"unix:{tmp_path}/none.sock", Ready(tcp=True)) == "No such file or directory"


def test_through_a_proxy(serving, tmp_path):
    proxy = serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
    address = {"url": f"http://127.0.0.1:{proxy.server_address[1]}"}
    assert probe(tmp_path, "http://nowhere.invalid", proxy=address) is None
    assert proxy.asked == [("http://nowhere.invalid/health", "nowhere.invalid")]
    assert probe(tmp_path, "http://nowhere.invalid", Ready(tcp=True), proxy=address) is None
