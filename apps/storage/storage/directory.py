"""The control: a plain directory of the machine's own disk, seen at the same place as the others."""

from __future__ import annotations

from pathlib import Path

from storage.daemons import run, unmount


class Directory:
    """A folder bound to the mount point."""

    def __init__(self, work: Path) -> None:
        self._store = work / "store"

    def up(self, mount: Path) -> None:
        """Bind the folder."""
        self._store.mkdir(parents=True, exist_ok=True)
        run("mount", "--bind", self._store, mount)

    def down(self, mount: Path) -> None:
        """Take the binding away."""
        unmount(mount)

    def ended(self) -> str | None:
        """There is no process that could end."""
        return None
