"""Finding the programs of drivers, and asking them for their version."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from towtank.errors import DriverError

VERSION_TIMEOUT_S = 20.0
"""Locust imports gevent and Flask before it says anything."""


def look_for(program: str, beside: Path | None = None) -> Path | None:
    """Where a program is: as a path, in PATH, or in the folder `beside`."""
    folders = [os.environ.get("PATH", os.defpath), *([str(beside)] if beside is not None else [])]
    found = shutil.which(program, path=os.pathsep.join(folders))
    return Path(found).absolute() if found else None


def find_program(program: str, how_to_get: str, beside: Path | None = None) -> Path:
    """Find a program.

    Raises
    ------
    DriverError
        It is not there; says how to get it.
    """
    found = look_for(program, beside)
    if found is None:
        raise DriverError(f"the program {program!r} is not there", hint=how_to_get)
    return found


def missing(program: str, how_to_get: str, beside: Path | None = None) -> list[str]:
    """Say that a program is missing, and how to get it; nothing when it is there."""
    return [] if look_for(program, beside) else [f"the program {program!r} is not there: {how_to_get}"]


def first_line_of(argv: Sequence[str]) -> str:
    """What a program says of its version; empty when it does not."""
    try:
        said = subprocess.run(
            list(argv),
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (said.stdout.strip().splitlines() or [""])[0][:200]
