"""One step, keep-alive, every record kept: CPU per request beside every peer."""

from __future__ import annotations

from typing import Any

from benchmarks import engine, markdown, servers
from benchmarks.measure import Sample, Setting, interleaved
from benchmarks.peers import PEERS, ClosedLoad

TITLE = "CPU per request beside the peers"
CONNECTIONS = 64
LIMITS = {"wrk": 1.0, "oha": 0.8, "hey": 0.25, "k6": 0.13, "locust": 0.06}


def run(setting: Setting) -> dict[str, Any]:
    """Measure all tools in turn."""
    last: dict[str, engine.EngineRun] = {}
    with servers.nginx(core=setting.server_core) as server:
        load = ClosedLoad(server.url, CONNECTIONS, setting.seconds, setting.load_core)

        def towtank() -> Sample:
            users = engine.closed(CONNECTIONS, setting.seconds)
            last["run"] = engine.measure(server.url, users, core=setting.load_core)
            return last["run"].sample()

        contenders = {
            engine.NAME: towtank,
            engine.WITH_COMPACTION: lambda: last["run"].sample(compaction=True),
        }
        for name, peer in PEERS.items():
            contenders[name] = lambda peer=peer: peer.closed(load)  # type: ignore[misc]
        rounds = interleaved(contenders, setting.rounds, reference="wrk")
    return {
        "connections": CONNECTIONS,
        "seconds": setting.seconds,
        **rounds.facts(setting.seconds),
        "backend": last["run"].ready["backend"] if last else None,
        "ratios": rounds.ratios(engine.NAME, list(PEERS)) | rounds.ratios(engine.WITH_COMPACTION, ["wrk"]),
        "limits": {f"{engine.NAME} ÷ {peer}": limit for peer, limit in LIMITS.items()},
    }


def show(result: dict[str, Any]) -> str:
    """Tables of costs and ratios."""
    return f"""nginx with one worker on one core, a 100-byte body; the tool on the other core, {result["connections"]} keep-alive connections,
{result["seconds"]} s a turn, {result["rounds_kept"]} rounds kept of {result["rounds_run"]}. The engine keeps every request as a row and writes Parquet; wrk, h2load,
hey and Locust keep aggregates. Compaction to Parquet happens after the load and is shown apart. The engine's I/O backend: {result["backend"]}.

{markdown.costs(result)}
{markdown.ratios(result)}"""
