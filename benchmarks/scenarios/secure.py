"""TLS and HTTP/2: HTTP/1.1 over TLS, HTTP/2 with prior knowledge (h2c), HTTP/2 over TLS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks import engine, markdown, servers
from benchmarks.measure import Sample, Setting, Unmeasurable, interleaved, say
from benchmarks.peers import PEERS, ClosedLoad, wrk

TITLE = "TLS and HTTP/2"
CONNECTIONS = 64
HTTP2_CONNECTIONS = 8
STREAMS = 8
LIMIT = 1.0
CANARY_S = 2


@dataclass(frozen=True)
class Protocol:
    """One of the ways."""

    tls: bool
    http2: bool
    peers: tuple[str, ...]


PROTOCOLS = {
    "HTTP/1.1 over TLS": Protocol(tls=True, http2=False, peers=("wrk", "oha", "h2load", "hey")),
    "HTTP/2, prior knowledge": Protocol(tls=False, http2=True, peers=("oha", "h2load")),
    "HTTP/2 over TLS": Protocol(tls=True, http2=True, peers=("oha", "h2load")),
}


def run(setting: Setting) -> dict[str, Any]:
    """Each protocol with its own interleaved rounds."""
    results: dict[str, Any] = {}
    for name, protocol in PROTOCOLS.items():
        say(f"  {name}:")
        results[name] = _protocol(protocol, setting)
    return {"seconds": _seconds(setting), "protocols": results}


def _seconds(setting: Setting) -> int:
    return max(1, setting.seconds // 2)


def _protocol(protocol: Protocol, setting: Setting) -> dict[str, Any]:
    seconds, core = _seconds(setting), setting.load_core
    with (
        servers.nginx(core=setting.server_core, tls=protocol.tls, http2=protocol.http2) as server,
        servers.nginx(core=setting.server_core) as quiet,
    ):
        connections = HTTP2_CONNECTIONS if protocol.http2 else CONNECTIONS
        load = ClosedLoad(
            server.url,
            connections,
            seconds,
            core,
            http2=protocol.http2,
            streams=STREAMS if protocol.http2 else 1,
        )
        contenders: dict[str, Callable[[], Sample]] = {
            engine.NAME: lambda: _towtank(server, protocol, seconds, core),
            **{name: (lambda name=name: PEERS[name].closed(load)) for name in protocol.peers},  # type: ignore[misc]
            "canary": lambda: wrk.closed(ClosedLoad(quiet.url, CONNECTIONS, CANARY_S, core)),
        }
        rounds = interleaved(contenders, setting.rounds, reference="canary")
    facts = rounds.facts(seconds, without="canary")
    best = _best(facts["us_per_request"])
    return {
        "connections": connections,
        "streams": load.streams,
        **facts,
        "ratios": rounds.ratios(engine.NAME, protocol.peers),
        "limits": {f"{engine.NAME} ÷ {best}": LIMIT} if best else {},
    }


def _towtank(server: servers.Server, protocol: Protocol, seconds: int, core: int) -> Sample:
    target: dict[str, Any] = {"protocol": "http2" if protocol.http2 else "http1"}
    workload: dict[str, Any] = {}
    users = CONNECTIONS
    if protocol.tls:
        target["tls"] = {"ca_file": str(server.ca_file)}
    if protocol.http2:
        users = HTTP2_CONNECTIONS * STREAMS
        target["max_streams"] = STREAMS
        workload["connections"] = {"policy": "pool"}
    done = engine.measure(
        server.url, engine.closed(users, seconds), core=core, target=target, workload=workload
    )
    opened = done.own["connections_opened"]
    if protocol.http2 and opened > HTTP2_CONNECTIONS:
        raise Unmeasurable(f"it opened {opened} connections where {HTTP2_CONNECTIONS} were asked for")
    return done.sample()


def _best(costs: dict[str, list[float]]) -> str | None:
    """The peer that costs least; the limit is against it."""
    peers = {name: sorted(us)[len(us) // 2] for name, us in costs.items() if name != engine.NAME}
    return min(peers, key=lambda name: peers[name]) if peers and engine.NAME in costs else None


def show(result: dict[str, Any]) -> str:
    """One table of costs and ratios for each."""
    parts = [
        f"""nginx as above, a certificate on P-256, TLS 1.3; the limit of {LIMIT} is against the peer that costs least. {result["seconds"]} s a turn;
wrk against a plain nginx says which rounds were noisy.
"""
    ]
    for name, one in result["protocols"].items():
        streams = f" of {one['streams']} streams each" if one["streams"] > 1 else ""
        parts.append(
            f"\n### {name}\n\n{one['connections']} connections{streams}, {one['rounds_kept']} rounds kept of {one['rounds_run']}.\n\n"
            f"{markdown.costs(one)}\n{markdown.ratios(one)}"
        )
    return "".join(parts)
