"""`python -m pod_program numbers|strange|flood|spans …`; only the standard library is there."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.request


def numbers(*, count: int, pause_s: float, crash_at: int) -> None:
    """Write numbered lines with the time of day at which each was written; end badly at one of them, in every life."""
    for number in range(count):
        os.write(1, f"line {number} {time.time_ns()}\n".encode())
        if number == crash_at:
            os._exit(3)
        time.sleep(pause_s)
    time.sleep(3600)


def strange() -> None:
    """Bytes of all kinds, a line of 1 MB, and no end."""
    os.write(1, bytes(range(256)).replace(b"\n", b"") + b"\n")
    left = memoryview(b"x" * 1_000_000 + b"\n")
    while left:
        left = left[os.write(1, left) :]
    os.write(1, b"no end")
    time.sleep(3600)


def flood(*, bytes_per_s: float, seconds: float) -> None:
    """Write as much as that, for a while; then how much it was."""
    line, written, begun = b"y" * 99 + b"\n", 0, time.monotonic()
    block = line * 1000
    while (spent := time.monotonic() - begun) < seconds:
        if written > spent * bytes_per_s:
            time.sleep(0.005)
            continue
        written += os.write(1, block)
    os.write(1, f"written {written}\n".encode())
    time.sleep(3600)


def spans(endpoint: str, *, every_s: float) -> None:
    """Send a span of its own again and again; say what became of it."""
    number = 0
    while True:
        number += 1
        now_ns = time.time_ns()
        span = {
            "traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "work", "kind": 2,
            "startTimeUnixNano": str(now_ns - 1_000_000), "endTimeUnixNano": str(now_ns),
        }  # fmt: skip
        attributes = [{"key": "service.name", "value": {"stringValue": "in-a-pod"}}]
        body = {
            "resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [span]}]}]
        }
        request = urllib.request.Request(
            f"{endpoint}/v1/traces", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                said = str(answer.status)
        except OSError as error:
            said = str(error)
        os.write(1, f"span {number}: {said}\n".encode())
        time.sleep(every_s)


def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("numbers")
    one.add_argument("--count", type=int, default=1000)
    one.add_argument("--pause-s", type=float, default=0.005)
    one.add_argument("--crash-at", type=int, default=-1)
    commands.add_parser("strange")
    two = commands.add_parser("flood")
    two.add_argument("--bytes-per-s", type=float, default=50e6)
    two.add_argument("--seconds", type=float, default=5.0)
    three = commands.add_parser("spans")
    three.add_argument("endpoint")
    three.add_argument("--every-s", type=float, default=0.2)
    given = vars(parser.parse_args())
    {"numbers": numbers, "strange": strange, "flood": flood, "spans": spans}[given.pop("command")](
        *[given.pop("endpoint")] if "endpoint" in given else [], **given
    )


if __name__ == "__main__":
    sys.exit(main())
