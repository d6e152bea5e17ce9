"""One Towtank per result folder at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from towtank.errors import ResultsError


def lock_path(results: Path) -> Path:
    """Where the lock of a result folder lies: beside it, because the folder itself may be moved aside."""
    return results.parent / f".{results.name}.lock"


@contextlib.contextmanager
def locked(results: Path) -> Iterator[None]:
    """Hold the lock of a result folder; the kernel lets go of it when the process dies, however it dies.

    Raises
    ------
    ResultsError
        Another Towtank works on this folder; names its pid.
    """
    results.parent.mkdir(parents=True, exist_ok=True)
    path = lock_path(results)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ResultsError(
                f"{results} is in use by another towtank{_holder(descriptor)}",
                hint="wait until it has ended, or end it with Ctrl-C; or choose another folder with --results",
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid()}).encode(), 0)
        yield
        # the file stays: removing it would let two processes hold locks on two files of one name
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    try:
        return f" (pid {json.loads(os.pread(descriptor, 200, 0))['pid']})"
    except (ValueError, KeyError, OSError):
        return ""
