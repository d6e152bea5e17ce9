"""What the workers of pytest-xdist have together: a folder of the session, and things that the first of them makes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """One folder for all workers of a session; each has its own below it."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], str]) -> str:
    """What the first who asks has made; the others wait for it. One that failed is made by the next."""
    folder = shared_folder(factory)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = folder / name
        if not kept.exists():
            kept.write_text(make(), "utf-8")
        return kept.read_text("utf-8")
