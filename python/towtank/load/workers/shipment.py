"""What a worker elsewhere needs: the files that a job names travel with it, under names of their own."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from towtank.errors import EngineError
from towtank.load.job import JobRequest
from towtank.load.workers.frames import PIECE_BYTES

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.-]+")
_NAME_LENGTH = 60


class Shipment:
    """Files in the order in which they were named; each travels once."""

    def __init__(self) -> None:
        self._names: dict[Path, str] = {}

    def add(self, path: Path) -> str:
        """Take a file along; the name under which a worker finds it."""
        name = self._names.get(path)
        if name is None:
            plain = _NOT_PLAIN.sub("-", path.name)[-_NAME_LENGTH:].lstrip(".-")
            name = self._names[path] = f"file-{len(self._names)}-{plain}"
        return name

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files."""
        return tuple(self._names)

    def announced(self) -> list[dict[str, Any]]:
        """Name, length and checksum of each file, as a worker is told.

        Raises
        ------
        EngineError
            One cannot be read.
        """
        return [{"name": name, **_measured(path)} for path, name in self._names.items()]


@dataclass(frozen=True)
class ShippedRequest(JobRequest):
    """What a job is made from when it is carried out elsewhere: its files are named as they travel."""

    shipment: Shipment = field(default_factory=Shipment)

    def resolve(self, name: str) -> str:
        """The name under which the file travels."""
        return self.shipment.add(Path(super().resolve(name)))


def pieces(path: Path) -> Iterator[bytes]:
    """Content of a file, some bytes at a time.

    Raises
    ------
    EngineError
        It cannot be read.
    """
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
    except OSError as error:
        raise EngineError(f"{path} cannot be read, and the workers need it: {error.strerror}") from error


def _measured(path: Path) -> dict[str, int]:
    length, crc32 = 0, 0
    for piece in pieces(path):
        length += len(piece)
        crc32 = zlib.crc32(piece, crc32)
    return {"bytes": length, "crc32": crc32}
