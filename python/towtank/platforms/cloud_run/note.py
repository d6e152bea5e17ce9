"""Where a deployment on Cloud Run is, written down before anything of it is created."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from towtank.platforms import notes


@dataclass(frozen=True)
class Note(notes.Note):
    """What whoever comes after a crash has to know; credentials are the environment's, then as now."""

    FILE: ClassVar[str] = "cloud-run.json"
    BY_HAND: ClassVar[str] = (
        "services may be left: gcloud run services list --filter=metadata.labels.managed-by=towtank"
    )

    token: str
    endpoint: str
    project: str
    region: str
    services: Sequence[str]

    @classmethod
    def _of(cls, content: dict[str, Any]) -> Self:
        return cls(**{**content, "services": tuple(map(str, content["services"]))})
