#!/usr/bin/env python3
"""Stands for k6: takes its command line, makes a few requests that it writes as k6 does, and can be told to misbehave.

FAKE_K6 says how: `ok`, `thresholds` (exit code 99), `script` (107, nothing recorded), `fails` (exit code 1 after its
requests), `cut` (the last line is cut off), `hangs` (never ends, and its child ignores SIGTERM), `busy` (uses a core),
`early`.
"""

# ruff: noqa: T201 - a program that prints
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

HEADER = (
    "metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,proto,scenario,"
    "service,status,subproto,tls_version,url,extra_tags,metadata"
)
TIMES = ("blocked", "connecting", "tls_handshaking", "sending", "waiting", "receiving")


def lines(url: str) -> list[str]:
    begun = time.perf_counter()
    with urlopen(url, timeout=5) as answer:
        answer.read()
    took_ms = (time.perf_counter() - begun) * 1000
    end = time.time_ns() // 1000
    values = dict.fromkeys(TIMES, 0.0) | {"waiting": took_ms, "duration": took_ms}
    tail = f",,,,true,,GET,{url},HTTP/1.1,default,,200,,,{url},,"
    found = [f"http_reqs,{end},1{tail}"]
    found += [f"http_req_{name},{end},{values[name]:.6f}{tail}" for name in ("duration", *TIMES)]
    return [*found, f"http_req_failed,{end},0{tail}"]


def main() -> int:
    if sys.argv[1:] == ["version"]:
        print("k6 v0.0.0 (fake)")
        return 0
    how = os.environ.get("FAKE_K6", "ok")
    out = Path(next(word for word in sys.argv if word.startswith("csv=")).removeprefix("csv="))
    if how == "script":
        print("\x1b[31mReferenceError: shop is not defined at file:///shop.js:3:1", file=sys.stderr)
        return 107
    if how == "hangs":
        child = subprocess.Popen(
            [sys.executable, "-c", "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"]
        )
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path("hanging").write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    assert os.environ["K6_CSV_TIME_FORMAT"] == "unix_micro"
    until = time.monotonic() + (0.2 if how == "early" else 1.5)
    found: list[str] = []
    while time.monotonic() < until:
        found += lines(os.environ["TOWTANK_URL"])
        while how == "busy" and time.monotonic() < until - 0.1:
            pass
        time.sleep(0.02)
    text = "\n".join([HEADER, *found]) + "\n"
    out.write_text(text[:-7] if how == "cut" else text)
    return {"thresholds": 99, "fails": 1}.get(how, 0)


if __name__ == "__main__":
    sys.exit(main())
