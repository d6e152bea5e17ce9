"""What was derived from a run's tables, kept beside the report, so that one more run means reading one run.

Each run has one file for each kind of what is derived. Its name says the run, the kind, and a digest of everything that
it depends on: the run's files, what was asked of them, and the code that derived it. What does not fit any more is not
found, and is replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from towtank.store.packing import PackedError, pack, unpack
from towtank.store.run_folder import RunFolder

T = TypeVar("T")

_DIGITS = 24


def checksum(run: RunFolder) -> str:
    """Digest of a run folder: the whole of `run.json`, and name, size and time of change of every other file.

    Tables are not read for it: who changes one without changing its size has to set its time back as well.
    """
    sha = hashlib.sha256(run.layout.record.read_bytes())
    for name, size, changed_ns in sorted(_files(run.path)):
        sha.update(f"\n{name}\0{size}\0{changed_ns}".encode())
    return sha.hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            stat = path.lstat()
            yield path.relative_to(folder).as_posix(), stat.st_size, stat.st_mtime_ns


class DerivedRuns:
    """Derived runs of one result folder.

    Parameters
    ----------
    folder : Path
        Where they are; made when there is something to keep.
    made_by : str
        What stands for the code that derives them.

    Attributes
    ----------
    found, missed : list of str
        Runs that `get` knew, and those that it did not; once for each kind that was asked for.
    """

    def __init__(self, folder: Path, *, made_by: str) -> None:
        self._folder = folder
        self._made_by = made_by
        self.found: list[str] = []
        self.missed: list[str] = []

    def get(self, run: RunFolder, asked: object, kind: type[T]) -> T | None:
        """Return what is kept of a run as it is now; None when there is nothing that can be used.

        Parameters
        ----------
        run : RunFolder
        asked : object
            What it was derived with: its `repr` says all of it.
        kind : type
            The dataclass that is expected.
        """
        path = self._path(run, asked, kind)
        if path.is_file() and not path.is_symlink():
            with contextlib.suppress(PackedError):
                kept = unpack(path, kind)
                self.found.append(run.run_id)
                return kept
        self.missed.append(run.run_id)
        return None

    def put(self, run: RunFolder, asked: object, value: object) -> None:
        """Keep what was derived of a run, in place of what was kept before.

        Where the folder cannot be written to, or a value is too strange, nothing is kept: the next analysis reads
        the run again.
        """
        path = self._path(run, asked, type(value))
        with contextlib.suppress(OSError, TypeError, pa.ArrowException):
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=".", suffix=".tmp")
            os.close(descriptor)
            temporary = Path(name)
            try:
                pack(value, temporary)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            for other in self._folder.glob(f"{self._stem(run)}*{_suffix(type(value))}"):
                if other != path:
                    other.unlink(missing_ok=True)

    def _path(self, run: RunFolder, asked: object, kind: type) -> Path:
        told = f"{self._made_by}\n{checksum(run)}\n{asked!r}"
        digest = hashlib.sha256(told.encode()).hexdigest()[:_DIGITS]
        return self._folder / f"{self._stem(run)}{digest}{_suffix(kind)}"

    @staticmethod
    def _stem(run: RunFolder) -> str:
        """Start of the names of a run's files: its own name may be too long for one, or hold signs of patterns."""
        return f"{hashlib.sha256(run.run_id.encode()).hexdigest()[:12]}-"


def _suffix(kind: type) -> str:
    return f".{kind.__name__.lower()}"
