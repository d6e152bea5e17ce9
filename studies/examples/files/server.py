"""A file service: upload by form, list, download what was uploaded, delete."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from service import Answer, Request, Service, serve

LEAST, MOST = 1_000_000, 10_000_000
"""Bytes of a file that the journey uploads."""


class Files(Service):
    """Keeps files in memory until they are deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.numbers = itertools.count(1)

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        if request.path == "/files" and request.method == "POST":
            return self._upload(request)
        if request.path == "/files":
            self.count("list")
            return Answer(
                {"files": [{"id": name, "size": len(data)} for name, data in self.files.copy().items()]}
            )
        name = request.path.removeprefix("/files/")
        data = self.files.get(name)
        if data is None:
            return self.refuse("no such file", 404)
        if request.method == "DELETE":
            del self.files[name]
            self.count("delete")
            return Answer(status=204)
        self.count("download")
        return Answer(data, headers={"etag": _digest(data)})

    def _upload(self, request: Request) -> Answer:
        head = f"content-type: {request.headers.get('content-type', '')}\r\n\r\n".encode()
        message = BytesParser(policy=HTTP).parsebytes(head + request.body)
        parts = {part.get_param("name", header="content-disposition"): part for part in message.iter_parts()}
        file = parts.get("file")
        if file is None or "owner" not in parts:
            return self.refuse("upload without its parts")
        data = file.get_payload(decode=True)
        if not isinstance(data, bytes) or not LEAST <= len(data) <= MOST:
            return self.refuse("upload of another size")
        name = f"f{next(self.numbers)}"
        self.files[name] = data
        self.count("upload")
        return Answer({"id": name, "etag": _digest(data)}, 201, {"location": f"/files/{name}"})


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def make(_: argparse.Namespace) -> Service:
    """Make the service."""
    return Files()


if __name__ == "__main__":
    serve(make)
