"""Notes of what is about to exist elsewhere: on disk before it does, read by whoever comes after a crash."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from towtank.errors import PlatformError


@dataclass(frozen=True)
class Note:
    """What whoever comes after a crash has to know: the fields of a subclass, which is a frozen dataclass, too."""

    FILE: ClassVar[str]
    """Name of the file that it is in."""
    BY_HAND: ClassVar[str]
    """How to find by hand what it spoke of."""

    def write(self, folder: Path) -> None:
        """Write it durably.

        Raises
        ------
        PlatformError
        """
        _write(folder / self.FILE, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read it again; None when nothing was about to be created.

        Raises
        ------
        PlatformError
            It is there and cannot be read: what it speaks of may still exist.
        """
        path = folder / cls.FILE
        try:
            return cls._of(dict(json.loads(path.read_text("utf-8"))))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PlatformError(f"{path} cannot be read: {error}", hint=cls.BY_HAND) from error

    @classmethod
    def _of(cls, content: dict[str, Any]) -> Self:
        """From what was written; raises a KeyError, TypeError or ValueError where that is none."""
        return cls(**content)


def _write(path: Path, content: dict[str, Any]) -> None:
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
