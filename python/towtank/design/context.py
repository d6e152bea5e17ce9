"""What the parts of one experiment file are checked against: the file itself, and where problems go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as FolderPath

from towtank.design.problems import Place, Problems, listing, nearest
from towtank.design.tree import Mapping, Node, Scalar, Sequence, scalars
from towtank.design.validation import Path, joined
from towtank.platforms import placeholders

_FILLED = frozenset({"run", "env", "copy"})
"""Keys below which `{name}` placeholders are filled."""


@dataclass(frozen=True)
class FileContext:
    """One file, with profile and overrides in it.

    Parameters
    ----------
    root : Mapping
    problems : Problems
    folder : Path
        Of the experiment file, without symbolic links.
    """

    root: Mapping
    problems: Problems
    folder: FolderPath

    def names(self, section: str) -> tuple[str, ...]:
        """Names that a section defines: deployments, workloads, fixtures."""
        node = self.root.get(section)
        return tuple(node.entries) if isinstance(node, Mapping) else ()

    def holder(self, path: Path) -> Place:
        """Place of the key that a part belongs to: where something missing in it is reported."""
        node: Node | None = self.root
        place = self.root.place
        for part in path:
            if isinstance(node, Mapping) and isinstance(part, str):
                place = node.key_place(part)
                node = node.get(part)
            elif isinstance(node, Sequence) and isinstance(part, int):
                node = node.items[part]
                place = node.place
        return place

    def place_of(self, path: Path, text: str) -> Place:
        """Place of the first value under a path that holds a text; of the path, when none does."""
        node: Node | None = self.root
        for part in path:
            node = node.get(str(part)) if isinstance(node, Mapping) else None
        for scalar in scalars(node) if node is not None else ():
            if text in scalar.text.replace(" ", ""):
                return scalar.place
        return self.holder(path)

    def unknown_fixture(self, name: str, place: Place, path: str) -> None:
        """Say that a fixture is used which does not exist."""
        known = self.names("fixtures")
        self.problems.add(
            place,
            path,
            f"there is no fixture {name!r}; fixtures are {listing(known)}",
            nearest(name, known),
        )

    def check_placeholders(self, node: Node, path: Path) -> None:
        """Placeholders in commands and copies must be known, and name fixtures that exist."""
        known = self.names("fixtures")
        for scalar, keys in _texts(node, path):
            if _FILLED.isdisjoint(keys):
                continue
            try:
                placeholders.validate(scalar.text, placeholders.RUN_NAMES)
                named = placeholders.dotted([scalar.text], "fixture")
            except placeholders.PlaceholderError as error:
                self.problems.add(scalar.place, joined(keys), str(error))
                continue
            for name in named:
                if name not in known:
                    self.unknown_fixture(name, scalar.place, joined(keys))


def _texts(node: Node, path: Path) -> Iterator[tuple[Scalar, Path]]:
    """Every text in a tree with its key path."""
    if isinstance(node, Scalar):
        if isinstance(node.value, str):
            yield node, path
    elif isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield from _texts(item, (*path, index))
    else:
        for key, entry in node.entries.items():
            yield from _texts(entry.node, (*path, key))
