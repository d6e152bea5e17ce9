"""wrk: the leanest closed-loop generator, in C. It keeps aggregates only."""

from __future__ import annotations

import re

from benchmarks.measure import Sample, Unmeasurable, run
from benchmarks.peers.base import ClosedLoad, Peer, find, found


def closed(load: ClosedLoad) -> Sample:
    """One thread, all connections."""
    if load.http2:
        raise Unmeasurable("wrk does not speak HTTP/2")
    done = run(
        [find("wrk"), "-t1", f"-c{load.connections}", f"-d{load.seconds}s", load.url],
        core=load.core, seconds=load.seconds,
    )  # fmt: skip
    requests = int(found(r"(\d+) requests in", done.output, "wrk"))
    return Sample(requests, done.cpu_s, _failed(done.output), done.wall_s, done.max_rss_bytes)


def _failed(text: str) -> int:
    """Socket errors of every kind, and answers other than 2xx and 3xx."""
    sockets = re.search(r"Socket errors: (.*)", text)
    numbers = re.findall(r"\d+", sockets.group(1)) if sockets else []
    return sum(map(int, numbers + re.findall(r"Non-2xx or 3xx responses: (\d+)", text)))


PEER = Peer("wrk", "`-t1`: one thread on its core, no Lua script", ["wrk", "-v"], closed)
