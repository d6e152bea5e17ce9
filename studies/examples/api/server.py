"""An API behind a sign-in: a token for each client, 500 devices, and a reading of each."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from service import Answer, Request, Service, serve

DEVICES = 500


class Api(Service):
    """Sign-in, the list of devices, and the state of one."""

    def __init__(self, users: Path) -> None:
        super().__init__()
        lines = users.read_text("utf-8").split()[1:]
        self.passwords = dict(line.split(",") for line in lines)
        self.tokens: dict[str, str] = {}

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        if request.path == "/login" and request.method == "POST":
            return self._login(request)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or token not in self.tokens:
            return self.refuse("no valid token", 401)
        if request.path == "/devices":
            self.count("list")
            return Answer({"devices": [{"id": f"dev-{number:03d}"} for number in range(DEVICES)]})
        name = request.path.removeprefix("/devices/")
        if not (name.startswith("dev-") and name[4:].isdecimal() and int(name[4:]) < DEVICES):
            return self.refuse("no such device", 404)
        self.count("read")
        self.count(f"read by {self.tokens[token]}")
        self.count(f"device {name}")
        return Answer({"id": name, "online": True, "value": secrets.randbelow(100)})

    def _login(self, request: Request) -> Answer:
        asked = json.loads(request.body)
        user = asked.get("user")
        if self.passwords.get(user) != asked.get("password"):
            return self.refuse("wrong password", 403)
        token = secrets.token_hex(16)
        self.tokens[token] = user
        self.count("login")
        self.count(f"login of {user}")
        return Answer({"token": token, "expires_in": 3600})


def make(asked: argparse.Namespace) -> Service:
    """Make the API with the accounts of a file."""
    return Api(Path(asked.users))


if __name__ == "__main__":
    serve(make, "--users")
