"""An nginx of our own on loopback: one worker on one core, a 100-byte body, keep-alive without end."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONFIG = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 300s; tcp_nodelay on;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ default_type text/plain; return 200 "{body}"; }} }}
}}
"""


@contextmanager
def serving(*, core: int, body_bytes: int = 100) -> Iterator[str]:
    """Serve on a free port, pinned to `core`; yields the base URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="towtank-nginx-") as folder:
        config = Path(folder, "nginx.conf")
        config.write_text(CONFIG.format(folder=folder, port=port, body="x" * body_bytes), encoding="utf-8")
        program = next(
            p for p in ("/usr/sbin/nginx", "/usr/bin/nginx", "nginx") if Path(p).exists() or p == "nginx"
        )
        server = subprocess.Popen(["taskset", "-c", str(core), program, "-c", str(config)])
        try:
            _wait_for(port, server)
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()
            server.wait(10)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(100):
        if server.poll() is not None:
            raise SystemExit(f"nginx ended at once with code {server.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("nginx did not start to listen within 5 s")
