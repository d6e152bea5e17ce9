"""Filling the levels of one treatment into a tree: ``${{ … }}`` becomes a value, everything else stays."""

from __future__ import annotations

from dataclasses import replace

from towtank.design.expression import Environment, unknown_name
from towtank.design.operations import TemplateError, as_text
from towtank.design.problems import Problems
from towtank.design.template import compile_template, has_template
from towtank.design.tree import UNKNOWN, Entry, Node, Scalar, Sequence, scalars
from towtank.design.validation import Path, joined


class Expansion:
    """Expands trees and remembers which names they need.

    Parameters
    ----------
    problems : Problems
        Where expressions that cannot be read or worked out are said.
    unusable : frozenset of str
        Factors whose levels are wrong: what needs them has no value, and that has been said.
    """

    def __init__(self, problems: Problems, unusable: frozenset[str] = frozenset()) -> None:
        self._problems = problems
        self._unusable = unusable
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

    def expand(self, node: Node, environment: Environment, path: Path) -> Node:
        """Return the tree with every expression worked out.

        One that fails leaves `UNKNOWN`, and its place is muted: the rest of the tree can still be checked.
        """
        if isinstance(node, Scalar):
            return self._scalar(node, environment, path)
        if isinstance(node, Sequence):
            items = tuple(self.expand(n, environment, (*path, i)) for i, n in enumerate(node.items))
            same = all(a is b for a, b in zip(items, node.items, strict=True))
            return node if same else replace(node, items=items)
        entries: dict[str, Entry] = {}
        for key, entry in node.entries.items():
            if has_template(key):
                self._problems.add(
                    entry.place, joined((*path, key)), "a key cannot be an expression; only values can"
                )
            below = self.expand(entry.node, environment, (*path, key))
            entries[key] = entry if below is entry.node else Entry(entry.place, below)
        same = all(entries[key] is node.entries[key] for key in entries)
        return node if same else replace(node, entries=entries)

    def _scalar(self, node: Scalar, environment: Environment, path: Path) -> Scalar:
        if not isinstance(node.value, str) or not has_template(node.value):
            return node
        try:
            template = compile_template(node.value)
            if template.names & self._unusable:
                for name in sorted(template.names - self._unusable - set(environment)):
                    raise unknown_name(name, {*environment, *self._unusable})
                value: object = UNKNOWN
            else:
                value = template.expand(environment)
        except TemplateError as error:
            self._problems.add(node.place, joined(path), error.message, error.hint)
            value = UNKNOWN
        if value is UNKNOWN:
            self._problems.mute(node.place)
            return Scalar(node.place, value, "", plain=False)  # type: ignore[arg-type]  # no model accepts it
        return Scalar(node.place, value, as_text(value), plain=not isinstance(value, str))  # type: ignore[arg-type]


def refuse_expressions(node: Node, path: Path, problems: Problems) -> None:
    """Say every expression in a part of the file that is the same for all treatments."""
    for scalar in scalars(node):
        if isinstance(scalar.value, str) and has_template(scalar.value):
            problems.add(
                scalar.place,
                joined(path),
                "an expression cannot stand here: this part is the same for every treatment",
            )
            problems.mute(scalar.place)
