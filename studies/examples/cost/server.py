"""A picture service: every answer takes a while of work, which somebody pays for."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from service import Answer, Request, Service, serve

BYTES = 8_192
"""Size of a picture: what leaves is charged, too."""


class Pictures(Service):
    """Makes a picture for each request.

    Parameters
    ----------
    work_s : float
        How long a picture takes.
    """

    def __init__(self, work_s: float) -> None:
        super().__init__()
        self.work_s = work_s

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        if request.path != "/picture":
            return self.refuse(f"{request.method} {request.path}")
        time.sleep(self.work_s)
        self.count("pictures")
        return Answer(b"\xff" * BYTES)


def make(asked: argparse.Namespace) -> Service:
    """Make a service whose pictures take ``--work`` seconds."""
    return Pictures(float(asked.work))


if __name__ == "__main__":
    serve(make, "--work")
