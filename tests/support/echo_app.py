"""A server for the snippets of docs/journeys.md: answers what they ask for, and keeps what it got."""

from __future__ import annotations

import http.server
import json
import threading
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

ITEM = {"id": 7, "ok": True, "tags": ["a", "b"], "note": "page 12"}


@dataclass
class EchoApp:
    """Runs in a thread; `got` holds (method, path with query, headers, body) of every request."""

    got: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self):
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def bodies(self, path):
        """Bodies of the requests to a path."""
        return [body for _, asked, _, body in self.got if urlsplit(asked).path == path]


def _answer(method, path, headers, body):  # noqa: PLR0911 - one for each page
    """Status, headers and body."""
    if path.startswith("/status/"):
        return int(path.rpartition("/")[2]), {}, b""
    if path == "/form" and method == "GET":
        return 200, {"set-cookie": "s=1"}, b'<form><input type="hidden" name="csrf_token" value="t-1"></form>'
    if path == "/form":
        good = parse_qs(body.decode()).get("csrf_token") == ["t-1"] and "s=1" in headers.get("cookie", "")
        return (303, {"location": "/thanks"}, b"") if good else (403, {}, b"")
    if path == "/thanks":
        return 200, {}, b"thanks"
    if path == "/login":
        return 200, {"content-type": "application/json"}, json.dumps({"token": "t"}).encode()
    if path.startswith("/items/"):
        return (304 if headers.get("if-none-match") == '"e7"' and path == "/items/7" else 412), {}, b""
    if path == "/item":
        cold = {"x-cold-start": "true"}
        return 200, {"content-type": "application/json", "etag": '"e7"', **cold}, json.dumps(ITEM).encode()
    return 200, {}, b"ok"


def _handler(app):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _serve(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with app.lock:
                app.got.append((self.command, self.path, headers, body))
            status, more, answer = _answer(self.command, urlsplit(self.path).path, headers, body)
            lines = [f"HTTP/1.1 {status} x", *(f"{n}: {v}" for n, v in more.items())]
            if status not in (204, 304):
                lines.append(f"content-length: {len(answer)}")
            self.wfile.write(
                "\r\n".join([*lines, "", ""]).encode() + (b"" if status in (204, 304) else answer)
            )

        do_GET = do_POST = do_PUT = _serve  # noqa: N815 - the names that http.server calls

        def log_message(self, *_):
            """Say nothing."""

    return Handler
