"""Jobs for fleets, and carrying one out."""

from __future__ import annotations

import time
from typing import Any

from towtank.load.events import Done, Ready
from towtank.load.workers import Fleet


def never() -> None:
    """Nobody interrupts a test."""


def open_load(
    url: str,
    *,
    seconds: float,
    per_s: float = 200,
    arrivals: str = "poisson",
    threads: int = 1,
    feed: str | None = None,
) -> dict[str, Any]:
    """A job as the campaign makes it; `feed` is the name under which a file with the column `name` travels."""
    step = {"name": "get", "path": "/{{ names.name }}" if feed else "/"}
    stages = [{"name": "s", "from_per_s": per_s, "to_per_s": per_s, "duration_us": round(seconds * 1e6)}]
    return {
        "version": 1, "run_id": "workers", "seed": 11, "output": "elsewhere", "threads": threads,
        "targets": {"app": {"instances": [{"name": "app-0", "url": url}]}},
        **({"feeds": {"names": {"file": feed, "order": "sequential"}}} if feed else {}),
        "workloads": [
            {"name": "w", "warmup_us": 0, "timeout_us": 5_000_000, "journey": {"steps": [{"request": step}]},
             "load": {"model": "open", "arrivals": arrivals, "stages": stages}}
        ],
    }  # fmt: skip


def begin(fleet: Fleet) -> Ready:
    """Until the load is certain to begin."""
    ready = fleet.wait_ready(cancelled=never)
    zero_ns = time.monotonic_ns() + round(fleet.start_ahead_s * 1e9)
    fleet.start_at(zero_ns)
    assert fleet.wait_started(cancelled=never) == zero_ns
    return ready


def carry_out(fleet: Fleet) -> tuple[Ready, Done]:
    """A whole load."""
    return begin(fleet), fleet.wait_done(timeout_s=90, cancelled=never)
