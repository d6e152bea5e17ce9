"""k6: journeys in JavaScript, in Go."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from benchmarks.measure import Sample, Unmeasurable, read_json, run
from benchmarks.peers.base import GO, SCRIPTS, ClosedLoad, Peer, find

_SETTINGS = [
    "run", "--quiet", "--no-color", "--no-usage-report", "--no-thresholds", "--log-output", "none",
    "--address", "", "--insecure-skip-tls-verify",
]  # fmt: skip


def closed(load: ClosedLoad) -> Sample:
    """`constant-vus`, one virtual user for each connection."""
    if load.http2:
        raise Unmeasurable("k6 has no setting for streams on a connection")
    return script(SCRIPTS / "get.js", load.url, load.connections, load.seconds, load.core)


def script(path: Path, url: str, users: int, seconds: int, core: int) -> Sample:
    """Virtual users that carry out a script without waits."""
    env = {"TARGET": url, "VUS": str(users), "DURATION": f"{seconds}s"}
    return _run(path, env, seconds, core, less_start_up=True)


def open_load(url: str, rate: int, users: int, seconds: int, core: int) -> Sample:
    """`constant-arrival-rate`; what no user is free for is dropped, and counted so."""
    env = {"TARGET": url, "VUS": str(users), "RATE": str(rate), "DURATION": f"{seconds}s"}
    return _run(SCRIPTS / "get.js", env, seconds, core, less_start_up=True)


def _run(path: Path, env: dict[str, str], seconds: int, core: int, *, less_start_up: bool) -> Sample:
    done = run([find("k6"), *_SETTINGS, path], core=core, seconds=seconds, env={**env, **GO})
    summary = read_json(done.output, "k6")
    start_up_s = start_up_cpu_s(path, core) if less_start_up else 0.0
    duration: dict[str, Any] = summary.get("duration", {})
    more = {
        "p50_us": round(1e3 * duration.get("med", 0.0)),
        "p99_us": round(1e3 * duration.get("p(99)", 0.0)),
        "p999_us": round(1e3 * duration.get("p(99.9)", 0.0)),
        "dropped": summary.get("dropped", 0),
        "start_up_cpu_s": round(start_up_s, 3),
    }
    return Sample(
        summary["requests"], done.cpu_s - start_up_s, summary["failed"], done.wall_s, done.max_rss_bytes, more
    )


@functools.cache
def start_up_cpu_s(path: Path, core: int) -> float:
    """CPU of a run of one iteration: compiling the script and the like, which says nothing about requests."""
    env = {"TARGET": "http://127.0.0.1:9/", "VUS": "1", "ITERATIONS": "1"}
    return min(_run(path, env, 5, core, less_start_up=False).cpu_s for _ in range(3))


PEER = Peer(
    "k6",
    "bodies discarded where the script does not read them, no thresholds, no usage report, no REST server, only the "
    "system tags that tell steps and failures apart, `GOMAXPROCS=1 GOGC=400`; the CPU of its start is taken off",
    ["k6", "version"],
    closed,
)
