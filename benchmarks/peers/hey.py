"""hey: the everyday closed-loop generator, in Go."""

from __future__ import annotations

import re

from benchmarks.measure import Sample, run
from benchmarks.peers.base import GO, ClosedLoad, Peer, find


def closed(load: ClosedLoad) -> Sample:
    """One worker for each connection."""
    http2 = ["-h2"] if load.http2 else []
    done = run(
        [find("hey"), *http2, "-cpus", "1", "-disable-compression", "-disable-redirects",
         "-c", str(load.connections), "-z", f"{load.seconds}s", load.url],
        core=load.core, seconds=load.seconds, env=GO,
    )  # fmt: skip
    answers = re.findall(r"\[(\d+)\]\s+(\d+) responses", done.output)
    bad = sum(int(n) for status, n in answers if not status.startswith("2"))
    return Sample(sum(int(n) for _, n in answers), done.cpu_s, bad, done.wall_s, done.max_rss_bytes)


PEER = Peer(
    "hey",
    "`-cpus 1`, without compression and redirects (which only cost it), `GOGC=400`",
    ["hey", "-version"],
    closed,
)
