#!/usr/bin/env python3
"""Stands for `towtank-ingress` where its speed plays no part: speaks its protocol, forwards GET, a thread a request.

It holds requests, spreads them over instances in the order of their names, and says each second what it saw (or each
FAKE_INGRESS_EVERY_S). FAKE_INGRESS says what goes wrong: `mute` (never ready), `old` (another protocol).
"""

# ruff: noqa: T201 - a program that prints, and that must start fast
from __future__ import annotations

import argparse
import contextlib
import http.client
import http.server
import json
import os
import socket
import socketserver
import sys
import threading
import time
from typing import Any

MODE = os.environ.get("FAKE_INGRESS", "")
EVERY_S = float(os.environ.get("FAKE_INGRESS_EVERY_S", "1"))
REASONS = ("pending", "queue", "held", "rate", "concurrent", "refused", "broke", "malformed", "ending")
STATUS = {"pending": 503, "held": 504, "concurrent": 429, "refused": 503, "broke": 502, "ending": 503}
_writing = threading.Lock()


def say(event: str, **fields: Any) -> None:
    with _writing:
        print(json.dumps({"event": event, **fields}), flush=True)


class State:
    """Instances, requests that wait, and what was counted since the last second."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.instances: dict[str, dict[str, Any]] = {}
        self.limits: dict[str, Any] = {
            "pending": 1024,
            "held_timeout_ms": 300_000,
            "concurrent_invocations": None,
        }
        self.held = self.arrivals = self.held_total = self.in_flight = 0
        self.area_ns = self.held_area_ns = 0
        self.from_ns = self.last_ns = time.monotonic_ns()
        self.answered: dict[str, int] = {}
        self.made = dict.fromkeys(REASONS, 0)
        self.ending = False

    def elapse(self) -> None:
        """Add up areas under curves until now; call before any count changes."""
        now = time.monotonic_ns()
        for one in self.instances.values():
            one["area_ns"] += one["in_flight"] * (now - self.last_ns)
        self.area_ns += (self.held + self.in_flight) * (now - self.last_ns)
        self.held_area_ns += self.held * (now - self.last_ns)
        self.last_ns = now

    def free(self) -> str | None:
        for name, one in sorted(self.instances.items()):
            if one["state"] == "ready" and (not one["concurrency"] or one["in_flight"] < one["concurrency"]):
                return name
        return None

    def take(self) -> tuple[str, int, bool] | str:
        """An instance, how long it took to get it, and whether it started meanwhile; or why there is none."""
        came = time.monotonic_ns()
        with self.changed:
            self.elapse()
            self.arrivals += 1
            limit = self.limits["concurrent_invocations"]
            if limit is not None and self.held + self.in_flight >= limit:
                return "concurrent"
            if (name := self.free()) is None:
                if self.limits["pending"] is not None and self.held >= self.limits["pending"]:
                    return "pending"
                self.held += 1
                self.held_total += 1
                ready = sum(one["state"] == "ready" for one in self.instances.values())
                say(
                    "wanted",
                    t_ns=time.monotonic_ns(),
                    reason="arrival",
                    held=self.held,
                    in_flight=self.in_flight,
                    ready=ready,
                )
                self.changed.wait_for(
                    lambda: self.ending or self.free(), self.limits["held_timeout_ms"] / 1000
                )
                self.elapse()
                self.held -= 1
                name = self.free()
                if name is None:
                    return "ending" if self.ending else "held"
            one = self.instances[name]
            held_ns = time.monotonic_ns() - came
            if not one["requests_ever"]:
                say("first_request", instance=name, t_ns=time.monotonic_ns(), held_ns=held_ns)
            one["in_flight"] += 1
            one["requests"] += 1
            one["requests_ever"] += 1
            self.in_flight += 1
            return name, held_ns, one["ready_ns"] > came

    def done(self, name: str, status: int | None) -> None:
        with self.changed:
            self.elapse()
            self.in_flight -= 1
            one = self.instances.get(name)
            if one is not None:
                one["in_flight"] -= 1
                if one["state"] == "draining" and not one["in_flight"]:
                    say("drained", instance=name, t_ns=time.monotonic_ns())
            if status is not None:
                self.answered[str(status)] = self.answered.get(str(status), 0) + 1
            self.changed.notify_all()

    def stats(self) -> None:
        with self.changed:
            self.elapse()
            took = max(1, self.last_ns - self.from_ns)
            instances = {
                name: {
                    "state": one["state"], "in_flight": one["in_flight"], "concurrency": one["area_ns"] / took,
                    "requests": one["requests"], "answered": {}, "refused": 0, "broke": 0,
                }
                for name, one in self.instances.items()
            }  # fmt: skip
            say(
                "stats", from_ns=self.from_ns, to_ns=self.last_ns, arrivals=self.arrivals, held=self.held,
                held_now_longest_ns=0, held_total=self.held_total, in_flight=self.in_flight,
                ready=sum(one["state"] == "ready" for one in self.instances.values()),
                concurrency=self.area_ns / took, held_concurrency=self.held_area_ns / took,
                left={"held": 0, "in_flight": 0}, answered=self.answered, made=self.made, instances=instances,
            )  # fmt: skip
            self.from_ns, self.arrivals, self.held_total = self.last_ns, 0, 0
            self.area_ns = self.held_area_ns = 0
            self.answered, self.made = {}, dict.fromkeys(REASONS, 0)
            for one in self.instances.values():
                one["requests"] = one["area_ns"] = 0

    def add(self, instance: str, address: str, concurrency: int, probe: dict[str, Any] | None = None) -> None:
        one = {
            "address": address, "concurrency": concurrency, "state": "starting", "in_flight": 0, "requests": 0,
            "requests_ever": 0, "ready_ns": 0, "area_ns": 0,
        }  # fmt: skip
        with self.changed:
            self.elapse()
            self.instances[instance] = one
        threading.Thread(target=self.probe, args=(instance, one, probe or {}), daemon=True).start()

    def probe(self, name: str, one: dict[str, Any], probe: dict[str, Any]) -> None:
        added, seen, probes = time.monotonic_ns(), "nothing yet", 0
        while self.instances.get(name) is one:
            probes += 1
            seen = ask(one["address"], probe.get("path"))
            if not seen:
                with self.changed:
                    one["state"], one["ready_ns"] = "ready", time.monotonic_ns()
                    say("instance_ready", instance=name, t_ns=one["ready_ns"], added_ns=added, probes=probes)
                    self.changed.notify_all()
                return
            if (time.monotonic_ns() - added) / 1e6 > (probe.get("give_up_ms") or 1e9):
                say("gave_up", instance=name, t_ns=time.monotonic_ns(), probes=probes, reason=seen)
                return
            time.sleep(probe.get("every_ms", 25) / 1000)

    def drain(self, instance: str) -> None:
        with self.changed:
            one = self.instances.get(instance)
            if one is not None:
                one["state"] = "draining"
                if not one["in_flight"]:
                    say("drained", instance=instance, t_ns=time.monotonic_ns())

    def remove(self, instance: str) -> None:
        with self.changed:
            self.elapse()
            gone = self.instances.pop(instance, None)
        say(
            "removed", instance=instance, t_ns=time.monotonic_ns(), in_flight=gone["in_flight"] if gone else 0
        )


def ask(address: str, path: str | None) -> str:
    """Why an instance is not ready; empty when it is."""
    host, _, port = address.partition(":")
    try:
        if path is None:
            socket.create_connection((host, int(port)), timeout=1).close()
            return ""
        connection = http.client.HTTPConnection(host, int(port), timeout=1)
        with contextlib.closing(connection):
            connection.request("GET", path)
            status = connection.getresponse().status
    except OSError as error:
        return error.strerror or str(error)
    return "" if status < 400 else f"answered {status} to GET {path}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State

    def do_GET(self) -> None:
        taken = self.state.take()
        if isinstance(taken, str):
            with self.state.changed:
                self.state.made[taken] += 1
            self.reply(STATUS[taken], taken.encode(), {})
            return
        name, held_ns, cold = taken
        status = None
        try:
            host, _, port = self.state.instances[name]["address"].partition(":")
            connection = http.client.HTTPConnection(host, int(port), timeout=60)
            with contextlib.closing(connection):
                connection.request("GET", self.path)
                answer = connection.getresponse()
                status, body = answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            with self.state.changed:
                self.state.made["broke"] += 1
            self.reply(502, b"broke", {})
        else:
            signs = {
                "x-instance": name,
                "x-towtank-held-us": str(held_ns // 1000),
                "x-towtank-cold": str(cold).lower(),
            }
            self.reply(status, body, signs)
        finally:
            self.state.done(name, status)

    def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    parser = argparse.ArgumentParser()
    for option in ("--listen", "--grace-ms", "--instance-header", "--held-header", "--cold-header"):
        parser.add_argument(option)
    host, _, port = parser.parse_args().listen.partition(":")
    state = Handler.state = State()
    server = Server((host, int(port)), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    if MODE == "mute":
        time.sleep(60)
    say(
        "ready", protocol=99 if MODE == "old" else 1, pid=os.getpid(), listen=f"{host}:{port}",
        t_ns=time.monotonic_ns(), version="0.0.0", build={"profile": "fake"},
    )  # fmt: skip
    threading.Thread(target=ticking, args=(state,), daemon=True).start()
    for line in sys.stdin:
        command = json.loads(line)
        kind = command.pop("cmd")
        if kind == "limits":
            state.limits |= command
        else:
            getattr(state, kind)(**command)
    with state.changed:
        state.ending = True
        state.changed.notify_all()
    state.stats()
    say("done", t_ns=time.monotonic_ns(), interrupted=0)


def ticking(state: State) -> None:
    while True:
        time.sleep(EVERY_S)
        state.stats()


if __name__ == "__main__":
    main()
