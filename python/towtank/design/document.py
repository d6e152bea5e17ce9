"""A YAML 1.2 document as a tree in which every key and value knows its file, line and column.

Strict where YAML is lenient: no duplicate keys, no tags, no second document, no ``no`` → false (YAML 1.2 core
schema), UTF-8 only. Bounded where YAML is not: file size, depth, and the number of nodes *after* aliases are
followed, so that a file of one kilobyte cannot unfold into gigabytes. ruamel.yaml scans and parses; the tree is
composed here, iteratively, from its events.

References
----------
YAML 1.2.2, §10.3 "Core Schema", https://yaml.org/spec/1.2.2/#103-core-schema. The merge key ``<<`` is YAML 1.1's
(https://yaml.org/type/merge.html), kept because editors know it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from towtank.design.problems import Place, Problems
from towtank.design.tree import Entry, Mapping, Node, Scalar, Sequence

MAX_FILE_BYTES = 256 * 1024
"""A paper's largest experiment files are a tenth of that; parsing stays under two seconds."""
MAX_NODES = 20_000
"""Keys and values after following aliases; an alias counts as all that it stands for."""
MAX_DEPTH = 40
"""Nesting of mappings and lists."""

_NUMBERS: tuple[tuple[re.Pattern[str], Callable[[str], int | float]], ...] = (
    (re.compile(r"[-+]?[0-9]{1,300}"), int),
    (re.compile(r"0o[0-7]{1,300}"), lambda text: int(text, 8)),
    (re.compile(r"0x[0-9a-fA-F]{1,300}"), lambda text: int(text, 16)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)"), lambda text: float(text.replace(".", ""))),
)
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}


def read_document(path: Path, shown_as: str, problems: Problems) -> tuple[Node | None, str]:
    """Read one YAML file.

    Returns
    -------
    node : Node or None
        None when the file cannot be used at all; `problems` then says why.
    text : str
        What the file says, to be kept with the results.
    """
    start = Place(shown_as)
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        problems.add(start, "", "the file does not exist")
        return None, ""
    except OSError as error:
        problems.add(start, "", f"the file cannot be read: {error.strerror or error}")
        return None, ""
    except ValueError:
        problems.add(start, "", "the path cannot name a file: it has a null character in it")
        return None, ""
    if len(raw) > MAX_FILE_BYTES:
        problems.add(
            start, "", f"the file is larger than {MAX_FILE_BYTES // 1024} KiB, which no experiment needs"
        )
        return None, ""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        problems.add(
            Place(shown_as, line, column),
            "",
            f"byte 0x{raw[error.start]:02x} is not UTF-8",
            "save the file as UTF-8",
        )
        return None, ""
    return parse_document(text, shown_as, problems), text


def parse_document(text: str, shown_as: str, problems: Problems) -> Node | None:
    """Parse YAML text; None when it has no usable tree, and `problems` says why."""
    composer = _Composer(shown_as, problems)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            composer.feed(event)
    except _GivenUpError:
        return None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(shown_as, mark.line + 1, mark.column + 1) if mark else Place(shown_as)
        begun = f", begun in line {error.context_mark.line + 1}" if error.context_mark else ""
        context = f" ({error.context}{begun})" if error.context else ""
        problem = str(error.problem or "not YAML").replace("'\\x00'", "the end of the file")
        problems.add(place, "", f"not valid YAML: {problem}{context}")
        return None
    except ReaderError as error:
        before = text[: error.position]
        column = error.position - (before.rfind("\n") + 1) + 1
        problems.add(
            Place(shown_as, before.count("\n") + 1, column),
            "",
            f"the character U+{_code_point(error.character):04X} is not allowed in YAML",
        )
        return None
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError, AssertionError) as error:
        # The parser stumbles over some hostile text instead of refusing it; it is not YAML either way.
        problems.add(Place(shown_as), "", f"not valid YAML: {type(error).__name__} in the parser")
        return None
    if composer.root is None:
        problems.add(
            Place(shown_as),
            "",
            "the file is empty; allowed is a mapping that begins with `experiment:`",
        )
    return composer.root


def _code_point(character: object) -> int:
    if isinstance(character, int):
        return character
    return ord(str(character)[:1] or "\0")


class _GivenUpError(Exception):
    """A bound was reached; the problem has been said."""


@dataclass
class _Open:
    """A collection that is being read."""

    place: Place
    anchor: str | None
    is_mapping: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    merges: list[Node] = field(default_factory=list)
    key: tuple[Place, str | None] | None = None
    """The key that waits for its value; its name is None for a key that cannot be used."""
    size: int = 1


