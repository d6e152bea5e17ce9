"""The servers that the IoT platform can keep its data in, each as one process with a folder and ports of its own."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.functions import free_port
from support.iot import HERE

SERVERS = HERE / "servers"


@dataclass
class Server:
    """A process that can be ended and started again over the same data."""

    name: str
    command: list[str]
    port: int
    folder: Path
    ready_s: float = 120.0
    process: subprocess.Popen[bytes] | None = None

    @property
    def said(self) -> Path:
        """Where it writes what it says."""
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        """Start it; wait until it takes connections."""
        with self.said.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until = time.monotonic() + self.ready_s
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            ended = self.process.poll()
            assert ended is None, f"{self.name} ended with {ended}: {self.said.read_text('utf-8')[-3000:]}"
            assert time.monotonic() < until, (
                f"{self.name} is not ready: {self.said.read_text('utf-8')[-3000:]}"
            )
            time.sleep(0.1)

    def stop(self) -> None:
        """Kill it, as a machine does that loses its power."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
            self.process = None


def needs(program: str, package: str) -> str:
    """Return where a program is; without it the test is left out."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        pytest.skip(f"{program} is missing: tools/system-packages.sh iot (Debian: {package})")
    return found


def jars(server: str) -> str:
    """Bring a server's jars; return its class path."""
    needs("mvn", "maven")
    needs("javac", "default-jdk-headless")
    done = subprocess.run(
        [SERVERS / "build.sh", server],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    return str(SERVERS / server / "build" / "jars" / "*")


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    """Start a server; end it."""
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def mariadb(folder: Path) -> Iterator[Server]:
    """Run a MariaDB with one user `iot`, who may do everything and needs no password on loopback."""
    program, install = needs("mariadbd", "mariadb-server"), needs("mariadb-install-db", "mariadb-server")
    data, port = folder / "mariadb", free_port()
    as_root = ["--user=root"] if os.geteuid() == 0 else []
    made = subprocess.run(
        [install, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", *as_root],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout
    first = folder / "first.sql"
    statements = (
        "CREATE USER IF NOT EXISTS iot@'127.0.0.1'",
        "GRANT ALL ON *.* TO iot@'127.0.0.1'",
        "CREATE DATABASE IF NOT EXISTS iot",
    )
    first.write_text("".join(f"{statement};\n" for statement in statements))
    command = [
        program, "--no-defaults", f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1",
        f"--socket={folder}/sql.sock", f"--pid-file={folder}/sql.pid", f"--init-file={first}",
        "--innodb-buffer-pool-size=32M", "--skip-name-resolve", *as_root,
    ]  # fmt: skip
    with running(Server("mariadb", command, port, folder)) as server:
        yield server


@contextlib.contextmanager
def kafka(folder: Path) -> Iterator[Server]:
    """Run a Kafka of one process that is broker and controller."""
    classes, port, controller = jars("kafka"), free_port(), free_port()
    settings = folder / "server.properties"
    settings.write_text(
        f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/kafka
offsets.topic.replication.factor=1
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=2
"""
    )
    java = [
        needs("java", "default-jdk-headless"),
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        classes,
    ]
    cluster = secrets.token_urlsafe(16)[:22]
    made = subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", settings],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout
    with running(Server("kafka", [*java, "kafka.Kafka", str(settings)], port, folder)) as server:
        yield server


@contextlib.contextmanager
def search(folder: Path) -> Iterator[Server]:
    """Run an OpenSearch of one node."""
    classes, port = jars("search"), free_port()
    java = [needs("java", "default-jdk-headless"), "-Xmx384m", "-XX:+UseSerialGC", "-cp", classes]
    command = [*java, "search.Search", str(folder / "search"), str(port), str(free_port())]
    with running(Server("search", command, port, folder)) as server:
        yield server
