"""One backend in one folder: `up`, `down`, `run`, `enter`, and what a crash leaves for the next of them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from storage.backends import Wish
from storage.errors import StorageError
from storage.holder import READY
from storage.note import NOTE, Note, read_note

LOCK = "lock"
OURS = {LOCK, NOTE, f"{NOTE}.new", READY, "mount", "work"}
UP_S = 240.0
DOWN_S = 60.0
POLL_S = 0.05
PACKAGE = Path(__file__).resolve().parents[1]


def serve(wish: Wish, folder: Path, command: Sequence[str]) -> int:
    """Hold a backend, with an application or without, until SIGTERM, Ctrl-C or the application's end.

    Returns
    -------
    int
        Exit code: the application's, 0 for a wished end, 1 when the backend failed.

    Raises
    ------
    StorageError
        The machine lacks something, or the folder is in use or foreign.
    """
    wish.check()
    with _locked(folder) as lock:
        _clear(folder)
        (folder / "mount").mkdir()
        (folder / "work").mkdir()
        child = _start_holder(wish, folder, command, lock)
        Note.write(folder, wish, os.getpid(), child.pid)

        def stop(*_: object) -> None:
            if child.stdin is not None:
                child.stdin.close()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        code = child.wait()
        _remove(folder)
    return code


def up(wish: Wish, folder: Path) -> None:
    """Start a session in the background and wait until it is mounted.

    Raises
    ------
    StorageError
        It did not come up; nothing of it is left.
    """
    wish.check()
    with _locked(folder):
        _clear(folder)
    log_path = folder.with_name(f"{folder.name}.log")
    with log_path.open("wb") as log:
        session = subprocess.Popen(
            _python("run", wish, folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, env=_environment(),
        )  # fmt: skip
    try:
        deadline = time.monotonic() + UP_S
        while not (folder / READY).exists():
            if session.poll() is not None or time.monotonic() > deadline:
                session.terminate()
                session.wait(DOWN_S)
                said = log_path.read_text("utf-8", "replace").strip()[-1500:]
                raise StorageError(said.removeprefix("storage: ") or f"not mounted within {UP_S:g} s")
            time.sleep(POLL_S)
    finally:
        log_path.unlink()


def down(folder: Path) -> None:
    """End a session and remove its data, also after a crash; nothing to do is fine.

    Raises
    ------
    StorageError
        The folder is not one of ours, or the session does not end.
    """
    if not folder.exists():
        return
    _refuse_foreign(folder)
    note = read_note(folder)
    for process in note.processes() if note else ():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    deadline = time.monotonic() + DOWN_S
    while True:
        try:
            with _locked(folder):
                _clear(folder)
                _remove(folder)
                return
        except StorageError:
            if time.monotonic() < deadline:
                time.sleep(POLL_S)
            elif note is not None and note.kill():
                deadline = time.monotonic() + DOWN_S
            else:
                raise


def enter(folder: Path, command: Sequence[str], *, network: bool = False, wait_s: float = 0) -> int:
    """Run a command that sees the mount of a session; return its exit code.

    Parameters
    ----------
    folder : Path
        The session's folder.
    command : sequence of str
        Program and arguments.
    network : bool
        Also in the backend's own network, where its daemons listen.
    wait_s : float
        How long it may take until the backend is mounted, when it is started at the same time.

    Raises
    ------
    StorageError
        No session is up there.
    """
    deadline = time.monotonic() + wait_s
    while not (folder / READY).exists() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    note = read_note(folder)
    holder = note.holder() if note else None
    if holder is None or not (folder / READY).exists():
        raise StorageError(
            f"no backend is up in {folder}; start one with `python -m storage up nfs {folder}`"
        )
    where = ["--mount", "--pid", *(["--net"] if network else [])]
    here = ["sh", "-c", 'cd "$0" && exec "$@"', str(Path.cwd())]  # nsenter goes to the root of the mounts
    words = ["nsenter", f"--target={holder}", *where, "--", *here, *command]
    return subprocess.run(words, check=False).returncode


def _start_holder(wish: Wish, folder: Path, command: Sequence[str], lock: int) -> subprocess.Popen[bytes]:
    """The lock goes along: it is free again only when the holder, too, has ended."""
    network = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        return subprocess.Popen(
            [
                "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--propagation", "private",
                *_python("hold", wish, folder), str(network), *command,
            ],
            stdin=subprocess.PIPE, pass_fds=[network, lock], env=_environment(), start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(network)


def _python(command: str, wish: Wish, folder: Path) -> list[str]:
    return [sys.executable, "-m", "storage", command, wish.kind, "--size", str(wish.size), str(folder)]


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])}


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Hold the folder's lock, which every process of a session shares: nobody else is at work there.

    Raises
    ------
    StorageError
        Somebody is, or the folder holds something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_foreign(folder)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note = read_note(folder)
        what = (
            f"a {note.kind} backend (process {note.session.pid})" if note else "a backend that starts or ends"
        )
        raise StorageError(
            f"{folder} is held by {what}; end it with `python -m storage down {folder}`, or name another folder"
        ) from None
    else:
        yield descriptor
    finally:
        os.close(descriptor)


def _refuse_foreign(folder: Path) -> None:
    foreign = sorted({path.name for path in folder.iterdir()} - OURS)
    if foreign:
        raise StorageError(
            f"{folder} holds something else ({', '.join(foreign[:3])}); name an empty or a new folder"
        )


def _clear(folder: Path) -> None:
    """Remove what a session left, whose processes are gone."""
    shutil.rmtree(folder / "work", ignore_errors=True)
    for name in (READY, f"{NOTE}.new", NOTE):
        (folder / name).unlink(missing_ok=True)
    if (folder / "mount").exists():
        (folder / "mount").rmdir()


def _remove(folder: Path) -> None:
    _clear(folder)
    (folder / LOCK).unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):  # the other of two that ended the same session was faster
        folder.rmdir()
