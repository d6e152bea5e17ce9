"""The ingress of scaled local deployments beside nginx and HAProxy as plain proxies: CPU a request, and added latency."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from benchmarks import markdown, proxies, servers
from benchmarks.measure import Sample, Setting, Unmeasurable, interleaved, say, spread
from benchmarks.peers import ClosedLoad, wrk
from benchmarks.proxies import INGRESS, LIMITED, PROXIES
from benchmarks.scenarios import open_load

TITLE = "The ingress beside plain proxies"
CONNECTIONS = 64
RATE_PER_S = 1_000
"""Far below what any of them can: what is added is their way, not their queue."""
DIRECT = "no proxy"
QUIET_P99_US = 1_000
"""Without a proxy nothing takes longer on a quiet machine; a round in which it does says nothing of proxies."""


def run(setting: Setting) -> dict[str, Any]:
    """Costs at full load, then latencies at a low rate, each in interleaved rounds."""
    seconds = max(1, setting.seconds // 2)
    # The server shares the core of the load: whoever is measured has the other to itself.
    with servers.nginx(core=setting.load_core) as server:
        backend = server.url.removeprefix("http://").rstrip("/")
        turns: dict[str, Callable[[], Sample]] = {
            name: (lambda name=name: _cost(name, backend, seconds, setting))  # type: ignore[misc]
            for name in PROXIES
        }
        rounds = interleaved(turns, setting.rounds, reference="nginx")
        able = [name for name in PROXIES if name not in rounds.left_out]
        latency = _latencies(able, server.url, backend, seconds, setting)
    facts = rounds.facts(seconds)
    # What the core could do if it did nothing else: the load on the other one is not always enough for it.
    facts["requests_per_s"] = {
        name: round(1e6 / statistics.median(us)) for name, us in facts["us_per_request"].items()
    }
    return {
        "seconds": seconds,
        "connections": CONNECTIONS,
        "rate_per_s": RATE_PER_S,
        "versions": proxies.versions(),
        **facts,
        "ratios": {
            ratio: values
            for mine in (INGRESS, LIMITED)
            for ratio, values in rounds.ratios(mine, ["nginx", "haproxy"]).items()
        },
        "latency": latency,
    }


def _cost(name: str, backend: str, seconds: int, setting: Setting) -> Sample:
    with PROXIES[name](backend, setting.server_core) as proxy:
        before_s = proxy.cpu_s()
        done = wrk.closed(ClosedLoad(proxy.url, CONNECTIONS, seconds, setting.load_core))
        cpu_s = proxy.cpu_s() - before_s
    if done.failed:
        raise Unmeasurable(f"{done.failed} of {done.requests} requests failed")
    return Sample(done.requests, cpu_s, done.failed, done.wall_s)


def _latencies(
    names: list[str], direct: str, backend: str, seconds: int, setting: Setting
) -> dict[str, dict[str, Any]]:
    """In each quiet round everybody has a turn; what a proxy adds is against the turn without one of the same round."""
    rounds: list[dict[str, dict[str, Any]]] = []
    for _ in range(setting.rounds * 2):
        one = {DIRECT: open_load.towtank(direct, RATE_PER_S, seconds, setting.load_core)}
        if one[DIRECT]["p99_us"] > QUIET_P99_US:
            say(f"  not quiet: p99 without a proxy is {one[DIRECT]['p99_us']} µs")
            continue
        for name in names:
            with PROXIES[name](backend, setting.server_core) as proxy:
                one[name] = open_load.towtank(proxy.url, RATE_PER_S, seconds, setting.load_core)
        rounds.append(one)
        say(f"  { ({name: (turn['p50_us'], turn['p99_us']) for name, turn in one.items()}) } µs p50, p99")
        if len(rounds) == setting.rounds:
            break
    if not rounds:
        return {}
    return {
        name: {
            **{f"{q}_us": statistics.median(one[name][f"{q}_us"] for one in rounds) for q in ("p50", "p99")},
            **{
                f"added_{q}_us": spread([one[name][f"{q}_us"] - one[DIRECT][f"{q}_us"] for one in rounds])
                for q in ("p50", "p99")
                if name != DIRECT
            },
        }
        for name in (DIRECT, *names)
    }


def show(result: dict[str, Any]) -> str:
    """Who they are, what they cost, what they add."""
    settings = "".join(
        f"| {name} | {result['versions'].get(name.partition(',')[0], 'missing').partition(' (')[0].split()[-1]} | {words} |\n"
        for name, words in proxies.SETTINGS.items()
    )
    return f"""Each proxy alone on one core, in front of nginx with a 100-byte body; that server and the load share the other core. CPU is that of the
proxy's own processes, and requests/s are what a core has room for at that cost.

| proxy | version | settings |
|---|---|---|
{settings}
At full load, wrk with {result["connections"]} keep-alive connections, {result["seconds"]} s a turn, {result["rounds_kept"]} rounds kept of {result["rounds_run"]}:

{markdown.costs(result)}
{markdown.ratios(result)}
{_added(result)}"""


def _added(result: dict[str, Any]) -> str:
    """The table of latencies, or why there is none."""
    if not result["latency"]:
        return (
            f"No round at {result['rate_per_s']:,} requests a second was quiet (p99 without a proxy ≤ {QUIET_P99_US / 1000:g} ms): "
            "what a proxy adds to latencies was not measured.\n"
        )
    rows = []
    for name, one in result["latency"].items():
        added = [
            f"{one[key]['median']:,.0f} ({one[key]['min']:,.0f} – {one[key]['max']:,.0f})"
            if key in one
            else ""
            for key in ("added_p50_us", "added_p99_us")
        ]
        rows.append(f"| {name} | {one['p50_us']:,.0f} | {one['p99_us']:,.0f} | {added[0]} | {added[1]} |\n")
    return f"""At {result["rate_per_s"]:,} requests a second (open, {result["seconds"]} s a turn), what a proxy adds to the latency without one in the same round, in µs;
only rounds in which p99 without a proxy was at most {QUIET_P99_US / 1000:g} ms:

| | p50 | p99 | added p50, median (range) | added p99, median (range) |
|---|---|---|---|---|
{"".join(rows)}"""
