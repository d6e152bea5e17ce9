"""What a component's command starts, and what of it is not there: its working folder, its program, its script.

Only what can be known before anything is started is looked at. `{root}` and `{python}` are known; a word with any other
placeholder is not, and neither is a script behind options of its interpreter that are not known here.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from towtank.platforms import placeholders

Keys = tuple[str | int, ...]

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
_ALONE = {
    "python": re.compile(r"-[bBdEiIOPqsSuvx]+"),
    **dict.fromkeys(_SHELLS, re.compile(r"[-+][eufnvx]+|-l")),
    "node": re.compile(r"--[a-z-]+=.*"),
    "ruby": re.compile(r"-[vw]+"),
    "perl": re.compile(r"-[wT]+"),
}
"""Interpreter → its options that stand alone; behind any other one, which word is the script is not known."""
_VERSION = re.compile(r"[\d.]+$")


@dataclass(frozen=True)
class Missing:
    """Something that a command needs and that is not there.

    Parameters
    ----------
    keys : tuple of str or int
        Key path in the component: ``("command", 0)`` or ``("cwd",)``.
    words : str
        What is missing, where it was looked for, and what to do.
    path : Path, optional
        Where it would be, if it is named by a path of its own; else it is looked for in PATH.
    """

    keys: Keys
    words: str
    path: Path | None = None

    def is_inside(self, folder: Path) -> bool:
        """Whether it is named as a part of a folder, and so goes wherever the folder goes."""
        return self.path is not None and Path(os.path.normpath(self.path)).is_relative_to(folder)

    def below(self, *keys: str | int) -> Missing:
        """The same, seen from further above."""
        return Missing((*keys, *self.keys), self.words, self.path)


def missing(command: Sequence[str], cwd: str, env: Mapping[str, str], root: Path | None) -> Iterator[Missing]:
    """What of a command is not there; what cannot be known is passed over.

    Parameters
    ----------
    command : sequence of str
        Its first word is the program.
    cwd : str
        Working folder, relative to `root`.
    env : mapping
        Its environment; PATH counts.
    root : Path, optional
        Folder of the experiment file; without it, only programs in PATH are looked for.
    """
    folder = _folder(cwd, root)
    if folder is not None and not os.path.isdir(folder):  # noqa: PTH112 - as in `_is_program`
        words = f"the working folder {cwd!r} is not there (looked at {folder})"
        yield Missing(("cwd",), f"{words}; `cwd` is relative to the folder of the experiment file", folder)
        return
    yield from _program(command[0], folder, env, root)
    found = script_of(command)
    name = _known(command[found], root) if found is not None else None
    if found is not None and name is not None and folder is not None and not os.path.exists(folder / name):  # noqa: PTH110 - as in `_is_program`
        path = folder / name
        yield Missing(
            ("command", found), f"the script {command[found]!r} is not there (looked at {path})", path
        )


def script_of(command: Sequence[str]) -> int | None:
    """Which word of a command is a file that its interpreter reads; None when there is none, or it is not known."""
    name = PurePath(command[0]).name
    kind = "python" if command[0] == "{python}" else _VERSION.sub("", name)
    alone = _ALONE.get(kind)
    if alone is None:
        return None
    for index, word in enumerate(command[1:], start=1):
        if word.startswith(("-", "+")):
            if not alone.fullmatch(word):
                return None
            continue
        return index
    return None


def _program(
    program: str, folder: Path | None, env: Mapping[str, str], root: Path | None
) -> Iterator[Missing]:
    name = _known(program, root)
    if program == "python" or name is None:
        return
    if "/" in name:
        if folder is not None:
            yield from _executable(program, folder / name)
        return
    search = env.get("PATH", os.environ.get("PATH", os.defpath))
    if not placeholders.names(search) and not any(_is_program(Path(p) / name) for p in search.split(":")):
        yield Missing(("command", 0), f"the program {program!r} is not in PATH ({search})")


def _executable(program: str, path: Path) -> Iterator[Missing]:
    if not os.path.isfile(path):  # noqa: PTH113 - a name that is too long is no error here
        yield Missing(("command", 0), f"the program {program!r} is not there (looked at {path})", path)
    elif not os.access(path, os.X_OK):
        words = f"the program {program!r} cannot be executed; try `chmod +x {path}`"
        yield Missing(("command", 0), words, path)


def _is_program(path: Path) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113 - a name that is too long is no error here


def _folder(cwd: str, root: Path | None) -> Path | None:
    name = _known(cwd, root)
    return None if root is None or name is None else root / name


def _known(text: str, root: Path | None) -> str | None:
    """A text with its placeholders filled in, when all of them are known before a deployment."""
    values = {"python": sys.executable, **({"root": str(root.absolute())} if root is not None else {})}
    if any(name not in values for name in placeholders.names(text)):
        return None
    return placeholders.render(text, values)
