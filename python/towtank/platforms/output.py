"""What an instance said: its last words, fit to be shown on a terminal, and whether a port was taken."""

from __future__ import annotations

import re
from pathlib import Path

DEFAULT_LOG_LIMIT_BYTES = 10 * 2**20
"""Kept of the output of an instance or container, where the file does not say it."""
TAIL_LINES = 20
_TAIL_BYTES = 64 * 1024
_LINE_LENGTH = 400
# Escape sequences and control characters: an application must not be able to write on our user's terminal.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PORT_TAKEN = re.compile(rb"EADDRINUSE|address (?:is )?already in use|errno 98|os error 98", re.IGNORECASE)


def tail(path: Path, *, lines: int = TAIL_LINES, after: int = 0) -> list[str]:
    """Last lines of a file, without control characters.

    Parameters
    ----------
    path : Path
        A file that is missing has no lines.
    lines : int
    after : int
        Bytes at the beginning that do not count.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(after, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [clean(line) for line in text.splitlines()[-lines:]]


def quoted(path: Path, *, after: int = 0) -> str:
    """Last lines of a log as the end of an error message."""
    found = tail(path, after=after)
    if not found:
        return "\nit wrote nothing"
    word = "line" if len(found) == 1 else f"{len(found)} lines"
    return f"\nits last {word}:\n" + "\n".join(f"  | {line}" for line in found)


def says_port_taken(path: Path, *, after: int) -> bool:
    """Whether a log says that a port was somebody else's, beyond the first `after` bytes."""
    try:
        with path.open("rb") as file:
            file.seek(after)
            return bool(_PORT_TAKEN.search(file.read()))
    except OSError:
        return False


def clean(line: str) -> str:
    """A line without escape sequences and control characters, cut to a length that can be read."""
    plain = _CONTROL.sub("", _ESCAPES.sub("", line)).expandtabs()
    return plain if len(plain) <= _LINE_LENGTH else plain[: _LINE_LENGTH - 1] + "…"
