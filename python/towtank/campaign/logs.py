"""The part of a long-lived deployment's logs that belongs to one run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

MOST_BYTES = 10 * 2**20
"""Kept of each instance's output during one run; the beginning, because that is where trouble starts."""


@dataclass(frozen=True)
class LogMarks:
    """How long each log was when a run began."""

    sizes: dict[str, int]

    @classmethod
    def take(cls, folder: Path) -> Self:
        """Note the sizes of all logs in a folder."""
        return cls({path.name: path.stat().st_size for path in folder.glob("*.log")})

    def copy_new(self, source: Path, target: Path) -> list[dict[str, Any]]:
        """Copy what was added since, bounded; facts for run.json."""
        facts = []
        for path in sorted(source.glob("*.log")):
            size, begun = path.stat().st_size, self.sizes.get(path.name, 0)
            begun = begun if begun <= size else 0  # the file was begun anew
            with path.open("rb") as stream:
                stream.seek(begun)
                kept = stream.read(min(size - begun, MOST_BYTES))
            (target / path.name).write_bytes(kept)
            facts.append(
                {
                    "instance": path.stem,
                    "file": path.name,
                    "bytes_written": size - begun,
                    "bytes_kept": len(kept),
                }
            )
        return facts
