"""Debian's Prometheus and Netdata on free ports of loopback, started and ended by the test."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROMETHEUS = shutil.which("prometheus")
NETDATA = shutil.which("netdata") or shutil.which("netdata", path="/usr/sbin")
INSTALL = "`tools/system-packages.sh test` installs it, as root on Debian"


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(url: str) -> Any:
    """JSON of an address."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path, longest_s: float = 60.0) -> None:
    """Wait until an address answers 200; the log is shown when it never does."""
    deadline = time.monotonic() + longest_s
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        ended = process.poll()
        if ended is not None or time.monotonic() > deadline:
            raise AssertionError(
                f"{url} does not answer ({ended}): {log.read_text(errors='replace')[-2000:]}"
            )
        time.sleep(0.05)


@dataclass
class Running:
    """A server that runs; can be killed and started again on the same port and data."""

    words: Sequence[str]
    url: str
    ready: str
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.log.parent,
                env={**os.environ, **self.environment},
            )  # fmt: skip
        wait_for(self.url + self.ready, self.process, self.log)

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(20)
            self.process = None

    def stop(self) -> None:
        """SIGTERM, then SIGKILL."""
        if self.process is not None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            self.kill()


@contextlib.contextmanager
def prometheus(folder: Path, *, every: str = "250ms", targets: Sequence[str] = ()) -> Iterator[Running]:
    """A real Prometheus that scrapes itself, and `targets` as the job `app`."""
    if PROMETHEUS is None:
        pytest.skip(f"prometheus is not here; {INSTALL}")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    jobs = [{"job_name": "self", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]
    if targets:
        jobs.append({"job_name": "app", "static_configs": [{"targets": list(targets)}]})
    settings = {"scrape_interval": every, "scrape_timeout": every}
    config = folder / "prometheus.yml"  # JSON is YAML
    config.write_text(json.dumps({"global": settings, "scrape_configs": jobs}), encoding="utf-8")
    running = Running(
        [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}"],
        f"http://127.0.0.1:{port}", "/-/ready", folder / "prometheus.log",
    )  # fmt: skip
    try:
        running.start()
        deadline = time.monotonic() + 60
        while not ask(f"{running.url}/api/v1/query?query=up")["data"]["result"]:
            assert time.monotonic() < deadline, running.log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)  # it begins to scrape five seconds after its start
        yield running
    finally:
        running.stop()


@contextlib.contextmanager
def netdata(folder: Path) -> Iterator[Running]:
    """A real Netdata that keeps what its own /proc collector reads, in memory."""
    if NETDATA is None:
        pytest.skip(f"netdata is not here; {INSTALL}")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    for name in ("cache", "lib", "log", "etc", "web", "plugins"):
        (folder / name).mkdir(exist_ok=True)
    config = folder / "netdata.conf"
    config.write_text(
        "[global]\n"
        f"  run as user = {'root' if os.geteuid() == 0 else os.environ.get('USER', 'nobody')}\n"
        "[directories]\n"
        f"  config = {folder}/etc\n  stock config = {folder}/etc\n  log = {folder}/log\n  web = {folder}/web\n"
        f'  cache = {folder}/cache\n  lib = {folder}/lib\n  home = {folder}\n  plugins = "{folder}/plugins"\n'
        "[db]\n  mode = ram\n  update every = 1\n"
        "[web]\n  mode = static-threaded\n  bind to = 127.0.0.1\n"
        f"  default port = {port}\n"
        "[plugins]\n  proc = yes\n  enable running new plugins = no\n  cgroups = no\n  tc = no\n  idlejitter = no\n"
        "  timex = no\n  statsd = no\n  apps = no\n  diskspace = no\n  slabinfo = no\n"
        "[health]\n  enabled = no\n[ml]\n  enabled = no\n[statsd]\n  enabled = no\n[registry]\n  enabled = no\n"
        "[cloud]\n  enabled = no\n",
        encoding="utf-8",
    )
    running = Running(
        [NETDATA, "-D", "-c", str(config), "-P", str(folder / "netdata.pid")],
        f"http://127.0.0.1:{port}", "/api/v1/chart?chart=system.cpu", folder / "netdata.log",
        {"DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1"},
    )  # fmt: skip
    try:
        running.start()
        yield running
    finally:
        running.stop()
