"""`python -m applications wiki --port 8000 FOLDER`: run an application whose files lie in FOLDER."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType

from applications import files, video, wiki
from storage.backends import SYSTEM_PROGRAMS
from storage.daemons import Daemons
from storage.errors import StorageError
from storage.holder import SCRATCH

APPLICATIONS: dict[str, ModuleType] = {"wiki": wiki, "files": files, "video": video}
LOOK_S = 0.2
DONE = ".prepared"


def main(words: list[str] | None = None) -> int:
    """Prepare the files if the folder has none yet, and serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="applications", description="Applications on storage.")
    parser.add_argument("application", choices=APPLICATIONS)
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8000")))
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="its files; made at the first start")
    given = parser.parse_args(words)
    try:
        return serve(APPLICATIONS[given.application], given.folder.absolute() / given.application, given.port)
    except StorageError as problem:
        print(f"applications: {problem}", file=sys.stderr)
        return 1


def serve(application: ModuleType, folder: Path, port: int) -> int:
    """Run one application until it is asked to end; 1 if a process of it ended by itself."""
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{SYSTEM_PROGRAMS}"
    missing = [
        f"{what} (Debian: {package})" for what, package in application.NEEDS.items() if not _present(what)
    ]
    if missing:
        raise StorageError(f"missing: {', '.join(missing)}; `tools/system-packages.sh storage` installs them")
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    prepare(application, folder)
    with _scratch() as work:
        daemons = Daemons(work / "log")
        try:
            application.start(daemons, work, folder, port)
            while not stopping.wait(LOOK_S):
                gone = daemons.ended()
                if gone:
                    raise StorageError(f"{gone} ended by itself: {daemons.last_words(gone)}")
        finally:
            daemons.end()
    return 0


def prepare(application: ModuleType, folder: Path) -> None:
    """Lay out the application's files, unless they are there; an interrupted attempt is begun again."""
    done = folder / DONE
    if done.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    application.prepare(folder)
    done.touch()


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for sockets and logs: the session's own, or a temporary one where there is no session."""
    given = os.environ.get(SCRATCH)
    if given:
        yield Path(given)
        return
    with tempfile.TemporaryDirectory(prefix="application-") as folder:
        yield Path(folder)


def _present(what: str) -> bool:
    return Path(what).exists() if what.startswith("/") else shutil.which(what) is not None


if __name__ == "__main__":
    sys.exit(main())
