"""Where a deployment on OpenWhisk is, written down before anything of it is created; never its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from towtank.platforms.notes import read_note, write_note

NOTE = "openwhisk.json"


@dataclass(frozen=True)
class Note:
    """What whoever comes after a crash has to know.

    Parameters
    ----------
    token : str
    url, namespace : str
    auth : str
        The placeholder that stands for the key.
    root : str
        Folder that `{file.PATH}` and certificates are in.
    tls : mapping
        As in the experiment file; empty for none.
    things : sequence of (collection, name)
        In the order of their creation.
    """

    token: str
    url: str
    namespace: str
    auth: str
    root: str
    tls: dict[str, Any]
    things: Sequence[tuple[str, str]]

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
        hint = "packages whose names begin with towtank- may be left: wsk package list"
        return read_note(folder / NOTE, cls._of, hint=hint)

    @classmethod
    def _of(cls, content: dict[str, Any]) -> Self:
        things = tuple((str(kind), str(name)) for kind, name in content.pop("things"))
        return cls(**content, things=things)
