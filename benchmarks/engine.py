"""Run `towtank-engine` on a job and read what it says of itself."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Sample, Unmeasurable, folder
from towtank.load import engine_build, find_engine

NAME = "towtank-engine"
WITH_COMPACTION = "towtank-engine + compaction"


@dataclass(frozen=True)
class EngineRun:
    """A finished run of the engine: its events, and CPU and memory as the kernel counted them."""

    ready: dict[str, Any]
    done: dict[str, Any]
    findings: list[str]
    cpu_s: float
    max_rss_bytes: int
    load_rss_bytes: int
    """Largest resident size seen during the load, that is before compaction."""
    wall_s: float
    parquet_bytes: int

    @property
    def rows(self) -> int:
        """Records kept."""
        return int(self.done["counts"]["rows"])

    @property
    def own(self) -> dict[str, Any]:
        """What it measured of itself."""
        found: dict[str, Any] = self.done["self"]
        return found

    def sample(self, *, compaction: bool = False) -> Sample:
        """Cost of the load; compaction happens after it, cannot disturb it, and is counted only on request."""
        outcomes: dict[str, int] = self.done["counts"]["by_outcome"]
        cut_off = outcomes.get("interrupted", 0)
        answered = outcomes.get("answered", 0)
        cpu_s = self.cpu_s - (0.0 if compaction else float(self.own["compact_cpu_s"]))
        more = {
            "bytes_per_record": round(self.parquet_bytes / max(self.rows, 1), 2),
            "compaction_us_per_record": round(float(self.own["compact_cpu_s"]) / max(self.rows, 1) * 1e6, 3),
            "lag_p99_us": self.own["lag_p99_us"],
            "backend": self.ready["backend"],
            "findings": self.findings,
            "not_answered": {
                name: n for name, n in outcomes.items() if name not in ("answered", "interrupted")
            },
        }
        failed = self.rows - cut_off - answered
        return Sample(answered, cpu_s, failed, self.wall_s, self.load_rss_bytes, more)


def job(
    url: str,
    folder: Path,
    load: Mapping[str, Any],
    *,
    steps: Sequence[Mapping[str, Any]] = ({"request": {"name": "get", "path": "/"}},),
    journey: Mapping[str, Any] | None = None,
    target: Mapping[str, Any] | None = None,
    workload: Mapping[str, Any] | None = None,
    timeout_s: float = 10.0,
) -> dict[str, Any]:
    """A job of one workload against `url`: by default one step, `GET /`."""
    return {
        "version": 1,
        "run_id": "benchmark",
        "seed": 1,
        "output": str(folder / "requests"),
        "threads": 1,
        "targets": {"app": {"instances": [{"name": "server", "url": url.rstrip("/")}], **(target or {})}},
        "workloads": [
            {
                "name": "get",
                "warmup_us": 0,
                "timeout_us": round(timeout_s * 1e6),
                "load": load,
                "journey": {"steps": list(steps), **(journey or {})},
                **(workload or {}),
            }
        ],
        "limits": {"max_connections": 20_000},
    }


def closed(users: int, seconds: float, *, iterations: int | None = None) -> dict[str, Any]:
    """A constant population without think time."""
    stage = {"name": "hold", "from_users": users, "to_users": users, "duration_us": round(seconds * 1e6)}
    return {"model": "closed", "stages": [stage], "graceful_us": 1_000_000, "iterations": iterations}


def open_uniform(rate_per_s: float, seconds: float, *, max_in_flight: int = 1000) -> dict[str, Any]:
    """A constant arrival rate."""
    stage = {
        "name": "hold",
        "from_per_s": rate_per_s,
        "to_per_s": rate_per_s,
        "duration_us": round(seconds * 1e6),
    }
    return {"model": "open", "arrivals": "uniform", "stages": [stage], "max_in_flight": max_in_flight}


def run(document: dict[str, Any], folder: Path, *, core: int | None = None) -> EngineRun:
    """Run a job as by hand, pinned to `core` if given."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.json"
    if core is not None:
        # As somebody does who gives the engine a core: it knows then that it need not share it.
        document = {**document, "cpus": [core]}
    path.write_text(json.dumps(document), encoding="utf-8")
    pin = ["taskset", "-c", str(core)] if core is not None else []
    began = time.monotonic()
    process = subprocess.Popen(
        [*pin, str(find_engine()), "run", "--no-lifeline", str(path)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    events: list[dict[str, Any]] = []
    load_rss = 0
    for line in process.stdout or ():
        events.append(json.loads(line))
        if events[-1]["event"] == "progress":
            load_rss = max(load_rss, resident_bytes(process.pid))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    by_kind = {event["event"]: event for event in events}
    if process.returncode or "done" not in by_kind:
        words = "; ".join(f"{e.get('path')}: {e['message']}" for e in events if e["event"] == "error")
        raise Unmeasurable(f"the engine ended with code {process.returncode}: {words or events[-1:]}")
    return EngineRun(
        ready=by_kind["ready"],
        done=by_kind["done"],
        findings=[event["name"] for event in events if event["event"] == "finding"],
        cpu_s=usage.ru_utime + usage.ru_stime,
        max_rss_bytes=usage.ru_maxrss * 1024,
        load_rss_bytes=load_rss,
        wall_s=time.monotonic() - began,
        parquet_bytes=(folder / "requests.parquet").stat().st_size,
    )


def measure(
    url: str,
    load: Mapping[str, Any],
    *,
    core: int,
    steps: Sequence[Mapping[str, Any]] = ({"request": {"name": "get", "path": "/"}},),
    journey: Mapping[str, Any] | None = None,
    target: Mapping[str, Any] | None = None,
    workload: Mapping[str, Any] | None = None,
) -> EngineRun:
    """Run such a job in a folder that is gone afterwards."""
    with folder() as here:
        document = job(url, here, load, steps=steps, journey=journey, target=target, workload=workload)
        return run(document, here, core=core)


def resident_bytes(pid: int) -> int:
    """Resident size of a process now; 0 when it has gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return 0
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(sizes[0]) * 1024 if sizes else 0


@functools.cache
def version() -> str:
    """The engine's own words; a debug build measures nothing, so the words are kept with the results."""
    return engine_build(find_engine()).line
