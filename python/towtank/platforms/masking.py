"""Values that nobody may read: taken from the environment, masked in everything written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from towtank.errors import PlatformError

MASK = "***"
SHORTEST_SECRET = 4
"""Shorter values are masked where a placeholder put them, but not searched in other texts: they are everywhere."""
_CHUNK_BYTES = 1 << 20


class Secrets:
    """The values of `{env.NAME}` and `{file.PATH}` placeholders, and the means to keep them out of sight.

    Parameters
    ----------
    names : iterable of str
        Variables of the environment.
    environment : mapping, optional
        Where they are looked up; the process's own by default.
    files : iterable of str
        Files in `root`.
    root : Path, optional
        Folder of the experiment file.

    Raises
    ------
    PlatformError
        A variable is not set or a file cannot be read; names all of them.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        *,
        files: Iterable[str] = (),
        root: Path | None = None,
    ) -> None:
        environment = os.environ if environment is None else environment
        names = tuple(names)
        missing = missing_variables(names, environment)
        if missing:
            raise PlatformError(
                f"not set in the environment: {', '.join(missing)}",
                hint="export what {env.NAME} placeholders of the experiment file name, then run again",
            )
        self._values = {f"env.{name}": environment[name] for name in names}
        self._values |= {f"file.{name}": read_secret(name, root) for name in files}
        # Longest first: a secret may contain another one.
        self._searched = sorted((v for v in self._values.values() if len(v) >= SHORTEST_SECRET), key=len)[
            ::-1
        ]
        lines = {line.encode() for value in self._searched for line in (value, *value.splitlines())}
        self._in_lines = sorted((v for v in lines if len(v) >= SHORTEST_SECRET), key=len, reverse=True)

    @property
    def placeholders(self) -> dict[str, str]:
        """`env.NAME` or `file.PATH` → value."""
        return dict(self._values)

    @property
    def masked_placeholders(self) -> dict[str, str]:
        """`env.NAME` or `file.PATH` → mask; to render what is shown."""
        return dict.fromkeys(self._values, MASK)

    def mask(self, text: str) -> str:
        """Replace every secret value in a text."""
        for value in self._searched:
            text = text.replace(value, MASK)
        return text

    def mask_line(self, line: bytes, *, whole: bool = True) -> bytes:
        """Replace every secret value in one line of output; of a value with several lines, each of them.

        Parameters
        ----------
        line : bytes
        whole : bool
            False where it was cut: its end may be the beginning of a value, and is left out where there are any.
        """
        for value in self._in_lines:
            line = line.replace(value, MASK.encode())
        return line if whole or not self._in_lines else line[: -len(self._in_lines[0])]

    def mask_file(self, path: Path) -> None:
        """Replace every secret value in a file, in place; a file without secrets is not touched."""
        values = [value.encode() for value in self._searched]
        if not values or not path.is_file() or not _contains(path, values):
            return
        content = path.read_bytes()
        for value in values:  # lines stay where they are: their times are known by their numbers
            content = content.replace(value, MASK.encode() + b"\n" * value.count(b"\n"))
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)


def read_secret(name: str, root: Path | None) -> str:
    """Text of a file that holds a secret, without the last line break.

    Raises
    ------
    PlatformError
        It cannot be read, or lies outside of the experiment's folder.
    """
    root = (root or Path()).resolve()
    try:
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise PlatformError(
                f"{{file.{name}}} lies outside of the experiment's folder",
                hint="put the value into the environment and write {env.NAME}",
            )
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else error
        raise PlatformError(f"the file of {{file.{name}}} cannot be read: {words}") from error
    return text.removesuffix("\n").removesuffix("\r")


def missing_secrets(names: Iterable[str], files: Iterable[str], root: Path | None) -> list[str]:
    """Placeholders without a value, in words; without a root files are not looked for."""
    found = [f"the variable {name} of {{env.{name}}} is not set" for name in missing_variables(names)]
    for name in files if root is not None else ():
        try:
            read_secret(name, root)
        except PlatformError as error:
            found.append(error.message)
    return found


def missing_variables(names: Iterable[str], environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Those that are not set."""
    environment = os.environ if environment is None else environment
    return tuple(name for name in names if name not in environment)


def _contains(path: Path, values: list[bytes]) -> bool:
    """Look for values in a file of any size; chunks overlap by what a value could straddle."""
    overlap = max(map(len, values)) - 1
    tail = b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            window = tail + chunk
            if any(value in window for value in values):
                return True
            tail = window[-overlap:] if overlap else b""
    return False
