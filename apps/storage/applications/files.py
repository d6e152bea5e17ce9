"""A file server: rclone's WebDAV."""

from __future__ import annotations

import random
from pathlib import Path

from storage.daemons import Daemons

FILES = 100
FILE_BYTES = 256 << 10
NEEDS = {"rclone": "rclone"}


def prepare(files: Path) -> None:
    """Lay out files that nobody can compress, always the same."""
    folder = files / "shared"
    folder.mkdir(parents=True)
    for number in range(FILES):
        (folder / f"{number}.bin").write_bytes(random.Random(number).randbytes(FILE_BYTES))  # noqa: S311  # no cipher


def start(daemons: Daemons, work: Path, files: Path, port: int) -> None:
    """Serve the folder; nothing is cached beside it."""
    empty = work / "rclone.conf"
    empty.touch()
    daemons.start(
        "rclone", "rclone", "serve", "webdav", files / "shared", "--config", empty,
        "--addr", f"127.0.0.1:{port}", "--vfs-cache-mode", "off", "--dir-cache-time", "1s",
    )  # fmt: skip
