"""Tables that several scenarios show."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any


def costs(result: Mapping[str, Any]) -> str:
    """CPU per request of every contender, and what it got done on its core."""
    lines = ["| tool | µs CPU a request, median | range | requests/s on its core |", "|---|---|---|---|"]
    for tool, us in result["us_per_request"].items():
        lines.append(
            f"| {tool} | {statistics.median(us):.2f} | {min(us):.2f} – {max(us):.2f} | "
            f"{result['requests_per_s'][tool]:,} |"
        )
    failures = {tool: n for tool, n in result.get("failed", {}).items() if n}
    words = (
        [f"\nFailed requests: {', '.join(f'{tool} {n:,}' for tool, n in failures.items())}."]
        if failures
        else []
    )
    return "\n".join([*lines, *words]) + "\n" + left_out(result)


def left_out(result: Mapping[str, Any]) -> str:
    """Who could not be measured, and why."""
    missing = result.get("left_out") or {}
    return "".join(f"\nLeft out: {tool} ({why}).\n" for tool, why in missing.items())


def ratios(result: Mapping[str, Any]) -> str:
    """Ratios within rounds, and whether they keep their limits."""
    if not result["ratios"]:
        return "No ratio: fewer than two tools could be measured.\n"
    lines = ["| ratio within a round | median | range | limit | |", "|---|---|---|---|---|"]
    for name, ratio in result["ratios"].items():
        limit = result.get("limits", {}).get(name)
        lines.append(
            f"| {name} | **{ratio['median']:.2f}** | {ratio['min']:.2f} – {ratio['max']:.2f} | "
            + (f"{limit} | {kept(ratio['median'], limit)} |" if limit is not None else "| |")
        )
    return "\n".join(lines) + "\n"


def kept(value: float, limit: float) -> str:
    """Say whether a limit is kept."""
    return "kept" if value <= limit else "**missed**"
