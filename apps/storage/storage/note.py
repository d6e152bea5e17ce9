"""Who holds a session's folder: its processes, each told from every later one with its pid."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from storage.backends import Wish

NOTE = "note.json"


@dataclass(frozen=True)
class Known:
    """A process of this machine: a pid, and when it started (seconds since the epoch)."""

    pid: int
    started_s: float

    @classmethod
    def of(cls, pid: int) -> Known:
        """The process that has this pid now."""
        return cls(pid, psutil.Process(pid).create_time())

    def process(self) -> psutil.Process | None:
        """The process, if it is still this very one."""
        try:
            found = psutil.Process(self.pid)
            same = found.create_time() == self.started_s and found.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return found if same else None


@dataclass(frozen=True)
class Note:
    """What a session says about itself, for `down` and `enter` and after a crash.

    Parameters
    ----------
    kind : str
        Which backend.
    session : Known
        The process that was started; it holds the other end of the holder's standard input.
    apart : Known
        `unshare`; its only child is the holder, first in a process namespace of its own.
    """

    kind: str
    session: Known
    apart: Known

    @classmethod
    def write(cls, folder: Path, wish: Wish, session: int, apart: int) -> None:
        """Leave a note, whole or not at all."""
        note = cls(wish.kind, Known.of(session), Known.of(apart))
        partly = folder / f"{NOTE}.new"
        partly.write_text(json.dumps(asdict(note)), "utf-8")
        partly.replace(folder / NOTE)

    def processes(self) -> Iterator[psutil.Process]:
        """The session's own process, if it runs."""
        found = self.session.process()
        if found is not None:
            yield found

    def holder(self) -> int | None:
        """The holder's pid on this machine."""
        apart = self.apart.process()
        children = apart.children() if apart else []
        return children[0].pid if children else None

    def kill(self) -> bool:
        """Kill what does not end; with the holder everything in its namespace goes. Whether there was anything."""
        pid = self.holder()
        processes = [p for p in (self.session.process(), self.apart.process()) if p is not None]
        if pid is not None:
            processes.append(psutil.Process(pid))
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return bool(processes)


def read_note(folder: Path) -> Note | None:
    """What the folder says about itself; None when nobody has used it, or the note was cut off by a crash."""
    try:
        found = json.loads((folder / NOTE).read_text("utf-8"))
        return Note(found["kind"], Known(**found["session"]), Known(**found["apart"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None
