"""The IoT platform of apps/iot, built and started as processes of their own over one folder of data."""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.functions import Runtime, Served, free_port, wait_ready

HERE = Path(__file__).resolve().parents[2] / "apps" / "iot"
PROGRAM = HERE / "build" / "iot"
SECRET = "a secret of tests, long enough for HS256"


def build(what: str = "program") -> None:
    """Build or test the program with Go. Without Go the test is left out."""
    if shutil.which("go") is None:
        pytest.skip("go is missing: tools/system-packages.sh functions")
    done = subprocess.run(
        [HERE / "build.sh", what], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@dataclass
class Platform:
    """A folder of data, and the processes that work on it."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What every process of the platform is given; a sign-in is as cheap as it can be."""
        inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
        own = {
            "IOT_SECRET": SECRET,
            "IOT_DATA": str(self.folder / "data"),
            "IOT_PASSWORD_COST": "4",
            "HOST": "127.0.0.1",
        }
        return {**inherited, **own, **self.variables}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return subprocess.run(
            [PROGRAM, *arguments], cwd=self.folder, env={**self.environment, **variables},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def seed(self, users: int = 2, records: int = 5) -> list[dict[str, str]]:
        """Fill it; return the lines of the feed."""
        done = self.run("seed", f"--users={users}", "--devices=1", f"--records={records}")
        assert done.returncode == 0, done.stderr
        with (self.folder / "feed.csv").open(newline="") as feed:
            return list(csv.DictReader(feed))

    @contextlib.contextmanager
    def serving(self, *arguments: str) -> Iterator[Served]:
        """Start one process, wait until it is ready; end it."""
        port = free_port()
        said = self._log(*arguments).open("w+b")
        process = subprocess.Popen(
            [PROGRAM, *arguments], cwd=self.folder, start_new_session=True, stdout=said, stderr=subprocess.STDOUT,
            env={**self.environment, "PORT": str(port)},
        )  # fmt: skip
        process.stdout = said
        served = Served(Runtime(" ".join(arguments), ()), process, port)
        try:
            wait_ready(served)
            yield served
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
            said.close()

    def log(self, *arguments: str) -> str:
        """What a process has said so far."""
        return self._log(*arguments).read_text("utf-8")

    def _log(self, *arguments: str) -> Path:
        return self.folder / f"{'-'.join(arguments[:2]).replace('/', '-')}.log"


def bearer(token: str) -> dict[str, str]:
    """Headers of a request with a token."""
    return {"Authorization": f"Bearer {token}"}


def record(row: dict[str, str], value: float, timestamp: int) -> dict[str, Any]:
    """A record of the sensor of a line of the feed."""
    return {"sensor_id": int(row["sensor_id"]), "value": value, "timestamp": timestamp}
