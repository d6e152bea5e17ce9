"""A function that falls asleep: the first request after a while of idleness waits for it to start, and says so."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from service import Answer, Request, Service, serve

START_S = 0.05
"""What a cold start takes."""


class Function(Service):
    """Answers; sleeps after some idleness.

    Parameters
    ----------
    idle_s : float
        After so long without a request it has to start anew.
    """

    def __init__(self, idle_s: float) -> None:
        super().__init__()
        self.idle_s = idle_s
        self.last = float("-inf")
        self.sources: set[tuple[str, int]] = set()

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        with self.lock:
            is_cold = time.monotonic() - self.last > self.idle_s
            is_new = request.source not in self.sources
            self.sources.add(request.source)
        if not is_new:
            return self.refuse("connection used twice")
        if is_cold:
            time.sleep(START_S)
        self.last = time.monotonic()
        self.count("cold" if is_cold else "warm")
        return Answer({"ok": True}, headers={"x-cold-start": "true" if is_cold else "false"})


def make(asked: argparse.Namespace) -> Service:
    """Make a function that falls asleep after ``--idle`` seconds."""
    return Function(float(asked.idle))


if __name__ == "__main__":
    serve(make, "--idle")
