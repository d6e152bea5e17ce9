"""Video: nginx answers range requests for generated files, and takes uploads (WebDAV's PUT)."""

from __future__ import annotations

import random
from pathlib import Path

from applications import web
from storage.daemons import Daemons

VIDEOS = 8
VIDEO_BYTES = 16 << 20
NEEDS = {"nginx": "nginx-light"}
SITE = """\
root {files}/videos;
    location / {{
      dav_methods PUT DELETE;
      create_full_put_path on;
    }}
"""


def prepare(files: Path) -> None:
    """Lay out the videos, always the same."""
    folder = files / "videos"
    folder.mkdir(parents=True)
    for number in range(VIDEOS):
        (folder / f"{number}.mp4").write_bytes(random.Random(number).randbytes(VIDEO_BYTES))  # noqa: S311  # no cipher


def start(daemons: Daemons, work: Path, files: Path, port: int) -> None:
    """Start nginx."""
    daemons.start("nginx", *web.command(work, files, port, SITE.format(files=files)))
