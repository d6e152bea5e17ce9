"""Notes of what is about to exist elsewhere: on disk before it does, read by whoever comes after a crash."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from towtank.errors import PlatformError

Kept = TypeVar("Kept")


def write_note(path: Path, content: Mapping[str, Any]) -> None:
    """Write it durably.

    Raises
    ------
    PlatformError
    """
    temporary = path.with_suffix(".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise PlatformError(
            f"{path} cannot be written: {error.strerror or error}; nothing was created"
        ) from error


def read_note(path: Path, make: Callable[[dict[str, Any]], Kept], *, hint: str) -> Kept | None:
    """Read it again; None when nothing was about to be created.

    Parameters
    ----------
    path : Path
    make : callable
        From what was written to a note; raises KeyError, TypeError or ValueError where that is none.
    hint : str
        How to find by hand what it spoke of.

    Raises
    ------
    PlatformError
        It is there and cannot be read: what it speaks of may still exist.
    """
    try:
        return make(dict(json.loads(path.read_text("utf-8"))))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlatformError(f"{path} cannot be read: {error}", hint=hint) from error
