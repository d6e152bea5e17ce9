"""A shop window that asks a stock service for each answer: what is done to the stock is seen at the window."""

from __future__ import annotations

import argparse
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from service import Answer, Request, Service, serve

PATIENCE_S = 0.3
"""How long the window waits for the stock before it says that it cannot know."""


class Stock(Service):
    """Knows how much there is."""

    def answer(self, _: Request) -> Answer:
        """Answer one request."""
        self.count("asked")
        return Answer({"left": 7})


class Window(Service):
    """Shows what the stock says.

    Parameters
    ----------
    stock : str
        Address of the stock service.
    """

    def __init__(self, stock: str) -> None:
        super().__init__()
        self.stock = stock

    def answer(self, _: Request) -> Answer:
        """Answer one request: 503 when the stock does not."""
        try:
            with urllib.request.urlopen(self.stock, timeout=PATIENCE_S) as said:  # noqa: S310 - an address of ours
                self.count("shown")
                return Answer(said.read())
        except OSError:
            self.count("unknown")
            return Answer({"error": "the stock does not answer"}, 503)


def make(asked: argparse.Namespace) -> Service:
    """Make the window when it is told where the stock is, else the stock itself."""
    return Window(asked.stock) if asked.stock else Stock()


if __name__ == "__main__":
    serve(make, "--stock")
