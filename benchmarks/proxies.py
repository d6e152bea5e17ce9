"""Reverse proxies in front of one server on loopback: our ingress, nginx and HAProxy, each with one thread on one core."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Unmeasurable, folder
from benchmarks.servers import free_port, wait_for
from towtank.errors import MachineError
from towtank.platforms.ingress import find_ingress

INGRESS = "towtank-ingress"
LIMITED = "towtank-ingress, limited"
"""With a concurrency limit for its instance, so that what is over it is held."""
LIMIT = 32
KEPT = 256
"""Connections to the server that nginx keeps; the others keep what they use."""
NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
worker_rlimit_nofile 65536;
events {{ worker_connections 32768; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 300s; tcp_nodelay on;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream backend {{ server {backend}; keepalive {kept}; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=16384;
    location / {{ proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
}}
"""
HAPROXY = """
global
  nbthread 1
  maxconn 2000
defaults
  mode http
  http-reuse always
  timeout connect 10s
  timeout client 300s
  timeout server 300s
frontend all
  bind 127.0.0.1:{port} backlog 16384
  default_backend all
backend all
  server one {backend}
"""
SETTINGS = {
    INGRESS: "one thread, one instance without a concurrency limit, headers of instance and hold",
    LIMITED: f"the same with a limit of {LIMIT} at once, so that half of the connections are held at any time",
    "nginx": f"one worker, `proxy_http_version 1.1`, {KEPT} kept connections to the server, no access log",
    "haproxy": "`nbthread 1`, `http-reuse always`, no log",
}


@dataclass(frozen=True)
class Proxy:
    """One that runs."""

    url: str
    pids: tuple[int, ...]

    def cpu_s(self) -> float:
        """User and system time of all its processes so far."""
        return sum(_cpu_s(pid) for pid in self.pids)


def _cpu_s(pid: int) -> float:
    """Of all its threads, to the nanosecond that the scheduler counts."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text("utf-8").split()[0]) for task in tasks.iterdir()) / 1e9


@contextmanager
def ingress(backend: str, core: int, *, concurrency: int = 0) -> Iterator[Proxy]:
    """Our own."""
    try:
        program = find_ingress()
    except MachineError as error:
        raise Unmeasurable(error.message) from error
    process = subprocess.Popen(
        ["taskset", "-c", str(core), str(program), "--instance-header", "x-instance", "--held-header", "x-held-us"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    if process.stdin is None or process.stdout is None:
        raise Unmeasurable("the ingress has no pipes")
    try:
        listen = json.loads(process.stdout.readline())["listen"]
        # Nobody reads what it tells, as nobody reads the others' logs; a line each second fits into the pipe.
        add = {"cmd": "add", "instance": "one", "address": backend, "concurrency": concurrency}
        process.stdin.write(json.dumps(add) + "\n")
        process.stdin.flush()
        if json.loads(process.stdout.readline())["event"] != "instance_ready":
            raise Unmeasurable("the ingress did not take its instance")
        yield Proxy(f"http://{listen}/", (process.pid,))
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(10)


@contextmanager
def nginx(backend: str, core: int) -> Iterator[Proxy]:
    """As its documentation says for kept connections to the server."""
    with folder() as here:
        here.chmod(0o755)
        config = here / "nginx.conf"
        port = free_port()
        config.write_text(NGINX.format(folder=here, port=port, backend=backend, kept=KEPT), encoding="utf-8")
        with _running("nginx", ["-c", str(config)], port, core) as pid:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()
            yield Proxy(f"http://127.0.0.1:{port}/", (pid, *map(int, children)))


@contextmanager
def haproxy(backend: str, core: int) -> Iterator[Proxy]:
    """One process in the foreground."""
    with folder() as here:
        config = here / "haproxy.cfg"
        port = free_port()
        config.write_text(HAPROXY.format(port=port, backend=backend), encoding="utf-8")
        with _running("haproxy", ["-db", "-f", str(config)], port, core) as pid:
            yield Proxy(f"http://127.0.0.1:{port}/", (pid,))


def _program(name: str) -> str:
    program = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        raise Unmeasurable(f"{name} is missing (tools/system-packages.sh bench)")
    return program


@contextmanager
def _running(name: str, arguments: list[str], port: int, core: int) -> Iterator[int]:
    process = subprocess.Popen(
        ["taskset", "-c", str(core), _program(name), *arguments],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_for(port, process, name)
        yield process.pid
    finally:
        process.terminate()
        process.communicate(timeout=10)


PROXIES: Mapping[str, Callable[[str, int], contextlib.AbstractContextManager[Proxy]]] = {
    INGRESS: ingress,
    LIMITED: lambda backend, core: ingress(backend, core, concurrency=LIMIT),
    "nginx": nginx,
    "haproxy": haproxy,
}


def versions() -> dict[str, str]:
    """As they say it themselves."""
    found = {}
    for name, flag in (("nginx", "-v"), ("haproxy", "-v")):
        with contextlib.suppress(Unmeasurable):
            said = subprocess.run([_program(name), flag], capture_output=True, text=True, check=False)
            match = re.search(r"\d+\.\d+\.\d+", said.stdout + said.stderr)
            found[name] = match.group(0) if match else "unknown"
    with contextlib.suppress(MachineError):
        said = subprocess.run([find_ingress(), "--version"], capture_output=True, text=True, check=False)
        found[INGRESS] = said.stdout.strip()
    return found
