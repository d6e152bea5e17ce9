"""What the contract suites share."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import leftovers
from towtank.errors import MachineError
from towtank.load.binary import find_engine
from towtank.platforms import ports
from towtank.platforms.base import DeployContext

SUPPORT = Path(__file__).parents[1] / "support"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def engine() -> Path:
    """The real engine: a contract that is tested without it is none."""
    try:
        return find_engine()
    except MachineError as error:
        pytest.fail(f"{error.message}; {error.hint}")


@pytest.fixture
def context(tmp_path: Path) -> Iterator[DeployContext]:
    """A deployment's surroundings; afterwards nothing of it may be left."""
    token = f"test-{os.getpid()}-{next(_numbers)}"
    yield DeployContext(
        name="subject",
        token=token,
        data_dir=tmp_path / "data",
        log_dir=tmp_path / "logs",
        root=SUPPORT,
        fixtures={"seed": tmp_path / "seed"},
    )
    assert leftovers.processes(token) == []
    assert leftovers.control_groups(token) == []


@pytest.fixture
def http_server() -> Iterator[str]:
    """An application that somebody else has deployed."""
    with ports.reserve_free() as held:
        port = held.port
    process = subprocess.Popen([sys.executable, str(SUPPORT / "http_app.py"), "--port", str(port)])
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + 10
    while ports.fixed_port_problem(port) is None:
        assert time.monotonic() < until
        time.sleep(0.01)
