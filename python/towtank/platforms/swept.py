"""Clean-up by notes: what platforms share whose deployments are elsewhere, each with a note of its own kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic, Protocol, TypeVar


class Noted(Protocol):
    """A note of what was about to be created."""

    @property
    def token(self) -> str:
        """Of its deployment."""


N = TypeVar("N", bound=Noted)


class SweptByNotes(ABC, Generic[N]):
    """Finds the notes of a deployment; see `base.SweepsFromNotes`."""

    @abstractmethod
    def _read(self, folder: Path) -> N | None:
        """The note of a folder."""

    @abstractmethod
    def _sweep(self, note: N) -> int:
        """Delete what is left of it; the number of things deleted."""

    def sweep(self, token: str) -> int:
        """Nothing: where a deployment was is known from its note only; see `sweep_noted`."""
        del token
        return 0

    def sweep_noted(self, token: str, folder: Path) -> int:
        """Delete what a dead Towtank left of the deployment with this token.

        Its folder is the one that is known, or below it.

        Raises
        ------
        PlatformError
            The platform cannot be reached, or credentials are not there.
        """
        folders = [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]
        notes = [self._read(one) for one in folders]
        return sum(self._sweep(note) for note in notes if note is not None and note.token == token)
