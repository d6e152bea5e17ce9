"""Files that an experiment names, read only from inside its own folder."""

from __future__ import annotations

from pathlib import Path

from towtank.design.document import read_document
from towtank.design.problems import Place, Problems
from towtank.design.tree import Node

MAX_FILES = 50


class Library:
    """Reads each included file once and keeps its text for the results.

    Parameters
    ----------
    root : Path
        Folder of the experiment file; nothing outside of it is read, whatever links say.
    shown_root : str
        That folder as the user named it, for messages.
    problems : Problems
    """

    def __init__(self, root: Path, shown_root: str, problems: Problems) -> None:
        self.files: dict[str, str] = {}
        self.root = root.resolve()
        self._shown_root = shown_root
        self._problems = problems
        self._read: dict[Path, Node | None] = {}

    def include(self, name: str, place: Place, path: str) -> Node | None:
        """Read a file that is named at a place of the experiment; None when it cannot be used."""
        real = self.find(name, place, path)
        if real is None:
            return None
        if real in self._read:
            return self._read[real]
        if len(self._read) >= MAX_FILES:
            self._problems.add(place, path, f"more than {MAX_FILES} included files")
            return None
        node, text = read_document(real, self.shown(real), self._problems)
        self._read[real] = node
        self.files[self.inside(real)] = text
        return node

    def find(self, name: str, place: Place, path: str) -> Path | None:
        """Look for a file that is named at a place of the experiment; None when it cannot be used, which is said."""
        if not name.strip() or "\0" in name:
            self._problems.add(place, path, "the path of a file is empty or has a null character in it")
            return None
        try:
            real = (self.root / name).resolve()
            exists = real.is_file()
        except (OSError, RuntimeError, ValueError):
            self._problems.add(place, path, f"the path {name[:80]!r} leads nowhere")
            return None
        if not real.is_relative_to(self.root):
            self._problems.add(
                place,
                path,
                f"{name!r} lies outside of the experiment's folder; files that it names must be inside",
                "copy the file beside the experiment",
            )
            return None
        if not exists:
            self._problems.add(place, path, f"there is no file {name!r} in the experiment's folder")
            return None
        return real

    def inside(self, real: Path) -> str:
        """Path of a found file in the experiment's folder."""
        return real.relative_to(self.root).as_posix()

    def shown(self, real: Path) -> str:
        """A found file as the user knows it."""
        return str(Path(self._shown_root) / self.inside(real))
