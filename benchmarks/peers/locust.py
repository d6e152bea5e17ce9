"""Locust: journeys in Python. `FastHttpUser` is the faster of its two clients."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from benchmarks.measure import Finished, Sample, Unmeasurable, run
from benchmarks.peers.base import SCRIPTS, ClosedLoad, Peer, find


def closed(load: ClosedLoad) -> Sample:
    """One user for each connection."""
    if load.http2:
        raise Unmeasurable("FastHttpUser does not speak HTTP/2")
    return script(SCRIPTS / "get_locust.py", load.url, load.connections, load.seconds, load.core)


def script(path: Path, url: str, users: int, seconds: int, core: int) -> Sample:
    """Users that carry out a locustfile without waits."""
    done = _locust(path, url, ["-u", str(users), "-r", str(users), "-t", f"{seconds}s"], seconds, core)
    entries = _entries(done.output)
    requests = sum(int(entry["num_requests"]) for entry in entries)
    failed = sum(int(entry["num_failures"]) for entry in entries)
    start_up_s = start_up_cpu_s(path, core)
    return Sample(
        requests, done.cpu_s - start_up_s, failed, done.wall_s, done.max_rss_bytes,
        {"start_up_cpu_s": round(start_up_s, 3)},
    )  # fmt: skip


@functools.cache
def start_up_cpu_s(path: Path, core: int) -> float:
    """CPU of a run of a single request: imports and the like, which say nothing about requests."""
    argv = ["-u", "1", "-r", "1", "-t", "5s"]
    runs = [
        _locust(path, "http://127.0.0.1:9/", argv, 5, core, env={"TOWTANK_ONE": "1"}).cpu_s for _ in range(3)
    ]
    return min(runs)


def _locust(
    path: Path, url: str, argv: list[str], seconds: int, core: int, *, env: dict[str, str] | None = None
) -> Finished:
    return run(
        [find("locust"), "-f", path, "-H", url.rstrip("/"), "--headless", "--only-summary", "--json",
         "--loglevel", "CRITICAL", "--exit-code-on-error", "0", *argv],
        core=core, seconds=seconds, env=env,
    )  # fmt: skip


def _entries(text: str) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(text[text.index("[") :])
    except ValueError as error:
        raise Unmeasurable(f"the summary of locust cannot be read: {text[-200:]!r}") from error
    return found


PEER = Peer(
    "locust",
    "`FastHttpUser`, headless, no periodic tables or logs, one process (there is one core); the CPU of its start is "
    "taken off",
    ["locust", "--version"],
    closed,
)
