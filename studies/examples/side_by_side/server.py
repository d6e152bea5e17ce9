"""Two services on one machine: a shop window that answers at once, and a batch that computes."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from service import Answer, Request, Service, serve

WORK_S = 0.01
"""CPU time that a batch takes."""


class Role(Service):
    """One of the two.

    Parameters
    ----------
    name : str
        ``window`` or ``batch``.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        if request.path != f"/{self.name}":
            return self.refuse(f"{request.path} asked of {self.name}", 404)
        if self.name == "batch":
            end = time.thread_time() + WORK_S
            while time.thread_time() < end:
                pass
        self.count(self.name)
        return Answer({"service": self.name})


def make(asked: argparse.Namespace) -> Service:
    """Make the service that ``--role`` names."""
    return Role(asked.role)


if __name__ == "__main__":
    serve(make, "--role")
