"""Readiness probes go the way that requests will go: certificates, sockets, host names and proxies included."""

from __future__ import annotations

import pytest

from support import servers
from towtank.platforms.base import Instance, Target
from towtank.platforms.probe import Prober
from towtank.platforms.readiness import Ready
from towtank.platforms.transport import Transport

HEALTH = Ready(http="/health")


class Handler(servers.Quiet):
    def answer(self):
        self.server.got.append((self.path, self.headers.get("host")))
        self.send_response(200 if self.path.endswith("/health") else 404)
        self.send_header("content-length", "0")
        self.end_headers()


@pytest.fixture
def serving():
    with servers.serving() as start:
        yield start


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pems")
    servers.make_certificate(folder, "a", "subjectAltName=DNS:shop.example", subject="shop.example")
    return folder


def probe(folder, url, ready=HEALTH, **transport):
    target = Target("app", (Instance("app-0", url),), transport=Transport.model_validate(transport))
    with Prober(folder) as prober:
        return prober.probe(url, ready, target, timeout_s=5)


def test_https_with_an_authority_of_our_own(serving, pems):
    server = serving(servers.with_tls(servers.on_loopback(Handler), pems / "a.pem"))
    url = f"https://127.0.0.1:{server.server_address[1]}"
    assert probe(pems, url, tls={"ca": "a.pem"}, host="shop.example") is None
    assert server.got[-1] == ("/health", "shop.example")
    assert probe(pems, url, tls={"insecure": True}) is None
    assert "CERTIFICATE_VERIFY_FAILED" in probe(pems, url)
    assert "mismatch" in probe(pems, url, tls={"ca": "a.pem", "server_name": "other.example"})
    assert "no connection could be prepared" in probe(pems, url, tls={"ca": "gone.pem"})


def test_a_unix_socket_with_a_prefix(serving, tmp_path):
    server = serving(servers.UnixServer(str(tmp_path / "a.sock"), Handler))
    assert probe(tmp_path, f"unix:{tmp_path}/a.sock:/v1", host="app.example") is None
    assert server.got == [("/v1/health", "app.example")]
    assert probe(tmp_path, f"unix:{tmp_path}/a.sock", Ready(tcp=True)) is None
    assert probe(tmp_path, f"unix:{tmp_path}/none.sock", Ready(tcp=True)) == "No such file or directory"


def test_through_a_proxy(serving, tmp_path):
    proxy = serving(servers.on_loopback(Handler))
    address = {"url": f"http://127.0.0.1:{proxy.server_address[1]}"}
    assert probe(tmp_path, "http://nowhere.invalid", proxy=address) is None
    assert proxy.got == [("http://nowhere.invalid/health", "nowhere.invalid")]
    assert probe(tmp_path, "http://nowhere.invalid", Ready(tcp=True), proxy=address) is None
