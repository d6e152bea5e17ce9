"""`python -m benchmarks [scenario …] [--fast] [--rounds N] [--seconds N]`: everything by default."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import engine
from benchmarks.measure import Setting, Unmeasurable, say
from benchmarks.peers import PEERS
from benchmarks.scenarios import SCENARIOS

RESULTS = Path(__file__).with_name("results.json")


def main() -> None:
    """Run the scenarios asked for, print them and keep them in benchmarks/results.json."""
    options = _options()
    cores = sorted(os.sched_getaffinity(0))
    setting = Setting(
        load_core=cores[-1],
        server_core=cores[0],
        rounds=1 if options.fast else options.rounds,
        seconds=2 if options.fast else options.seconds,
        fast=options.fast,
    )
    out = options.out or (None if options.fast else RESULTS)
    kept: dict[str, Any] = json.loads(out.read_text("utf-8")) if out and out.exists() else {}
    versions = {peer.name: peer.version() for peer in PEERS.values()} | {engine.NAME: engine.version()}
    for name in options.scenarios or SCENARIOS:
        began, began_utc = time.monotonic(), datetime.now(UTC)
        say(f"{name}:")
        busy = os.getloadavg()[0]
        try:
            result: dict[str, Any] = SCENARIOS[name].run(setting)
        except Unmeasurable as error:
            say(f"{name} is left out: {error}")
            continue
        entry = {
            "measured_utc": began_utc.isoformat(timespec="seconds"),
            "took_s": round(time.monotonic() - began),
            "load_average_before": round(busy, 2),
            "machine": machine(),
            "versions": versions,
            "result": result,
        }
        say(f"\n## {SCENARIOS[name].TITLE} ({entry['took_s']} s)\n\n{SCENARIOS[name].show(result)}")
        if out:
            kept = {key: value for key, value in (kept | {name: entry}).items() if key in SCENARIOS}
            out.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("scenarios", nargs="*", help=f"which; all without a word: {', '.join(SCENARIOS)}")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds to keep")
    parser.add_argument("--seconds", type=int, default=7, help="length of a turn")
    parser.add_argument(
        "--fast", action="store_true", help="one round of 2 s, to see that it works: no figures to keep"
    )
    parser.add_argument("--out", type=Path, help=f"default: {RESULTS.name} beside this; with --fast nowhere")
    options = parser.parse_args()
    unknown = set(options.scenarios) - set(SCENARIOS)
    if unknown:
        parser.error(f"no scenario {', '.join(sorted(unknown))}; there are {', '.join(SCENARIOS)}")
    if options.rounds < 1 or options.seconds < 1:
        parser.error("rounds and seconds are at least 1")
    return options


def machine() -> str:
    """Processor, cores, kernel."""
    info = Path("/proc/cpuinfo").read_text("utf-8")
    model = next(
        (line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name")), "?"
    )
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}"


if __name__ == "__main__":
    main()