class _Composer:
    """Builds the tree from parser events, with all bounds."""

    def __init__(self, shown_as: str, problems: Problems) -> None:
        self.root: Node | None = None
        self._file = shown_as
        self._problems = problems
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._documents = 0
        self._total = 0

    def feed(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, ScalarEvent):
            self._no_tag(event)
            self._add(self._scalar(event), 1, event.anchor)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._open(event)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            self._close()
        elif isinstance(event, AliasEvent):
            self._alias(event)
        elif isinstance(event, DocumentStartEvent):
            self._document(event)

    def _place(self, event: Event) -> Place:
        return Place(self._file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _path(self) -> str:
        parts: list[str] = []
        for level in self._stack:
            if not level.is_mapping:
                parts.append(f"[{len(level.items)}]")
            elif level.key and level.key[1] is not None:
                parts.append(f".{level.key[1]}")
        return "".join(parts).removeprefix(".")

    def _document(self, event: DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            self._problems.add(self._place(event), "", "a second document; a file holds one")
            raise _GivenUpError
        if event.tags:
            self._problems.add(self._place(event), "", "tag directives are not allowed in an experiment file")

    def _no_tag(self, event: ScalarEvent | MappingStartEvent | SequenceStartEvent) -> None:
        tag = event.tag
        if tag is not None:
            self._problems.add(
                self._place(event),
                self._path(),
                f"the tag {str(tag)[:60]!r} is not allowed; an experiment file has plain values only",
            )

    def _scalar(self, event: ScalarEvent) -> Scalar:
        place = self._place(event)
        is_plain = event.style in (None, "") and (event.implicit[0] or event.tag is not None)
        text: str = event.value
        value = resolve(text) if is_plain else text
        return Scalar(place, value, text, plain=is_plain)

    def _open(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        self._no_tag(event)
        if len(self._stack) >= MAX_DEPTH:
            self._problems.add(self._place(event), self._path(), f"nested deeper than {MAX_DEPTH} levels")
            raise _GivenUpError
        is_mapping = isinstance(event, MappingStartEvent)
        self._stack.append(_Open(self._place(event), event.anchor, is_mapping))

    def _close(self) -> None:
        done = self._stack.pop()
        node: Node
        if done.is_mapping:
            for source in done.merges:
                self._merge(done, source)
            node = Mapping(done.place, done.entries)
        else:
            node = Sequence(done.place, tuple(done.items))
        self._add(node, done.size, done.anchor)

    def _alias(self, event: AliasEvent) -> None:
        place = self._place(event)
        name = event.anchor
        if any(level.anchor == name for level in self._stack):
            self._problems.add(place, self._path(), f"*{name} stands inside of what it refers to")
            raise _GivenUpError
        if name not in self._anchors:
            self._problems.add(place, self._path(), f"*{name} refers to no anchor above it")
            raise _GivenUpError
        node, size = self._anchors[name]
        self._count(place, size)
        self._attach(node, size, place)

    def _add(self, node: Node, size: int, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = (node, size)
        self._count(node.place, 1)
        self._attach(node, size, node.place)

    def _count(self, place: Place, size: int) -> None:
        self._total += size
        if self._total > MAX_NODES:
            self._problems.add(place, self._path(), f"the file unfolds into more than {MAX_NODES:,} values")
            raise _GivenUpError

    def _attach(self, node: Node, size: int, place: Place) -> None:
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        parent.size += size
        if not parent.is_mapping:
            parent.items.append(node)
        elif parent.key is None:
            parent.key = (place, self._key(node, place))
        else:
            key_place, name = parent.key
            self._put(parent, key_place, name, node)
            parent.key = None

    def _key(self, node: Node, place: Place) -> str | None:
        if not isinstance(node, Scalar):
            self._problems.add(place, self._path(), "a key must be text, not a mapping or a list")
            return None
        if node.value is None and node.plain:
            self._problems.add(place, self._path(), "a key is empty; it must be text")
            return None
        return node.text

    def _put(self, parent: _Open, place: Place, name: str | None, node: Node) -> None:
        if name is None:
            return
        if name == "<<":
            parent.merges.append(node)
            return
        if name in parent.entries:
            first = parent.entries[name].place
            self._problems.add(
                place,
                self._path(),
                f"the key {name!r} is written twice; it stands in line {first.line} already",
            )
            return
        parent.entries[name] = Entry(place, node)

    def _merge(self, into: _Open, source: Node) -> None:
        """Take over the keys that `into` does not have itself."""
        many = source.items if isinstance(source, Sequence) else (source,)
        for one in many:
            if not isinstance(one, Mapping):
                self._problems.add(one.place, self._path(), "`<<` takes a mapping, such as `<<: *name`")
                continue
            for key, entry in one.entries.items():
                into.entries.setdefault(key, entry)


def resolve(text: str) -> bool | int | float | str | None:
    """Give a plain scalar its meaning by the YAML 1.2 core schema: ``no`` is text, ``010`` is ten."""
    if text in _WORDS:
        return _WORDS[text]
    for pattern, read in _NUMBERS:
        if pattern.fullmatch(text):
            return read(text)
    return text
