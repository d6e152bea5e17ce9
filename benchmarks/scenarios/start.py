"""From the start of `towtank-engine` to its first request at the server."""

from __future__ import annotations

import json
import selectors
import socket
import statistics
import subprocess
import time
from typing import Any

from benchmarks import engine
from benchmarks.measure import Setting, Unmeasurable, folder
from towtank.load import find_engine

TITLE = "Start to first request"
LIMIT_MS = 20.0
TURNS = 30
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def run(setting: Setting) -> dict[str, Any]:
    """Start the engine often, each time with a job that begins at once."""
    turns = [_turn(setting.load_core) for _ in range(5 if setting.fast else TURNS)]
    return {
        "turns": len(turns),
        "limit_ms": LIMIT_MS,
        "accepted_ms": _summary([accepted for accepted, _ in turns]),
        "first_byte_ms": _summary([first_byte for _, first_byte in turns]),
    }


def _summary(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 2),
        "min": round(min(values), 2),
        "max": round(max(values), 2),
    }


def _turn(core: int) -> tuple[float, float]:
    """From just before the process is made until its connection, and the first byte of its request, are there, ms."""
    with socket.create_server(("127.0.0.1", 0)) as listener, folder() as here:
        listener.settimeout(10)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        path = here / "job.json"
        path.write_text(
            json.dumps(engine.job(url, here, engine.closed(1, 5, iterations=1))), encoding="utf-8"
        )
        began = time.monotonic()
        process = subprocess.Popen(
            ["taskset", "-c", str(core), str(find_engine()), "run", "--no-lifeline", str(path)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            client, _ = listener.accept()
            accepted = time.monotonic()
            with client, selectors.DefaultSelector() as selector:
                selector.register(client, selectors.EVENT_READ)
                selector.select(10)
                first_byte = time.monotonic()
                client.recv(65536)
                client.sendall(ANSWER)
                code = process.wait(20)
        except TimeoutError as error:
            process.kill()
            process.wait()
            raise Unmeasurable("the engine did not connect within 10 s") from error
        if code:
            raise Unmeasurable(f"the engine ended with code {code}")
    return (accepted - began) * 1e3, (first_byte - began) * 1e3


def show(result: dict[str, Any]) -> str:
    """One sentence."""
    accepted, first = result["accepted_ms"], result["first_byte_ms"]
    verdict = "kept" if first["median"] < result["limit_ms"] else "**missed**"
    return f"""From before the process is made (`taskset` and its exec included) to the connection at the server: median **{accepted["median"]} ms**
({accepted["min"]} – {accepted["max"]}), to the first byte of the request {first["median"]} ms ({first["min"]} – {first["max"]}), {result["turns"]} starts. Limit {result["limit_ms"]:.0f} ms: {verdict}. 3 ms of it are
the engine's own wait, which lets all threads begin together.
"""
