#!/usr/bin/env python3
"""Stands for `towtank-engine` where a real guard would have to be broken: speaks its protocol, and breaks it.

What it does is in the environment variable FAKE_GUARD: `ok`, `mute` (never ready), `dies` (at the first command),
`garbage` (events that are none), `refuses` (an `error` instead of an answer), `unclean` (exit code 1 at the end),
`sweep-fails`. It starts nothing; processes that it reports are itself.
"""

# ruff: noqa: T201, PTH123 - a program that prints, and that must start fast
from __future__ import annotations

import json
import os
import sys
import time

MODE = os.environ.get("FAKE_GUARD", "ok")
LOG = os.environ.get("FAKE_GUARD_LOG")


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def note(text: str) -> None:
    if LOG:
        with open(LOG, "a", encoding="utf-8") as file:
            file.write(text + "\n")


def exited(name: str, *, code: int | None, expected: bool) -> None:
    say(
        event="exited", id=name, pid=os.getpid(), code=code, signal=None if code is not None else 15,
        oom_killed=False, t_ns=time.monotonic_ns(), log_bytes=0, log_kept_bytes=0, descendants_killed=0,
        expected=expected, throttled_s=None, something_newer=1,
    )  # fmt: skip


def guard() -> int:
    if MODE == "mute":
        time.sleep(30)
        return 0
    if MODE == "garbage":
        print("this is no event", flush=True)
        print('["neither"]', flush=True)
        print('{"event": "spawned"}', flush=True)
    say(event="ready", pid=os.getpid(), start_ticks=1, boot_id="b", cgroup="none", note="no cgroups here")
    running: set[str] = set()
    for line in sys.stdin:
        command = json.loads(line)
        if MODE == "dies":
            print("the guard is not well", file=sys.stderr, flush=True)
            return 9
        if MODE == "refuses":
            say(event="error", message=f"cannot {command['cmd']}")
            continue
        match command["cmd"]:
            case "spawn" if command["argv"][0] == "missing":
                say(event="spawn_failed", id=command["id"], message="missing: no such file")
            case "spawn":
                running.add(command["id"])
                limits = {"cpu": "applied", "memory": "not permitted here", "cpus": None}
                say(
                    event="spawned",
                    id=command["id"],
                    pid=os.getpid(),
                    start_ticks=1,
                    cgroup=[],
                    limits=limits,
                )
                if command["argv"][0] == "short":
                    running.discard(command["id"])
                    exited(command["id"], code=3, expected=False)
            case "stop":
                running.discard(command["id"])
                exited(command["id"], code=None, expected=True)
            case "status":
                say(
                    event="status", instances={name: {"running": True, "oom_kills": None} for name in running}
                )
    say(event="bye")
    return 1 if MODE == "unclean" else 0


def main() -> int:
    note(" ".join(sys.argv[1:]))
    if sys.argv[1] == "guard":
        return guard()
    if MODE == "sweep-fails":
        print("survivors: 4711", file=sys.stderr)
        return 1
    say(event="swept", killed=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
