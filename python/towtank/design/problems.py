"""What is wrong in an experiment file, said so that its author can mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from towtank.spelling import nearest_name

MAX_PROBLEMS = 200
"""More are counted, not kept: nobody reads them, and a hostile file must not fill the memory."""


def visible(text: str) -> str:
    """Write a text for a terminal: what a key or value of a file holds must not steer it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


@dataclass(frozen=True, order=True)
class Problem:
    """One problem at one place.

    Parameters
    ----------
    file : str
        Path as the user gave it.
    line, column : int
        1-based position of the offending key or value.
    path : str
        Key path, such as ``workloads.shop.load.users``.
    message : str
        What was found and what is allowed.
    hint : str
        The nearest known name or the next step; may be empty.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}"
        path = f" {self.path}:" if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return visible(f"{where}:{path} {self.message}{hint}")


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """Where something stands: file as the user gave it, 1-based line and column."""

    file: str
    line: int = 1
    column: int = 1


@dataclass
class Problems:
    """Collects problems; the same one in many treatments, or behind many aliases, is kept once."""

    _found: dict[tuple[Place, str], Problem] = field(default_factory=dict)
    _muted: set[Place] = field(default_factory=set)
    not_kept: int = 0

    def mute(self, place: Place) -> None:
        """Keep nothing more at a place whose value is unknown: the reason has been said."""
        self._muted.add(place)

    def add(self, place: Place, path: str, message: str, hint: str = "") -> None:
        """Keep a problem, unless the same stands there already or the place is muted."""
        key = (place, message)
        if key in self._found or place in self._muted:
            return
        if len(self._found) >= MAX_PROBLEMS:
            self.not_kept += 1
            return
        self._found[key] = Problem(place.file, place.line, place.column, path, message, hint)

    def take(self, others: Problems) -> None:
        """Keep the problems of another collection too."""
        for (place, message), problem in others._found.items():
            self.add(place, problem.path, message, problem.hint)
        self.not_kept += others.not_kept

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def sorted(self) -> tuple[Problem, ...]:
        """All problems, by file, line and column."""
        return tuple(sorted(self._found.values()))


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that a misspelling was probably meant to be: a hint, or ``""``."""
    match = nearest_name(name, known)
    return f"did you mean {match!r}?" if match else ""


def listing(names: Iterable[object], *, most: int = 20) -> str:
    """Write names as a readable list: ``a, b, c``; a long one is cut with the number left out."""
    texts = [str(name) for name in names]
    if not texts:
        return "none"
    if len(texts) > most:
        return ", ".join(texts[:most]) + f" … and {len(texts) - most} more"
    return ", ".join(texts)


def shown(value: object, *, most: int = 60) -> str:
    """Write a found value for a message: YAML's words for null and booleans, long text cut."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= most else text[: most - 2] + "…" + text[-1]
