"""The process that holds a backend: first in namespaces of its own, so that nothing outlives it.

It is started by `storage.session`, which holds the other end of its standard input. When that closes, for whatever
reason, everything is unmounted and ended; when this process itself is killed, the kernel ends all others in its
namespace, and the mounts go with the last of them.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from storage.backends import SYSTEM_PROGRAMS, Backend, Wish
from storage.ceph import Ceph
from storage.daemons import END_S, run
from storage.directory import Directory
from storage.errors import StorageError
from storage.nfs import Nfs

LOOK_S = 0.2
READY = "ready"
RUN = Path("/run")
SCRATCH = "STORAGE_SCRATCH"
"""Variable with a folder for the application's sockets and the like, which is not on the backend."""
PROBE = ".storage-check"


def make(wish: Wish, work: Path) -> Backend:
    """The backend that is wished for."""
    match wish.kind:
        case "ceph":
            return Ceph(work, wish.size)
        case "nfs":
            return Nfs(work)
        case _:
            return Directory(work)


def check(mount: Path) -> None:
    """Write, read and remove a file, as any application would.

    Raises
    ------
    StorageError
        What was read is not what was written.
    """
    probe, text = mount / PROBE, "towed"
    try:
        probe.write_text(text, "utf-8")
        found = probe.read_text("utf-8")
        probe.unlink()
    except OSError as error:
        raise StorageError(f"the mount {mount} cannot be written and read: {error.strerror}") from error
    if found != text:
        raise StorageError(f"the mount {mount} gave back {found!r} where {text!r} was written")


def hold(wish: Wish, folder: Path, network: int, command: Sequence[str]) -> int:
    """Bring the backend up, say so, run the application if one is given, and wait for an end.

    Parameters
    ----------
    wish : Wish
        Which backend.
    folder : Path
        The session's folder: `work`, `mount` and `note.json` lie in it.
    network : int
        Descriptor of the network namespace in which the application runs.
    command : sequence of str
        The application; empty to only hold the mount.

    Returns
    -------
    int
        The application's exit code, or 0.
    """
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{SYSTEM_PROGRAMS}"
    run("ip", "link", "set", "lo", "up")
    run("mount", "-t", "tmpfs", "tmpfs", RUN)  # sockets: no long paths, and gone with the last process
    mount = folder / "mount"
    backend = make(wish, folder / "work")
    try:
        backend.up(mount)
        check(mount)
        (folder / READY).touch()
        code = _wait(backend, _application(command, network))
    except StorageError as problem:
        print(f"storage: {problem}", file=sys.stderr)
        code = 1
    _end_all(backend, mount)
    return code


def _end_all(backend: Backend, mount: Path) -> None:
    """What still uses the mount keeps it from going; it ends with this process, and the mount with it."""
    try:
        backend.down(mount)
    except StorageError as problem:
        print(f"storage: {problem}", file=sys.stderr)


def _application(command: Sequence[str], network: int) -> subprocess.Popen[bytes] | None:
    if not command:
        return None
    enter = ("nsenter", f"--net=/proc/self/fd/{network}", "--")
    scratch = RUN / "application"
    scratch.mkdir()
    own = os.environ | {SCRATCH: str(scratch)}
    return subprocess.Popen([*enter, *command], stdin=subprocess.DEVNULL, pass_fds=[network], env=own)


def _wait(backend: Backend, application: subprocess.Popen[bytes] | None) -> int:
    """Until standard input closes, the application ends, or a daemon does."""
    try:
        while True:
            if application is not None and application.poll() is not None:
                return application.returncode
            gone = backend.ended()
            if gone:
                raise StorageError(
                    f"{gone} ended by itself; its log is in the session's folder, below work/log"
                )
            if select.select([sys.stdin], [], [], LOOK_S)[0] and not os.read(sys.stdin.fileno(), 1):
                return 0
    finally:
        if application is not None:
            _end(application)


def _end(application: subprocess.Popen[bytes]) -> None:
    application.terminate()
    deadline = time.monotonic() + END_S
    while application.poll() is None and time.monotonic() < deadline:
        time.sleep(LOOK_S / 4)
    application.kill()
    application.wait()
