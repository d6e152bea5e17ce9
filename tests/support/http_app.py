"""A tiny application that can be told to misbehave; stdlib only, ready within a tenth of a second.

`python http_app.py --port N` serves until it is ended. Flags make it slow to come up, die, or never listen; paths
make it do things while it runs.
"""

# ruff: noqa: T201 - a program that prints, and that must start fast
from __future__ import annotations

import argparse
import contextlib
import http.server
import os
import signal
import socketserver
import sys
import threading
import time
from pathlib import Path
from typing import Any


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: App

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.server.served += path != "/metrics"
        action = getattr(self, f"do_{path.strip('/').replace('-', '_') or 'root'}", None)
        status, text = (404, "no such path") if action is None else action(query)
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Instance", os.environ.get("INSTANCE", ""))
        self.end_headers()
        self.wfile.write(body)

    def do_root(self, query: str) -> tuple[int, str]:
        return 200, "hello"

    def do_health(self, query: str) -> tuple[int, str]:
        return (200, "ok") if time.monotonic() >= self.server.healthy_at else (503, "warming up")

    def do_metrics(self, query: str) -> tuple[int, str]:
        """For Prometheus; it is not counted itself."""
        lines = [
            "# TYPE app_requests_total counter",
            f"app_requests_total {self.server.served}",
            "# TYPE process_cpu_seconds_total counter",
            f"process_cpu_seconds_total {time.process_time():.3f}",
        ]
        return 200, "\n".join(lines) + "\n"

    def do_env(self, query: str) -> tuple[int, str]:
        return 200, "\n".join(f"{k}={v}" for k, v in sorted(os.environ.items()))

    def do_cwd(self, query: str) -> tuple[int, str]:
        return 200, str(Path.cwd())

    def do_header(self, query: str) -> tuple[int, str]:
        return 200, self.headers.get(query, "")

    def do_crash(self, query: str) -> tuple[int, str]:
        os._exit(int(query or 3))

    def do_die(self, query: str) -> tuple[int, str]:
        os.kill(os.getpid(), getattr(signal, f"SIG{query or 'SEGV'}"))
        time.sleep(1)
        return 500, "still here"

    def do_burn(self, query: str) -> tuple[int, str]:
        threading.Thread(target=burn, args=(float(query),), daemon=True).start()
        return 200, "burning"

    def do_work(self, query: str) -> tuple[int, str]:
        """Take so many milliseconds, one request after the other: the capacity of an instance is 1,000 ÷ query."""
        with self.server.working:
            self.server.free_at = max(self.server.free_at, time.monotonic()) + float(query) / 1000
            time.sleep(max(0.0, self.server.free_at - time.monotonic()))
        return 200, "done"

    def do_eat(self, query: str) -> tuple[int, str]:
        self.server.eaten.append(bytearray(os.urandom(1) * (int(query) << 20)))
        return 200, "eaten"

    def do_eat_in_child(self, query: str) -> tuple[int, str]:
        pid = os.fork()
        if pid == 0:
            bytearray(b"x" * (int(query) << 20))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        return 200, str(os.waitstatus_to_exitcode(status))

    def do_print(self, query: str) -> tuple[int, str]:
        sys.stdout.write("x" * int(query))
        sys.stdout.flush()
        return 200, "printed"

    def do_children(self, query: str) -> tuple[int, str]:
        return 200, str(start_daemon())

    def do_kids(self, query: str) -> tuple[int, str]:
        """Children that burn CPU and end, one after the other."""
        for _ in range(int(query)):
            pid = os.fork()
            if pid == 0:
                burn(0.1)
                os._exit(0)
            os.waitpid(pid, 0)
        return 200, "done"

    def log_message(self, *args: object) -> None:
        """Say nothing: logs are what some tests count."""


class App(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, healthy_in_s: float) -> None:
        self.healthy_at = time.monotonic() + healthy_in_s
        self.eaten: list[bytearray] = []
        self.served = 0
        self.working = threading.Lock()
        self.free_at = 0.0
        super().__init__(("127.0.0.1", port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes without a word, as probes may, is nothing to log."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def burn(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def start_daemon() -> int:
    """Start a process that has nothing to do with us any more: new session, parent gone, signals ignored."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid:
            os.write(write, str(pid).encode())
            os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        time.sleep(60)
        os._exit(0)
    os.wait()
    pid = int(os.read(read, 32))
    os.close(read)
    os.close(write)
    return pid


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "0")))
    parser.add_argument("--say", default="")
    parser.add_argument("--exit", type=int, default=None, help="end at once with this code")
    parser.add_argument("--silent", action="store_true", help="never listen")
    parser.add_argument("--healthy-in", type=float, default=0.0)
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument(
        "--fail-first", type=Path, help="end as if the port were taken, unless this file is there"
    )
    args = parser.parse_args()
    if args.say:
        print(args.say, flush=True)
    if args.exit is not None:
        sys.exit(args.exit)
    if args.fail_first and not args.fail_first.exists():
        args.fail_first.touch()
        sys.exit("OSError: [Errno 98] Address already in use")
    if args.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if args.silent:
        time.sleep(60)
        return
    app = App(args.port, args.healthy_in)
    with contextlib.suppress(KeyboardInterrupt):
        app.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
