"""Memory: per virtual user, with think time, and against the length of a run."""

from __future__ import annotations

import resource
from typing import Any

from benchmarks import engine, servers
from benchmarks.measure import LONGEST_REASON, Setting, Unmeasurable, say
from benchmarks.scenarios.shop import journey

TITLE = "Memory"
LIMIT_BYTES_PER_USER = 16 * 1024
DESCRIPTORS = 12_000


def run(setting: Setting) -> dict[str, Any]:
    """Resident size during the load, for crowds and for lengths."""
    _raise_descriptors()
    seconds = 3 if setting.fast else 20
    with servers.shop(core=setting.server_core) as shop, servers.nginx(core=setting.server_core) as nginx:
        crowds: dict[str, dict[str, Any]] = {
            "shop, think time 1–10 s": {
                "url": shop.url,
                "steps": journey(),
                "think_us": (1_000_000, 10_000_000),
                "users": 2_250,
            },
            "one step, think time 5–15 s": {
                "url": nginx.url,
                "steps": None,
                "think_us": (5_000_000, 15_000_000),
                "users": 10_000,
            },
        }
        users = {name: _able(setting, seconds, crowd) for name, crowd in crowds.items()}
        counts = (100_000, 1_000_000) if setting.fast else (1_000_000, 10_000_000)
        lengths = [_length(nginx.url, count, setting.load_core) for count in counts]
    return {
        "seconds": seconds,
        "limit_bytes_per_user": LIMIT_BYTES_PER_USER,
        "users": users,
        "lengths": lengths,
    }


def _raise_descriptors() -> None:
    """Let the servers that we start have as many connections as there are users."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        raise Unmeasurable(
            f"10,000 users need {DESCRIPTORS:,} descriptors; the hard limit is {hard:,} (ulimit -Hn)"
        )
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (DESCRIPTORS if hard == resource.RLIM_INFINITY else hard, hard)
    )


def _able(setting: Setting, seconds: int, crowd: dict[str, Any]) -> dict[str, Any]:
    try:
        return _crowd(setting, seconds, **crowd)
    except Unmeasurable as error:
        say(f"  {crowd['users']:,} users are left out: {error}")
        return {"users": crowd["users"], "left_out": str(error)[:LONGEST_REASON]}


def _crowd(
    setting: Setting,
    seconds: int,
    *,
    url: str,
    steps: list[dict[str, Any]] | None,
    think_us: tuple[int, int],
    users: int,
) -> dict[str, Any]:
    more: dict[str, Any] = {"journey": {"think": {"uniform_us": list(think_us)}}}
    if steps is not None:
        more["steps"] = steps

    def drive(population: int) -> engine.EngineRun:
        load = engine.closed(population, seconds) | {"start_spread_us": seconds * 1_000_000 // 2}
        return engine.measure(url, load, core=setting.load_core, **more)

    one, all_of_them = drive(1), drive(users)
    each = (all_of_them.load_rss_bytes - one.load_rss_bytes) / users
    say(f"  {users:,} users: {each:,.0f} bytes each")
    return {
        "users": users,
        "rss_mib_of_one": round(one.load_rss_bytes / 2**20, 1),
        "rss_mib": round(all_of_them.load_rss_bytes / 2**20, 1),
        "bytes_per_user": round(each),
        "connections_opened": all_of_them.own["connections_opened"],
        "by_outcome": all_of_them.done["counts"]["by_outcome"],
        "findings": all_of_them.findings,
    }


def _length(url: str, count: int, core: int) -> dict[str, Any]:
    done = engine.measure(url, engine.closed(64, 600, iterations=count), core=core)
    say(f"  {count:,} requests: {done.max_rss_bytes / 2**20:.0f} MiB")
    return {
        "requests": done.rows,
        "load_rss_mib": round(done.load_rss_bytes / 2**20, 1),
        "max_rss_mib": round(done.max_rss_bytes / 2**20, 1),
        "bytes_per_record": round(done.parquet_bytes / done.rows, 2),
        "compaction_us_per_record": round(done.own["compact_cpu_s"] / done.rows * 1e6, 3),
    }


def show(result: dict[str, Any]) -> str:
    """Crowds, then lengths."""
    limit = result["limit_bytes_per_user"]
    users = "".join(
        f"| {name} | {one['users']:,} | left out: {one['left_out']} | | | {limit / 1024:.0f} KiB | |\n"
        if "left_out" in one
        else f"| {name} | {one['users']:,} | {one['rss_mib']} MiB | {one['rss_mib_of_one']} MiB | "
        f"**{one['bytes_per_user'] / 1024:.1f} KiB** | {limit / 1024:.0f} KiB | "
        f"{'kept' if one['bytes_per_user'] < limit else '**missed**'} |\n"
        for name, one in result["users"].items()
    )
    lengths = "".join(
        f"| {one['requests']:,} | {one['load_rss_mib']} MiB | {one['max_rss_mib']} MiB | {one['bytes_per_record']} | "
        f"{one['compaction_us_per_record']} |\n"
        for one in result["lengths"]
    )
    return f"""Every user has a connection, a cookie jar and a journey of its own. Resident size during a load of {result["seconds"]} s, less that of one user:

| journey | users | resident | with one user | a user | limit | |
|---|---|---|---|---|---|---|
{users}
The length of a run costs no memory: closed load, 64 users, to a number of requests, every one kept.

| requests | resident, load | peak, compaction included | bytes on disk a record | compaction, µs CPU a record |
|---|---|---|---|---|
{lengths}"""
