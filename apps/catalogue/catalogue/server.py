"""The HTTP face: routes, JSON in and out, a thread per connection."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import SplitResult, parse_qs, urlsplit

from catalogue.database import Catalogue
from catalogue.recommend import Features, most_similar

MAX_BODY_BYTES = 64 * 1024
MAX_PAGE = 100


class Refused(Exception):  # noqa: N818 - the server refuses; it does not fail
    """A request that cannot be answered as asked; becomes a JSON error."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """Answers requests; one catalogue connection per server thread."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60
    server: Server
    _local: ClassVar[threading.local] = threading.local()

    def do_GET(self) -> None:
        """Route a GET."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Route a POST."""
        self._answer(self._post)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Stay quiet: an access log would be part of what is measured."""

    def finish(self) -> None:
        """Close this thread's database connection with its HTTP connection."""
        super().finish()
        catalogue = getattr(self._local, "catalogue", None)
        if catalogue is not None:
            catalogue.close()
            self._local.catalogue = None

    def _catalogue(self) -> Catalogue:
        catalogue: Catalogue | None = getattr(self._local, "catalogue", None)
        if catalogue is None:
            catalogue = self._local.catalogue = Catalogue(self.server.database)
        return catalogue

    def _answer(self, route: Callable[[SplitResult], tuple[HTTPStatus, object]]) -> None:
        try:
            status, body = route(urlsplit(self.path))
        except Refused as refused:
            status, body = refused.status, {"error": str(refused)}
        except sqlite3.OperationalError as busy:
            status, body = HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(busy)}
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.send_header("X-Instance", self.server.instance)
        # headers and body in one write: two small packets would wait for each other's acknowledgement
        self._headers_buffer.append(b"\r\n" + payload)  # type: ignore[attr-defined]
        self.flush_headers()

    def _get(self, url: SplitResult) -> tuple[HTTPStatus, object]:
        if url.path == "/health":
            return HTTPStatus.OK, {"status": "ok", **self._catalogue().counts()}
        if url.path == "/items":
            query = parse_qs(url.query)
            offset = _number(query.get("offset", ["0"])[0], "offset", 0, 10**9)
            limit = _number(query.get("limit", ["20"])[0], "limit", 1, MAX_PAGE)
            return HTTPStatus.OK, [
                asdict(item) for item in self._catalogue().page(offset=offset, limit=limit)
            ]
        if match := re.fullmatch(r"/items/(\d{1,9})", url.path):
            item = self._catalogue().item(int(match[1]))
            if item is None:
                raise Refused(HTTPStatus.NOT_FOUND, f"there is no item {match[1]}")
            return HTTPStatus.OK, asdict(item)
        if match := re.fullmatch(r"/recommend/(\d{1,9})", url.path):
            try:
                similar = most_similar(self.server.features, int(match[1]))
            except KeyError:
                raise Refused(HTTPStatus.NOT_FOUND, f"there is no item {match[1]}") from None
            return HTTPStatus.OK, [{"id": number, "similarity": round(score, 4)} for number, score in similar]
        raise Refused(HTTPStatus.NOT_FOUND, f"there is nothing at {url.path}")

    def _post(self, url: SplitResult) -> tuple[HTTPStatus, object]:
        length = _number(self.headers.get("Content-Length", ""), "Content-Length", 0, 10**12)
        if length > MAX_BODY_BYTES:
            self.close_connection = True
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body may have {MAX_BODY_BYTES} bytes")
        body = self.rfile.read(length)
        if url.path != "/orders":
            raise Refused(HTTPStatus.NOT_FOUND, f"there is nothing at {url.path}")
        try:
            wanted = json.loads(body)
            item, quantity = int(wanted["item"]), int(wanted.get("quantity", 1))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Refused(HTTPStatus.BAD_REQUEST, 'an order looks like {"item": 1, "quantity": 2}') from None
        if not 1 <= quantity <= 1000:
            raise Refused(HTTPStatus.BAD_REQUEST, f"quantity must be from 1 to 1000, not {quantity}")
        order = self._catalogue().order(item, quantity)
        if order is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no item {item}")
        return HTTPStatus.CREATED, {"order": order}


class Server(ThreadingHTTPServer):
    """The catalogue on one port.

    Parameters
    ----------
    address : tuple of str and int
    database : Path
        Made by `python -m catalogue.seed`.
    instance : str
        Name that answers carry in `X-Instance`.
    """

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], *, database: Path, instance: str) -> None:
        self.database = database
        self.instance = instance
        catalogue = Catalogue(database)
        self.features: Features = catalogue.features()
        catalogue.close()
        super().__init__(address, Handler)


def _number(text: str, name: str, low: int, high: int) -> int:
    if not re.fullmatch(r"\d{1,12}", text) or not low <= int(text) <= high:
        raise Refused(
            HTTPStatus.BAD_REQUEST, f"{name} must be a whole number from {low} to {high}, not {text!r}"
        )
    return int(text)
