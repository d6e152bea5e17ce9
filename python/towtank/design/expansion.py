"""Filling the levels of one treatment into a tree: ``${{ … }}`` becomes a value, everything else stays."""

from __future__ import annotations

from dataclasses import replace

from towtank.design.document import Entry, Mapping, Node, Scalar, Sequence, scalars
from towtank.design.problems import Problems
from towtank.design.template import (
    Environment,
    TemplateError,
    as_text,
    compile_template,
    has_template,
)
from towtank.design.validation import Path, joined


class Expansion:
    """Expands trees and remembers which names they need.

    Parameters
    ----------
    problems : Problems
        Where expressions that cannot be read or worked out are said.
    """

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._names: dict[int, tuple[Node, frozenset[str]]] = {}

    def names(self, node: Node) -> frozenset[str]:
        """Names that the expressions of a tree use; expressions that cannot be read have none."""
        cached = self._names.get(id(node))
        if cached:
            return cached[1]
        found: set[str] = set()
        for scalar in scalars(node):
            if isinstance(scalar.value, str) and has_template(scalar.value):
                try:
                    found |= compile_template(scalar.value).names
                except TemplateError:
                    continue
        # The node is kept beside its names: its id is its own only as long as it lives.
        self._names[id(node)] = (node, frozenset(found))
        return frozenset(found)

    def expand(self, node: Node, environment: Environment, path: Path) -> Node | None:
        """Return the tree with every expression worked out; None when one of them failed."""
        before = self._failures
        expanded = self._expand(node, environment, path)
        return expanded if self._failures == before else None

    _failures = 0

    def _expand(self, node: Node, environment: Environment, path: Path) -> Node:
        if isinstance(node, Scalar):
            return self._scalar(node, environment, path)
        if isinstance(node, Sequence):
            items = tuple(self._expand(n, environment, (*path, i)) for i, n in enumerate(node.items))
            return node if all(a is b for a, b in zip(items, node.items, strict=True)) else replace(node, items=items)
        entries: dict[str, Entry] = {}
        changed = False
        for key, entry in node.entries.items():
            if has_template(key):
                self._fail(entry, (*path, key))
            below = self._expand(entry.node, environment, (*path, key))
            changed = changed or below is not entry.node
            entries[key] = entry if below is entry.node else Entry(entry.place, below)
        return replace(node, entries=entries) if changed else node

    def _fail(self, entry: Entry, path: Path) -> None:
        self._failures += 1
        self._problems.add(entry.place, joined(path), "a key cannot be an expression; only values can")

    def _scalar(self, node: Scalar, environment: Environment, path: Path) -> Scalar:
        if not isinstance(node.value, str) or not has_template(node.value):
            return node
        try:
            value = compile_template(node.value).expand(environment)
        except TemplateError as error:
            self._failures += 1
            self._problems.add(node.place, joined(path), error.message, error.hint)
            return node
        return Scalar(node.place, value, as_text(value), plain=not isinstance(value, str))


def refuse_expressions(node: Node, path: Path, problems: Problems) -> None:
    """Say every expression in a part of the file that is the same for all treatments."""
    for scalar in scalars(node):
        if isinstance(scalar.value, str) and has_template(scalar.value):
            problems.add(
                scalar.place,
                joined(path),
                "an expression cannot stand here: this part is the same for every treatment",
            )
