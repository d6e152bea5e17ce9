"""The functions of apps/functions, built and started as processes of their own."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

MODES = ("binary", "structured")
HERE = Path(__file__).resolve().parents[2] / "apps" / "functions"


@dataclass(frozen=True)
class Runtime:
    """How a function is started, and where its runtime differs from the contract (CONTRACT.md names these)."""

    name: str
    command: tuple[str, ...]
    programs: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    differs: dict[tuple[str, str], int] = field(default_factory=dict)
    """Mode of an event and what is wrong about it → status that the runtime itself answers with."""
    answers_while_burning: bool = True
    exit_codes: tuple[int, ...] = (0,)


RUNTIMES = {
    runtime.name: runtime
    for runtime in (
        Runtime("go", ("build/function",), ("go",)),
        Runtime(
            "python", (sys.executable, "-m", "function"), environment={"PYTHONPATH": "build/site"},
            answers_while_burning=False
        ),
        Runtime(
            "typescript", ("node", "build/main.js"), ("node", "npm"), answers_while_burning=False,
            differs=dict.fromkeys(itertools.product(MODES, ("type", "source")), 500),
        ),
        Runtime("rust", ("build/function",), ("cargo",), answers_while_burning=False),
        Runtime(
            "quarkus", ("java", "-jar", "build/quarkus-app/quarkus-run.jar"), ("mvn", "javac"), exit_codes=(0, 143),
            differs={("structured", "type"): 500, ("structured", "data"): 500, ("binary", "data"): 500},
        ),
        Runtime(
            "springboot", ("java", "-jar", "build/unpacked/function.jar"), ("mvn", "javac"), exit_codes=(0, 143),
            differs={("structured", "id"): 200, ("structured", "type"): 200, ("structured", "source"): 200,
                     ("structured", "list"): 500},
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)

    @property
    def event(self) -> dict[str, Any]:
        """A CloudEvent in either mode: its attributes, and `data`."""
        if self.headers.get("content-type", "").startswith("application/cloudevents+json"):
            return self.json
        told = {name[3:]: value for name, value in self.headers.items() if name.startswith("ce-")}
        return {**told, "datacontenttype": self.headers["content-type"], "data": self.json}


@dataclass(frozen=True)
class Served:
    """A running instance."""

    runtime: Runtime
    process: subprocess.Popen[bytes]
    port: int

    def ask(
        self,
        path: str = "/",
        *,
        body: bytes | str | None = None,
        headers: dict[str, str] | None = None,
        timeout_s: float = 30,
    ) -> Answer:
        """Ask once, on a connection of its own: GET, or POST with a body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request("GET" if body is None else "POST", path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


def build(runtime: Runtime) -> None:
    """Build one; nothing happens when it is built already. Without its language's tools, the test is left out."""
    for program in runtime.programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing: tools/system-packages.sh functions")
    done = subprocess.run(
        [HERE / "build.sh", runtime.name], env={**os.environ, "PYTHON": sys.executable},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@contextlib.contextmanager
def serving(name: str, environment: dict[str, str] | None = None) -> Iterator[Served]:
    """Start an instance, wait until it is ready; end it."""
    runtime = RUNTIMES[name]
    build(runtime)
    port = free_port()
    variables = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    process = subprocess.Popen(
        runtime.command, cwd=HERE / name, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**variables, **runtime.environment, "PORT": str(port), **(environment or {})},
    )  # fmt: skip
    served = Served(runtime, process, port)
    try:
        wait_ready(served)
        yield served
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        process.stdout.close()


def free_port() -> int:
    """Return a port of loopback at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_ready(served: Served, within_s: float = 60) -> None:
    """Wait until an instance says that it is ready."""
    until = time.monotonic() + within_s
    while True:
        with contextlib.suppress(OSError):
            if served.ask("/health/readiness").status == 200:
                return
        said = served.process.poll()
        assert said is None, f"{served.runtime.name} ended with {said}: {served.process.stdout.read()!r}"
        assert time.monotonic() < until, f"{served.runtime.name} is not ready after {within_s} s"
        time.sleep(0.02)
