"""Writing files so that a crash leaves the old one or the new one, and a full disk a clear sentence."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from towtank.errors import MachineError, ResultsError
from towtank.units import format_bytes

TEMPORARY_SUFFIX = ".tmp"
_SPILL = ".spill-"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def explained(path: Path, *, still_good: str) -> Iterator[None]:
    """Turn the operating system's refusals to write into errors with place and consequence.

    Parameters
    ----------
    path : Path
        What is being written.
    still_good : str
        What the reader of the message can rely on, such as "the runs before it are complete".

    Raises
    ------
    MachineError
        The disk or a quota is full, or the file system is read-only or refuses us.
    """
    try:
        yield
    except OSError as error:
        number = error.errno if error.errno is not None else _errno_of(error)
        if number in _NO_ROOM:
            raise MachineError(
                f"no room left on the disk of {path} ({_room(path)}); {still_good}",
                hint="make room there, then repeat the command: it goes on where it stopped",
            ) from error
        if number in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise MachineError(
                f"cannot write {path}: {os.strerror(number)}; {still_good}",
                hint="check the owner and the mount of the results folder",
            ) from error
        raise


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a JSON file atomically; NaN is refused because JSON has none."""
    text = json.dumps(dict(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file atomically and durably: temporary file, fsync, rename, fsync of the folder."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it replaces `path`, durably, else it is removed."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def spill_folder(parent: Path) -> Iterator[Path]:
    """Give a folder for what does not fit into memory, on the disk of the results; removed at the end."""
    for left_behind in parent.glob(f"{_SPILL}*"):  # by a kill
        shutil.rmtree(left_behind, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SPILL, dir=parent) as folder:
        yield Path(folder)


def sync(path: Path) -> None:
    """Have the kernel put a file, or the entries of a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises
    ------
    ResultsError
        Missing, unreadable, or not an object; names the file and what is wrong in it.
    """
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ResultsError(f"{path} is missing") from error
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path} is damaged: {error}") from error
    if not isinstance(content, dict):
        raise ResultsError(f"{path} is damaged: expected a JSON object, found {type(content).__name__}")
    return content


def pattern_free(path: Path) -> str:
    """Write a path so that DuckDB does not take the signs ``* ? [`` in it for a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _errno_of(error: OSError) -> int | None:
    """Arrow says the number only in its text."""
    if isinstance(error, pa.ArrowException | OSError):
        for number in _NO_ROOM:
            if f"[errno {number}]" in str(error):
                return number
    return None


def _room(path: Path) -> str:
    """Room on the file system of `path`, in words."""
    try:
        stat = os.statvfs(path.parent)
    except OSError:
        return "its free room cannot be read"
    return (
        f"{format_bytes(stat.f_bavail * stat.f_frsize)} of {format_bytes(stat.f_blocks * stat.f_frsize)} free"
    )
