"""oha: closed and rate-limited loads over HTTP/1 and 2, in Rust."""

from __future__ import annotations

from typing import Any

from benchmarks.measure import Sample, read_json, run
from benchmarks.peers.base import ClosedLoad, Peer, find

_CUT_OFF = "aborted due to deadline"


def closed(load: ClosedLoad) -> Sample:
    """All connections from one thread."""
    http2 = ["--http-version", "2", "-p", str(load.streams)] if load.http2 else []
    return _run(
        [*http2, "-z", f"{load.seconds}s", "-c", str(load.connections), load.url], load.seconds, load.core
    )


def open_load(url: str, rate: int, connections: int, seconds: int, core: int) -> Sample:
    """A constant rate with its latencies from the intended start."""
    return _run(
        ["-z", f"{seconds}s", "-q", str(rate), "--latency-correction", "-c", str(connections), url],
        seconds,
        core,
    )


def _run(argv: list[str], seconds: int, core: int) -> Sample:
    done = run(
        [find("oha"), "--no-tui", "--output-format", "json", "--worker-threads", "1", "--disable-compression",
         "--insecure", *argv],
        core=core, seconds=seconds,
    )  # fmt: skip
    summary = read_json(done.output, "oha")
    statuses: dict[str, int] = summary["statusCodeDistribution"]
    errors: dict[str, int] = summary["errorDistribution"]
    bad = sum(n for status, n in statuses.items() if not status.startswith("2"))
    bad += sum(n for error, n in errors.items() if error != _CUT_OFF)
    percentiles: dict[str, Any] = summary["latencyPercentiles"]
    more = {
        name: round((percentiles.get(key) or 0.0) * 1e6)
        for name, key in (("p50_us", "p50"), ("p99_us", "p99"), ("p999_us", "p99.9"))
    }
    return Sample(sum(statuses.values()), done.cpu_s, bad, done.wall_s, done.max_rss_bytes, more)


PEER = Peer(
    "oha",
    "`--no-tui --worker-threads 1 --disable-compression`, its summary as JSON",
    ["oha", "--version"],
    closed,
)
