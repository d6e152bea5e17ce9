"""Notes of what is about to exist elsewhere: on disk before it does, read by whoever comes after a crash."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from towtank.errors import PlatformError


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


def folders_of(folder: Path) -> list[Path]:
    """Where the notes of a deployment may be: its own folder, or one below the folder that is known."""
    return [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]


def read_note(path: Path, *, hint: str) -> dict[str, Any] | None:
    """Read it again; None when nothing was about to be created.

    Parameters
    ----------
    path : Path
    hint : str
        How to find by hand what it spoke of.

    Raises
    ------
    PlatformError
        It is there and cannot be read: what it speaks of may still exist.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise PlatformError(f"{path} cannot be read: {error}", hint=hint) from error
    if not isinstance(content, dict):
        raise PlatformError(f"{path} cannot be read: it is no mapping", hint=hint)
    return content
