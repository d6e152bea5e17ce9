"""CPU per request of the engine beside wrk and hey, in interleaved rounds on the same core."""

from __future__ import annotations

import math
import os
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import engine, nginx

CONNECTIONS = 64
NOISY = 1.3
"""A round in which wrk costs this much more than its own median says more of the machine than of the tools."""


def cpu_per_request(*, rounds: int, seconds: int, load_core: int, server_core: int) -> dict[str, Any]:
    """Measure all tools in turn, `rounds` times.

    Returns
    -------
    dict
        Per tool the µs of CPU (user + system) per request of every kept round, and median ratios to the engine.
    """
    tools = _tools(seconds, load_core)
    kept: list[dict[str, float]] = []
    everything: list[dict[str, float]] = []
    with nginx.serving(core=server_core) as url:
        for _ in range(rounds * 2):
            everything.append({name: us for tool in tools for name, us in tool(url).items()})
            wrk = [one["wrk"] for one in everything if "wrk" in one]
            limit = NOISY * statistics.median(wrk) if wrk else math.inf
            kept = [one for one in everything if one.get("wrk", 0.0) <= limit]
            if len(kept) >= rounds:
                break
    result: dict[str, Any] = {
        "connections": CONNECTIONS,
        "seconds": seconds,
        "rounds_kept": len(kept),
        "rounds_run": len(everything),
        "left_out": [name for name in ("wrk", "hey") if name not in kept[0]],
        "us_per_request": {name: [round(one[name], 3) for one in kept] for name in kept[0]},
    }
    for mine in ("towtank-engine", "towtank-engine + compaction"):
        for peer in ("wrk", "hey"):
            if peer in kept[0]:
                ratios = sorted(one[mine] / one[peer] for one in kept)
                result[f"{mine} ÷ {peer}"] = {
                    "median": round(statistics.median(ratios), 3),
                    "min": round(ratios[0], 3),
                    "max": round(ratios[-1], 3),
                }
    return result


def _tools(seconds: int, core: int) -> list[Callable[[str], dict[str, float]]]:
    def towtank(url: str) -> dict[str, float]:
        with tempfile.TemporaryDirectory(prefix="towtank-bench-") as name:
            folder = Path(name)
            job = engine.job(url, folder, engine.closed(CONNECTIONS, seconds))
            run = engine.run(job, folder, core=core)
        # compaction happens after the load; it is reported apart because it cannot disturb it
        driving_s = run.cpu_s - float(run.done["self"]["compact_cpu_s"])
        return {
            "towtank-engine": driving_s / run.rows * 1e6,
            "towtank-engine + compaction": run.cpu_s / run.rows * 1e6,
        }

    def wrk(url: str) -> dict[str, float]:
        text, cpu_s = _timed(core, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", url)
        return {"wrk": cpu_s / int(_found(r"(\d+) requests in", text)) * 1e6}

    def hey(url: str) -> dict[str, float]:
        text, cpu_s = _timed(core, "hey", "-cpus", "1", "-c", str(CONNECTIONS), "-z", f"{seconds}s", url)
        return {"hey": cpu_s / sum(int(n) for n in re.findall(r"\[\d+\]\s+(\d+) responses", text)) * 1e6}

    return [towtank, *(tool for tool in (wrk, hey) if shutil.which(tool.__name__))]


def _timed(core: int, *argv: str) -> tuple[str, float]:
    process = subprocess.Popen(["taskset", "-c", str(core), *argv], stdout=subprocess.PIPE, text=True)
    text = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{argv[0]} ended with code {process.returncode}")
    return text, usage.ru_utime + usage.ru_stime


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"cannot read the peer's output: no {pattern!r} in\n{text}")
    return match.group(1)
