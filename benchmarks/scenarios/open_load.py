"""Open load: the highest rate that one core sustains on time, and what the peers make of the same rates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import engine, servers
from benchmarks.measure import LONGEST_REASON, Sample, Setting, Unmeasurable, folder, say
from benchmarks.peers import k6, oha, vegeta

TITLE = "Open load at the highest rate of one core"
RATES = (5_000, 25_000)
IN_FLIGHT = 1_000
PEER_CONNECTIONS = 64
PROBE_S = 3
LAG_P99_US = 1_000
LAG_P999_US = 5_000
OPENED_US = 500_000
"""Connections are opened in the first half second, hundreds at once: what is sustained is counted from then on."""
DOWN = 0.9
"""Each rung of the ladder is this much of the one above."""
MOST_RUNGS = 24
KEPT_OF_RUNGS = ("due", "answered", "lag_p99_us", "lag_p999_us", "findings")


def run(setting: Setting) -> dict[str, Any]:
    """Search the engine's rate, then let everybody have a turn at it and at a rate that all can drive."""
    with servers.nginx(core=setting.server_core) as server:
        seconds = setting.seconds
        highest, rungs = _highest(server.url, setting)
        tools: dict[str, Callable[[int], dict[str, Any]]] = {
            engine.NAME: lambda rate: towtank(server.url, rate, seconds, setting.load_core),
            "oha": lambda rate: _peer(
                oha.open_load(server.url, rate, PEER_CONNECTIONS, seconds, setting.load_core), seconds
            ),
            "vegeta": lambda rate: _peer(
                vegeta.open_load(server.url, rate, PEER_CONNECTIONS, seconds, setting.load_core), seconds
            ),
            "k6": lambda rate: _peer(
                k6.open_load(server.url, rate, 256, seconds, setting.load_core), seconds
            ),
        }
        turns: dict[str, list[dict[str, Any]]] = {}
        left_out: dict[str, str] = {}
        for rate in (*RATES, *([highest] if highest else [])):
            for name, tool in tools.items():
                try:
                    turn = {"rate_per_s": rate, **tool(rate)}
                except Unmeasurable as error:
                    left_out[name] = str(error)[:LONGEST_REASON]
                    continue
                say(f"  {name} at {rate:,}/s: {turn}")
                turns.setdefault(name, []).append(turn)
    return {
        "seconds": seconds,
        "closed_per_s": rungs[0]["closed_per_s"],
        "highest_per_s": highest,
        "limits_us": {"lag_p99": LAG_P99_US, "lag_p999": LAG_P999_US},
        "rungs": rungs,
        "turns": turns,
        "left_out": left_out,
    }


def _highest(url: str, setting: Setting) -> tuple[int | None, list[dict[str, Any]]]:
    """Climb down from what a closed load reaches until a rate is driven on time, twice of three times and once for a whole turn."""
    probe_s = 1 if setting.fast else PROBE_S
    closed = engine.measure(url, engine.closed(64, probe_s), core=setting.load_core).sample()
    rate = closed.requests / probe_s
    rungs: list[dict[str, Any]] = [{"closed_per_s": round(rate)}]
    for _ in range(MOST_RUNGS):
        rate *= DOWN
        probe = partial(_rung, rungs, url, round(rate, -2), core=setting.load_core)
        held = 0
        for attempt in range(3):
            held += probe(probe_s)
            if held == 2 or held < attempt:
                break
        if held == 2 and probe(setting.seconds):
            return int(round(rate, -2)), rungs
    say(f"  no rate down to {rate:,.0f}/s was driven on time; the machine is too busy")
    return None, rungs


def _rung(rungs: list[dict[str, Any]], url: str, rate: float, seconds: float, *, core: int) -> bool:
    turn = towtank(url, rate, seconds, core)
    rungs.append({"rate_per_s": rate, "seconds": seconds} | {key: turn[key] for key in KEPT_OF_RUNGS})
    return on_time(turn)


def on_time(turn: dict[str, Any]) -> bool:
    """Whether everything due was sent, in time."""
    return bool(
        turn["lag_p99_us"] < LAG_P99_US
        and turn["lag_p999_us"] < LAG_P999_US
        and turn["answered"] == turn["due"]
    )


