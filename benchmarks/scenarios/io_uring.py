"""Would io_uring make the engine cheaper? The least that a load generator does, over epoll and over io_uring."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import engine, servers
from benchmarks.measure import Sample, Setting, Unmeasurable, interleaved, read_json
from benchmarks.measure import run as run_program
from benchmarks.peers import ClosedLoad, wrk

TITLE = "epoll or io_uring?"
CRATE = Path(__file__).resolve().parents[1] / "io_uring"
CONNECTIONS = 64
WAYS = ("epoll", "uring", "uring-multishot")
WORTH_IT = 0.95
"""io_uring is worth a second backend only below this share of epoll's cost."""


def run(setting: Setting) -> dict[str, Any]:
    """Interleaved rounds of the three ways, and of wrk; twice as many rounds as elsewhere, since the difference is small."""
    program = _build()
    seconds = max(1, setting.seconds // 2)
    with servers.nginx(core=setting.server_core) as server:
        port = server.url.rsplit(":", 1)[1].strip("/")

        def turn(way: str) -> Sample:
            done = run_program(
                [program, way, port, str(CONNECTIONS), str(seconds)], core=setting.load_core, seconds=seconds
            )
            told = read_json(done.output, way)
            cpu_s = (told["user_us"] + told["system_us"]) / 1e6
            return Sample(told["requests"], cpu_s, 0, done.wall_s, done.max_rss_bytes, told)

        contenders: dict[str, Callable[[], Sample]] = {
            engine.NAME: lambda: engine.measure(
                server.url, engine.closed(CONNECTIONS, seconds), core=setting.load_core
            ).sample(),
            **{way: (lambda way=way: turn(way)) for way in WAYS},  # type: ignore[misc]
            "wrk": lambda: wrk.closed(ClosedLoad(server.url, CONNECTIONS, seconds, setting.load_core)),
        }
        rounds = interleaved(
            contenders, setting.rounds if setting.fast else setting.rounds * 2, reference="wrk"
        )
    kernel = {
        way: round(
            statistics.median(one[way].more["system_us"] / one[way].requests for one in rounds.kept), 2
        )
        for way in WAYS
        if rounds.kept and way in rounds.kept[0]
    }
    return {
        "connections": CONNECTIONS,
        "seconds": seconds,
        "rounds_kept": len(rounds.kept),
        "rounds_run": rounds.run,
        "left_out": rounds.left_out,
        "us_per_request": rounds.costs(),
        "kernel_us_per_request": kernel,
        "ratios": {
            name: ratio
            for way in (*WAYS[1:], engine.NAME, "wrk")
            for name, ratio in rounds.ratios(way, ["epoll"]).items()
        },
        "worth_it_below": WORTH_IT,
    }


def _build() -> str:
    target = os.environ.get("CARGO_TARGET_DIR") or str(servers.ROOT / "target")
    done = subprocess.run(
        ["cargo", "build", "--release", "--quiet", "--message-format", "json-render-diagnostics",
         "--manifest-path", str(CRATE / "Cargo.toml"), "--target-dir", f"{target}/io-uring-experiment"],
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise Unmeasurable(f"the experiment cannot be built: {done.stderr[-400:]}")
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    found: str = next(m["executable"] for m in messages if m.get("executable"))
    return found


def show(result: dict[str, Any]) -> str:
    """A table, and the conclusion that follows from it."""
    lines = ["| way | µs CPU a request, median | range | of it in the kernel |", "|---|---|---|---|"]
    for way, us in result["us_per_request"].items():
        kernel = result["kernel_us_per_request"].get(way)
        lines.append(
            f"| {way} | {statistics.median(us):.2f} | {min(us):.2f} – {max(us):.2f} | {'' if kernel is None else f'{kernel:.2f}'} |"
        )
    ratios = "; ".join(
        f"{name} **{one['median']:.2f}** ({one['min']:.2f} – {one['max']:.2f})"
        for name, one in result["ratios"].items()
    )
    return f"""A program of its own (benchmarks/io_uring) that does the least a load generator can do: {result["connections"]} keep-alive connections to nginx, one request
in flight each, nothing parsed and nothing recorded. `epoll` is edge-triggered, a receive and a send for each request, as in the engine;
`uring` links a receive to each send, `uring-multishot` keeps one receive a connection into a ring of provided buffers; both have one
issuer, deferred task work, registered files, and no completions for sends. {result["rounds_kept"]} interleaved rounds of {result["seconds"]} s; start and
connecting are not counted, except for the engine and wrk. What the engine costs more than `epoll` is all that it does for a request:
schedule, journey, parsing, clock readings, record.

{chr(10).join(lines)}

Ratios within rounds: {ratios}.

{conclusion(result)}
{"".join(f"{chr(10)}Left out: {name} ({why}).{chr(10)}" for name, why in result["left_out"].items())}"""


def conclusion(result: dict[str, Any]) -> str:
    """What the figures say about a second backend."""
    ratios = {name: one for name, one in result["ratios"].items() if name.startswith("uring")}
    if not ratios:
        return "io_uring is not allowed here, so there is nothing to conclude."
    name, best = min(ratios.items(), key=lambda item: item[1]["median"])
    percent = (1 - best["median"]) * 100
    if best["median"] < result["worth_it_below"] and best["max"] < 1.0:
        return (
            f"**Worth building**: the better of the two needs {percent:.0f} % less than epoll ({name}), in every round less. "
            "The engine does not have it yet."
        )
    if best["median"] < result["worth_it_below"]:
        return (
            f"**Undecided**: the better of the two needs {percent:.0f} % less than epoll in the median ({name}), but not in every round. "
            "The engine stays with epoll, which containers allow too."
        )
    return (
        f"**Not built**: the better of the two ({name}) is {abs(percent):.0f} % {'below' if percent >= 0 else 'above'} epoll, and less than "
        f"{(1 - result['worth_it_below']) * 100:.0f} % does not pay for a second backend that most container sandboxes forbid. The engine uses epoll."
    )
