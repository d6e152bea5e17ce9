"""Targets on loopback, pinned to one core: nginx (plain, TLS, HTTP/2), and the shop of our own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Unmeasurable

ROOT = Path(__file__).resolve().parents[1]
CONFIG = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
worker_rlimit_nofile 65536;
events {{ worker_connections 32768; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 300s; tcp_nodelay on;
  http2_max_requests 1000000000; http2_recv_timeout 300s;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port}{listen} backlog=16384;
    {tls}
    location / {{ default_type text/plain; return 200 "{body}"; }}
  }}
}}
"""
TLS = (
    "ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem; ssl_protocols TLSv1.2 TLSv1.3;"
)


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    url: str
    """With a slash at its end."""
    pid: int
    ca_file: Path | None = None


@contextmanager
def nginx(*, core: int, tls: bool = False, http2: bool = False, body_bytes: int = 100) -> Iterator[Server]:
    """Run nginx with one worker, a body of `body_bytes`, and keep-alive without end."""
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        raise Unmeasurable("nginx is missing (Debian: apt-get install nginx-light)")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="towtank-nginx-") as name:
        here = Path(name)
        here.chmod(0o755)
        if tls:
            _certificate(here)
        text = CONFIG.format(
            folder=here, port=port, body="x" * body_bytes, tls=TLS.format(folder=here) if tls else "",
            listen=(" ssl" if tls else "") + (" http2" if http2 else ""),
        )  # fmt: skip
        (here / "nginx.conf").write_text(text, encoding="utf-8")
        server = subprocess.Popen(
            ["taskset", "-c", str(core), program, "-c", str(here / "nginx.conf")],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            wait_for(port, server, "nginx")
            yield Server(
                f"{'https' if tls else 'http'}://127.0.0.1:{port}/",
                server.pid,
                here / "cert.pem" if tls else None,
            )
        finally:
            server.terminate()
            server.wait(10)


def _certificate(here: Path) -> None:
    """Make a self-signed certificate for 127.0.0.1 on P-256, which is what most of the web uses."""
    if shutil.which("openssl") is None:
        raise Unmeasurable("openssl is missing (Debian: apt-get install openssl)")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
         "-addext", "basicConstraints=critical,CA:FALSE",
         "-keyout", here / "key.pem", "-out", here / "cert.pem"],
        check=True, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def free_port() -> int:
    """Find a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def wait_for(port: int, server: subprocess.Popen[bytes], name: str) -> None:
    """Wait until a server listens."""
    for _ in range(100):
        if server.poll() is not None:
            said = server.stderr.read().decode(errors="replace") if server.stderr else ""
            raise Unmeasurable(f"{name} ended at once with code {server.returncode}: {said[-300:]}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise Unmeasurable(f"{name} did not start to listen within 5 s")


@dataclass(frozen=True)
class Shop:
    """The shop: it counts what its clients do, and what they do wrong, by kind."""

    url: str
    RIGHT = frozenset({"home", "home_new_session", "currency", "product", "add_to_cart", "cart", "checkout"})

    def clear(self) -> None:
        """Forget all counts."""
        request = urllib.request.Request(f"{self.url}counts", method="POST", data=b"")  # noqa: S310 - loopback
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310

    def counts(self) -> dict[str, int]:
        """Requests by kind since the last `clear`."""
        with urllib.request.urlopen(f"{self.url}counts", timeout=10) as answer:  # noqa: S310
            found: dict[str, int] = json.load(answer)
        return found


@contextmanager
def shop(*, core: int) -> Iterator[Shop]:
    """Build the shop server if need be (release), and serve."""
    done = subprocess.run(
        ["cargo", "build", "--release", "--quiet", "--message-format", "json-render-diagnostics", "-p",
         "towtank-engine", "--example", "shop_server"],
        cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise Unmeasurable(f"the shop server cannot be built: {done.stderr[-400:]}")
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    binary = next(m["executable"] for m in messages if m.get("target", {}).get("name") == "shop_server")
    with printing_its_port(["taskset", "-c", str(core), binary]) as port:
        yield Shop(f"http://127.0.0.1:{port}/")


@contextmanager
def printing_its_port(argv: list[str]) -> Iterator[int]:
    """Run a server that says `{"event": "serving", "port": n}` and ends with its stdin."""
    server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline() if server.stdout else ""
        if not line:
            raise Unmeasurable(f"{argv[-1]} ended at once with code {server.wait(10)}")
        yield int(json.loads(line)["port"])
    finally:
        if server.stdin:
            server.stdin.close()
        try:
            server.wait(5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(5)
        if server.stdout:
            server.stdout.close()