def towtank(url: str, rate: float, seconds: float, core: int) -> dict[str, Any]:
    """One turn of the engine; latencies from the intended start, exact over all rows."""
    with folder() as here:
        load = engine.open_uniform(rate, seconds, max_in_flight=IN_FLIGHT)
        done = engine.run(engine.job(url, here, load), here, core=core)
        columns = ["lag_us", "wait_us", "ttfb_us", "after_ttfb_us"]
        table = pq.read_table(here / "requests.parquet", columns=["scheduled_us", *columns])
    latency = table["lag_us"]
    for name in columns[1:]:
        latency = pc.add(latency, pc.fill_null(table[name], 0))
    p50, p99, p999 = pc.quantile(latency, q=[0.5, 0.99, 0.999]).to_pylist()
    sustained = table["lag_us"].filter(pc.greater_equal(table["scheduled_us"], OPENED_US))
    lag_p50, lag_p99, lag_p999, lag_max = pc.quantile(sustained, q=[0.5, 0.99, 0.999, 1]).to_pylist()
    sample = done.sample()
    return {
        "due": done.done["counts"]["due"],
        "answered": sample.requests,
        "per_s": round(sample.requests / seconds),
        "p50_us": round(p50),
        "p99_us": round(p99),
        "p999_us": round(p999),
        "lag_p50_us": round(lag_p50),
        "lag_p99_us": round(lag_p99),
        "lag_p999_us": round(lag_p999),
        "lag_max_us": round(lag_max),
        "us_per_request": round(sample.us_per_request, 2),
        "findings": done.findings,
    }


def _peer(sample: Sample, seconds: float) -> dict[str, Any]:
    return {
        "per_s": round(sample.requests / seconds),
        "failed": sample.failed,
        "us_per_request": round(sample.us_per_request, 2),
        **sample.more,
    }


def show(result: dict[str, Any]) -> str:
    """What was asked for, and what was driven."""
    lines = [
        "| tool | asked for, /s | driven, /s | p50 | p99 | p99.9 | CPU µs a request | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, turns in result["turns"].items():
        for turn in turns:
            own = (
                f"lag p99 {turn['lag_p99_us']:,} µs, p99.9 {turn['lag_p999_us']:,} µs"
                if "due" in turn
                else ""
            )
            dropped = f"{turn['dropped']:,} dropped" if turn.get("dropped") else ""
            failed = f"{turn['failed']:,} failed" if turn.get("failed") else ""
            p999 = f"{turn['p999_us']:,} µs" if "p999_us" in turn else "not told"
            lines.append(
                f"| {name} | {turn['rate_per_s']:,.0f} | {turn['per_s']:,} | {turn['p50_us']:,} µs | {turn['p99_us']:,} µs | "
                f"{p999} | {turn['us_per_request']:.2f} | {'; '.join(w for w in (own, dropped, failed) if w)} |"
            )
    missing = "".join(f"\nLeft out: {name} ({why}).\n" for name, why in result["left_out"].items())
    limits = result["limits_us"]
    highest = result["highest_per_s"]
    lowest = min(rung["rate_per_s"] for rung in result["rungs"][1:])
    drives = (
        f"drives **{highest:,} requests a second** on time"
        if highest
        else f"drove no rate down to {lowest:,.0f}/s on time"
    )
    return f"""The engine, pinned to one core, {drives}: lag (from due to picked up) p99 < {limits["lag_p99"] / 1000:.0f} ms
and p99.9 < {limits["lag_p999"] / 1000:.0f} ms from the first {OPENED_US / 1e6:g} s on, in which connections are opened, every arrival sent and answered; a closed load of 64 users reaches {result["closed_per_s"]:,}/s there. Then everybody was asked for
that rate, and for lower ones, {result["seconds"]} s each. The engine's and oha's latencies (`--latency-correction`) count from the intended
start, vegeta's and k6's from the actual one: what they were late is not in their figures. The search asks for twice {PROBE_S} s and once a
whole turn on time; the turns below came after it. Their latencies hold all of a turn, also its beginning, where the engine opens up to
{IN_FLIGHT:,} connections while it is sending, and the peers {PEER_CONNECTIONS} to 256 at most: that is where its highest percentiles come from. wrk2, the reference for this, is in none of
the registries that the peers come from.

{chr(10).join(lines)}
{missing}"""
