"""Where a deployment on Cloud Run is, written down before anything of it is created."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from towtank.platforms.notes import read_note, write_note

NOTE = "cloud-run.json"


@dataclass(frozen=True)
class Note:
    """What whoever comes after a crash has to know; credentials are the environment's, then as now."""

    token: str
    endpoint: str
    project: str
    region: str
    services: Sequence[str]

    def write(self, folder: Path) -> None:
        """Write it durably; raises a PlatformError where that is not possible."""
        write_note(folder / NOTE, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read it again; None when nothing was about to be created.

        Raises
        ------
        PlatformError
            It is there and cannot be read.
        """
        hint = "services may be left: gcloud run services list --filter=metadata.labels.managed-by=towtank"
        return read_note(
            folder / NOTE,
            lambda content: cls(**{**content, "services": tuple(map(str, content["services"]))}),
            hint=hint,
        )
