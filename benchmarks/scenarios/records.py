"""What keeping every request costs: bytes on disk, µs on the hot path and in compaction, memory against length."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

from benchmarks import engine, servers
from benchmarks.measure import LONGEST_REASON, Setting, Unmeasurable, say
from benchmarks.measure import run as run_program
from benchmarks.scenarios.shop import journey

TITLE = "Records: every request is kept"
LIMITS = {
    "keep-alive, one step": 8.0,
    "shop": 12.0,
    "fresh connections": 14.0,
    "hot path, µs CPU a record": 0.1,
    "compaction, µs CPU a record": 0.5,
}
NEW = {"connections": {"policy": "new"}}


def run(setting: Setting) -> dict[str, Any]:
    """Real loads for the sizes, synthetic records for cost and memory."""
    requests = 50_000 if setting.fast else 500_000
    disk: dict[str, dict[str, Any]] = {}
    with servers.nginx(core=setting.server_core) as nginx, servers.shop(core=setting.server_core) as shop:
        load = engine.closed(64, 120, iterations=requests)
        fresh = engine.closed(64, 120, iterations=min(requests, 100_000))
        # a journey may have several requests an iteration: fewer iterations make about as many records
        through = engine.closed(64, 120, iterations=requests // 2)
        turns = {
            "keep-alive, one step": lambda: engine.measure(nginx.url, load, core=setting.load_core),
            "shop": lambda: engine.measure(shop.url, through, core=setting.load_core, steps=journey()),
            "fresh connections": lambda: _fresh(nginx.url, fresh, setting.load_core),
        }
        for name, turn in turns.items():
            try:
                done = turn()
            except Unmeasurable as error:
                say(f"  {name} is left out: {error}")
                disk[name] = {"left_out": str(error)[:LONGEST_REASON]}
                continue
            disk[name] = {
                "records": done.rows,
                "bytes_per_record": round(done.parquet_bytes / done.rows, 2),
                "by_outcome": done.done["counts"]["by_outcome"],
            }
            say(f"  {name}: {disk[name]}")
    binary = _record_bench()
    counts = (1_000_000, 2_000_000) if setting.fast else (10_000_000, 100_000_000)
    synthetic = [_synthetic(binary, count, setting.load_core) for count in counts]
    return {"limits": LIMITS, "disk": disk, "synthetic": synthetic}


def _fresh(url: str, load: dict[str, Any], core: int) -> engine.EngineRun:
    done = engine.measure(url, load, core=core, workload=NEW)
    opened = done.own["connections_opened"]
    if opened < done.rows:
        raise Unmeasurable(f"it opened {opened:,} connections for {done.rows:,} requests")
    return done


def _record_bench() -> str:
    done = subprocess.run(
        ["cargo", "build", "--release", "--quiet", "--message-format", "json-render-diagnostics", "-p",
         "towtank-engine", "--example", "record_bench"],
        cwd=servers.ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise Unmeasurable(f"record_bench cannot be built: {done.stderr[-400:]}")
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found: str = next(m["executable"] for m in messages if m.get("target", {}).get("name") == "record_bench")
    return found


def _synthetic(binary: str, count: int, core: int) -> dict[str, Any]:
    done = run_program([binary, str(count), "journey"], core=core, seconds=count / 100_000)
    say("  " + " ".join(done.output.split()[:30]))

    def number(pattern: str) -> float:
        match = re.search(pattern, done.output)
        if match is None:
            raise Unmeasurable(f"cannot read record_bench: no {pattern!r} in {done.output!r}")
        return float(match.group(1))

    return {
        "records": count,
        "hot_path_us": number(r"([\d.]+) µs CPU/record to write"),
        "compaction_us": number(r"([\d.]+) µs CPU/record to compact"),
        "log_bytes_per_record": number(r"log\s+([\d.]+) bytes"),
        "bytes_per_record": number(r"parquet\s+([\d.]+) bytes"),
        "peak_mib": number(r"peak memory\s+(\d+) MiB"),
        "peak_mib_before_compaction": number(r"before compaction (\d+) MiB"),
    }


def show(result: dict[str, Any]) -> str:
    """Sizes and costs beside their limits."""
    limits = result["limits"]
    lines = ["| | bytes on disk a record | limit | |", "|---|---|---|---|"]
    for name, one in result["disk"].items():
        if "left_out" in one:
            lines.append(f"| {name} | left out: {one['left_out']} | {limits[name]:.0f} | |")
            continue
        verdict = "kept" if one["bytes_per_record"] <= limits[name] else "**missed**"
        lines.append(
            f"| {name} ({one['records']:,} records) | **{one['bytes_per_record']}** | {limits[name]:.0f} | {verdict} |"
        )
    synthetic = "".join(
        f"| {one['records']:,} | {one['hot_path_us']:.3f} | {one['compaction_us']:.3f} | {one['bytes_per_record']} | "
        f"{one['peak_mib_before_compaction']:.0f} MiB | {one['peak_mib']:.0f} MiB |\n"
        for one in result["synthetic"]
    )
    return f"""{chr(10).join(lines)}

Synthetic records of a journey through the same code (engine/examples/record_bench.rs), two threads' logs; limits: {limits["hot path, µs CPU a record"]} µs on the hot
path, {limits["compaction, µs CPU a record"]} µs in compaction, and memory that does not grow:

| records | hot path, µs CPU a record | compaction, µs CPU a record | bytes a record | peak memory before compaction | peak memory |
|---|---|---|---|---|---|
{synthetic}"""
