"""h2load: nghttp2's own generator, the reference for HTTP/2, in C++."""

from __future__ import annotations

from benchmarks.measure import Sample, run
from benchmarks.peers.base import ClosedLoad, Peer, find, found


def closed(load: ClosedLoad) -> Sample:
    """One thread; without HTTP/2 it speaks HTTP/1.1."""
    protocol = ["-m", str(load.streams)] if load.http2 else ["--h1"]
    done = run(
        [find("h2load"), *protocol, "-t1", f"-c{load.connections}", "-D", str(load.seconds), load.url],
        core=load.core, seconds=load.seconds,
    )  # fmt: skip
    requests = int(found(r"(\d+) done,", done.output, "h2load"))
    succeeded = int(found(r"(\d+) succeeded,", done.output, "h2load"))
    return Sample(requests, done.cpu_s, requests - succeeded, done.wall_s, done.max_rss_bytes)


PEER = Peer("h2load", "`-t1`, as many streams a connection as the others", ["h2load", "--version"], closed)
