"""Waiting for what happens in another thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def eventually(holds: Callable[[], Any], within_s: float = 10.0) -> Any:
    """Ask until the answer is true; return it."""
    until = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return found
