"""Run `towtank-engine` on a job and read what it says of itself."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towtank.load import find_engine


@dataclass(frozen=True)
class EngineRun:
    """A finished run of the engine: its `done` event, and CPU and memory as the kernel counted them."""

    done: dict[str, Any]
    cpu_s: float
    max_rss_bytes: int
    parquet_bytes: int

    @property
    def rows(self) -> int:
        """Records kept."""
        return int(self.done["counts"]["rows"])


def job(url: str, folder: Path, load: dict[str, Any], *, timeout_s: float = 10.0) -> dict[str, Any]:
    """A one-step job against `url`."""
    return {
        "version": 1,
        "run_id": "benchmark",
        "seed": 1,
        "output": str(folder / "requests"),
        "threads": 1,
        "targets": {"app": {"instances": [{"name": "nginx", "url": url.rstrip("/")}]}},
        "workloads": [
            {
                "name": "get",
                "warmup_us": 0,
                "timeout_us": round(timeout_s * 1e6),
                "load": load,
                "journey": {"steps": [{"request": {"name": "get", "path": "/"}}]},
            }
        ],
    }


def closed(users: int, seconds: float, *, iterations: int | None = None) -> dict[str, Any]:
    """A constant population without think time."""
    stage = {"name": "hold", "from_users": users, "to_users": users, "duration_us": round(seconds * 1e6)}
    return {"model": "closed", "stages": [stage], "graceful_us": 1_000_000, "iterations": iterations}


def open_uniform(rate_per_s: float, seconds: float) -> dict[str, Any]:
    """A constant arrival rate."""
    stage = {
        "name": "hold",
        "from_per_s": rate_per_s,
        "to_per_s": rate_per_s,
        "duration_us": round(seconds * 1e6),
    }
    return {"model": "open", "arrivals": "uniform", "stages": [stage], "max_in_flight": 1000}


def run(document: dict[str, Any], folder: Path, *, core: int | None = None) -> EngineRun:
    """Run a job by hand, pinned to `core` if given."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    pin = ["taskset", "-c", str(core)] if core is not None else []
    process = subprocess.Popen(
        [*pin, str(find_engine()), "run", "--no-lifeline", str(path)], stdout=subprocess.PIPE, text=True
    )
    events = [json.loads(line) for line in process.stdout or ()]
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    done = [event for event in events if event["event"] == "done"]
    if process.returncode or not done:
        raise SystemExit(f"the engine ended with code {process.returncode}: {events[-1:]}")
    return EngineRun(
        done=done[0],
        cpu_s=usage.ru_utime + usage.ru_stime,
        max_rss_bytes=usage.ru_maxrss * 1024,
        parquet_bytes=(folder / "requests.parquet").stat().st_size,
    )
