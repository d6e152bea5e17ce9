"""The peers, one module each: how each is run at its best settings, and how its own summary is read.

Every peer is a `Peer`: a name, the settings in words (they go into docs/benchmarks.md), and `closed`, a closed load
without think time. What a peer can do beyond that (an open load, a script) is a function of its module. Programs are
looked for in `.peers/bin` (tools/peers.sh) before the PATH. Every peer is pinned to one core; what has threads to choose
is told to use one, since several would only take turns on it.
"""

from benchmarks.peers import h2load, hey, k6, locust, oha, vegeta, wrk
from benchmarks.peers.base import ClosedLoad, Peer, find, folder

PEERS: dict[str, Peer] = {
    peer.name: peer for peer in (wrk.PEER, h2load.PEER, oha.PEER, hey.PEER, vegeta.PEER, k6.PEER, locust.PEER)
}

__all__ = [
    "PEERS",
    "ClosedLoad",
    "Peer",
    "find",
    "folder",
    "h2load",
    "hey",
    "k6",
    "locust",
    "oha",
    "vegeta",
    "wrk",
]
