"""Which file is which run: treatments and repetitions from what the user says, or from the names of the files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from towtank.errors import ForeignFileError

_ENDINGS = re.compile(r"(\.(csv|json|jsonl|ndjson|log|txt|gz))+$", re.IGNORECASE)
_NUMBERED = re.compile(
    r"^(?P<name>.*?)(?:[-_. ]+(?:run|rep|repetition|r|block|b))?[-_. #]*(?P<number>\d{1,4})$", re.IGNORECASE
)


@dataclass(frozen=True)
class Labelled:
    """One file: which treatment, and which repetition of it (from 1)."""

    treatment: str
    repetition: int
    path: Path


def label_files(files: Sequence[Path], treatments: Sequence[str]) -> tuple[Labelled, ...]:
    """Decide which file is which run.

    ``NAME=FILE`` says it: files of the same name are its repetitions, in the order given. A file without a
    name is called after itself; ``before-1.csv`` to ``before-3.csv`` are three repetitions of `before`, since
    their numbers run from 1 (or 0) without a gap. Numbers that do not, as in ``users-10.csv`` and
    ``users-50.csv``, are part of the name. Files of the same name in different folders are called after their
    folders.

    Raises
    ------
    ForeignFileError
        A file is given twice, or ``NAME=FILE`` is none.
    """
    named = [*_said(treatments), *_guessed(files)]
    seen: dict[Path, str] = {}
    for name, path in named:
        if path.resolve() in seen:
            raise ForeignFileError(f"{path} is given twice", hint="one file is one run")
        seen[path.resolve()] = name
    found: list[Labelled] = []
    counts: dict[str, int] = defaultdict(int)
    for name, path in named:
        counts[name] += 1
        found.append(Labelled(name, counts[name], path))
    order = list(dict.fromkeys(one.treatment for one in found))
    return tuple(sorted(found, key=lambda one: (order.index(one.treatment), one.repetition)))


def _said(treatments: Sequence[str]) -> list[tuple[str, Path]]:
    found = []
    for text in treatments:
        name, separator, file = text.partition("=")
        if not separator or not name.strip() or not file:
            raise ForeignFileError(f"--treatment {text!r} is none; allowed is NAME=FILE")
        if not name.isprintable():
            raise ForeignFileError(f"--treatment {text!r}: the name holds a control character")
        found.append((name.strip(), Path(file)))
    return found


def _guessed(files: Sequence[Path]) -> list[tuple[str, Path]]:
    """Call files by what tells them apart: their stems, or their folders, without the number of the repetition."""
    stems = [_ENDINGS.sub("", path.name) or path.name for path in files]
    if len(files) > 1 and len(set(stems)) < len(files):
        stems = [f"{path.resolve().parent.name}/{stem}" for path, stem in zip(files, stems, strict=True)]
        same = {stem.rpartition("/")[2] for stem in stems}
        if len(same) == 1:  # a/result.csv, b/result.csv
            stems = [stem.rpartition("/")[0] for stem in stems]
    split = [_NUMBERED.match(stem) for stem in stems]
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for index, match in enumerate(split):
        if match and _tidy(match["name"]):
            groups[_tidy(match["name"])].append((int(match["number"]), index))
    names = list(stems)
    numbers = [0] * len(files)
    for name, members in groups.items():
        counted = sorted(number for number, _ in members)
        if counted in (list(range(1, len(counted) + 1)), list(range(len(counted)))) and len(counted) > 1:
            for number, index in members:
                names[index], numbers[index] = name, number
    order = sorted(range(len(files)), key=lambda i: (names.index(names[i]), numbers[i], i))
    return [(_printable(names[i]), files[i]) for i in order]


def _tidy(name: str) -> str:
    return name.rstrip("-_. /")


def _printable(name: str) -> str:
    """Replace what a table could not show in one line."""
    return "".join(sign if sign.isprintable() else "_" for sign in name)[:200] or "run"
