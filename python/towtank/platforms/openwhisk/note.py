"""Where a deployment on OpenWhisk is, written down before anything of it is created; never its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from towtank.platforms import notes


@dataclass(frozen=True)
class Note(notes.Note):
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

    FILE: ClassVar[str] = "openwhisk.json"
    BY_HAND: ClassVar[str] = "packages whose names begin with towtank- may be left: wsk package list"

    token: str
    url: str
    namespace: str
    auth: str
    root: str
    tls: dict[str, Any]
    things: Sequence[tuple[str, str]]

    @classmethod
    def _of(cls, content: dict[str, Any]) -> Self:
        things = tuple((str(kind), str(name)) for kind, name in content.pop("things"))
        return cls(**content, things=things)
