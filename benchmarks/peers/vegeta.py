"""vegeta: constant-rate attacks whose every result is kept, in Go."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from benchmarks.measure import Sample, Unmeasurable, folder, read_json, run
from benchmarks.peers.base import GO, ClosedLoad, Peer, find


def closed(load: ClosedLoad) -> Sample:
    """Rate 0 is "as fast as the workers can"."""
    if load.http2:
        raise Unmeasurable("vegeta's HTTP/2 has no setting for streams on a connection")
    return _attack(
        load.url,
        ["-rate", "0", "-max-workers", str(load.connections)],
        load.connections,
        load.seconds,
        load.core,
    )


def open_load(url: str, rate: int, connections: int, seconds: int, core: int) -> Sample:
    """A constant rate; its latencies count from the actual start."""
    return _attack(url, ["-rate", f"{rate}/1s", "-max-workers", str(connections)], connections, seconds, core)


def _attack(url: str, pace: list[str], connections: int, seconds: int, core: int) -> Sample:
    with folder() as here:
        target, results = here / "target", here / "results"
        target.write_text(f"GET {url}\n", encoding="utf-8")
        done = run(
            [find("vegeta"), "attack", "-targets", target, "-output", results, "-duration", f"{seconds}s",
             *pace, "-workers", str(connections), "-connections", str(connections), "-max-body", "0",
             "-redirects", "-1", "-insecure"],
            core=core, seconds=seconds, env=GO,
        )  # fmt: skip
        summary = _report(results)
    statuses: dict[str, int] = summary["status_codes"]
    latencies = summary["latencies"]
    more = {
        "p50_us": round(latencies["50th"] / 1e3),
        "p99_us": round(latencies["99th"] / 1e3),
        "sent_per_s": round(summary["rate"], 1),
    }
    bad = sum(n for status, n in statuses.items() if not status.startswith("2"))
    answered = sum(statuses.values()) - statuses.get("0", 0)
    return Sample(answered, done.cpu_s, bad, done.wall_s, done.max_rss_bytes, more)


def _report(results: Path) -> dict[str, Any]:
    """Ask vegeta to read its own results; that is not part of the load."""
    done = subprocess.run(
        [find("vegeta"), "report", "-type", "json", str(results)], capture_output=True, text=True, check=False
    )
    return read_json(done.stdout, "vegeta")


PEER = Peer(
    "vegeta",
    "`-max-body 0 -redirects -1`, `GOMAXPROCS=1 GOGC=400`; results to a file as it recommends, the report made after the load",
    ["vegeta", "-version"],
    closed,
)
