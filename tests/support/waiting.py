"""Waiting for what happens in another thread, or elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def eventually(holds: Callable[[], Any], within_s: float = 10.0, every_s: float = 0.02) -> Any:
    """Ask until the answer is true; return it. What it asserts has to hold each time."""
    until = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < until
        time.sleep(every_s)
    return found
