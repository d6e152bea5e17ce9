"""`python -m benchmarks [peers] [open] [memory] [report] [--rounds N] [--seconds N]`: everything by default."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import peers, records, report

PARTS = ("peers", "open", "memory", "report")


def main() -> None:
    """Run the parts asked for, print them and keep them in benchmarks/results.json."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts; all without a word")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    pin = {"load_core": cores[-1], "server_core": cores[0]}
    kept: dict[str, Any] = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    for part in options.parts or PARTS:
        if part != "report" and nginx is None:
            print(f"{part}: left out, nginx is missing (Debian: apt-get install nginx-light)")
            continue
        began = datetime.now(UTC)
        if part == "peers":
            result: Any = peers.cpu_per_request(rounds=options.rounds, seconds=options.seconds, **pin)
        elif part == "open":
            result = records.open_load(**pin)
        elif part == "memory":
            result = records.memory(**pin)
        else:
            result = report.ten_million()
        kept[part] = {
            "measured_utc": began.isoformat(timespec="seconds"),
            "machine": _machine(),
            "result": result,
        }
        print(f"{part}:", json.dumps(result, indent=2, ensure_ascii=False))
        options.out.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _machine() -> str:
    info = Path("/proc/cpuinfo").read_text("utf-8")
    model = next(
        (line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name")), "?"
    )
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}"


if __name__ == "__main__":
    main()
