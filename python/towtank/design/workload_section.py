"""One workload of the file: read as a whole; where its form is wrong, what is right in it is checked all the same.

What follows only from something that is wrong is not said: a step whose keys are wrong is not asked for its target, and
a load is not asked whether it fits into the machine when its timeout cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import Field

from towtank.design.context import FileContext
from towtank.design.driver_section import read_driver
from towtank.design.foreign import ForeignWorkload
from towtank.design.include import Library
from towtank.design.load_checks import check_load, check_requests, check_room
from towtank.design.model import AnyFeed, Feed, Identifier, Load, OpenLoad, Workload
from towtank.design.named_files import NamedFiles
from towtank.design.problems import Problems
from towtank.design.trace_files import trace_name, with_trace
from towtank.design.tree import Entry, Mapping, Node, Scalar, has_unknown
from towtank.design.validation import Path, joined, lies_in, validated
from towtank.fields import Model

_ROOM = ("timeout", "connections", "rotate", "journey")
"""Keys, besides the load, that decide how many connections a load may need at once."""


class _LoadAlone(Model):
    load: Load


class _FeedsAlone(Model):
    feeds: dict[Identifier, AnyFeed] = Field({})


@dataclass(frozen=True)
class Driven:
    """A workload of the file: the model, and the tree that it was made from.

    Parameters
    ----------
    model : Workload, ForeignWorkload or None
        None when something is wrong with it.
    node : Mapping
    path : tuple
        Where it stands.
    doubtful : frozenset of str
        Key paths at which its form is wrong.
    files : dict
        Files that it names, with their SHA-256.
    """

    model: Workload | ForeignWorkload | None
    node: Mapping
    path: Path
    doubtful: frozenset[str] = frozenset()
    files: dict[str, str] = field(default_factory=dict)

    def is_sound(self, path: Path) -> bool:
        """Whether the form of a part and of everything in it is right."""
        return not any(lies_in(one, path) for one in self.doubtful)

    def says(self, *keys: str) -> bool:
        """Whether it can be known what the workload says of some keys, be it nothing."""
        known = self.node.entries.keys() & Workload.model_fields.keys()
        unknown = self.node.entries.keys() - known  # one of them may have been meant for one of these
        return not unknown and all(self.is_sound((*self.path, key)) for key in keys)


def read_workload(
    node: Node, path: Path, context: FileContext, library: Library, files: NamedFiles
) -> Driven | None:
    """Read one expanded workload, with the files that it names; None when it is no mapping."""
    if not isinstance(node, Mapping):
        validated(Workload, node, path, context.holder(path), context.problems)
        return None
    if "driver" in node.entries:
        return _read_script(node, path, context, files)
    found = Problems()
    model = validated(Workload, node, path, context.holder(path), found)
    context.problems.take(found)
    before = len(context.problems)
    driven = Driven(model, node, path, frozenset(problem.path for problem in found.sorted()))
    if found.not_kept:
        return driven  # too much is wrong to know what is not
    reading = _Reading(driven, context, library)
    load = reading.load()
    reading.check(load)
    feeds = model.feeds if model is not None else reading.feeds()
    named = files.of_workload(feeds, node, path, reading.is_sound)
    if model is None or load is None or len(context.problems) > before:
        return Driven(None, node, path, driven.doubtful)
    return Driven(model.model_copy(update={"load": load}), node, path, files=named)


def _read_script(node: Mapping, path: Path, context: FileContext, files: NamedFiles) -> Driven:
    """A workload that another tool drives, with its script."""
    before = len(context.problems)
    foreign = read_driver(node, path, context)
    script = node.get("script")
    named: dict[str, str] = {}
    if isinstance(script, Scalar) and isinstance(script.value, str):
        named = files.look(script, (*path, "script"))
    return Driven(foreign if len(context.problems) == before else None, node, path, files=named)


class _Reading:
    """What can be said of one workload."""

    def __init__(self, driven: Driven, context: FileContext, library: Library) -> None:
        self._driven = driven
        self._context = context
        self._library = library
        self._holder = context.holder(driven.path)

    def is_sound(self, path: Path) -> bool:
        """Whether the form of a part is right."""
        return self._driven.is_sound(path)

    def load(self) -> Load | None:
        """The load, with what is in the file of its trace; None when either is wrong."""
        node, path = self._driven.node, self._driven.path
        if isinstance(self._driven.model, Workload):
            load = self._driven.model.load
        else:
            alone = validated(_LoadAlone, node.only({"load"}), path, self._holder, Problems())
            if alone is None:
                return None
            load = alone.load
        name = trace_name(node)
        if name is None or not isinstance(load, OpenLoad):
            return load
        real = self._library.find(name.text, name.place, joined((*path, "load", "trace", "file")))
        if real is None:
            return None
        return with_trace(load, real, self._library.shown(real), self._context.problems)

    def feeds(self) -> dict[str, Feed]:
        """Feeds whose form is right."""
        part = self._without_doubtful().only({"feeds"})
        alone = validated(_FeedsAlone, part, self._driven.path, self._holder, Problems())
        return {} if alone is None else alone.feeds

    def check(self, load: Load | None) -> None:
        """Say what is well written and still impossible."""
        node, path, problems = self._driven.node, self._driven.path, self._context.problems
        load_node, journey = node.get("load"), node.get("journey")
        if isinstance(load_node, Mapping) and load is not None:
            here = (*path, "load")
            fits = check_load(load_node, load, here, node.key_place("load"), problems)
            whole = self._as_far_as_sound() if fits and self._driven.says(*_ROOM) else None
            if whole is not None:
                check_room(load_node, whole.model_copy(update={"load": load}), here, problems)
        if isinstance(journey, Mapping):
            check_requests(journey, (*path, "journey"), problems, self.is_sound)
        whole = self._as_far_as_sound()
        if whole is not None and whole.timeout <= 0:
            problems.add(node.key_place("timeout"), joined((*path, "timeout")), "must be more than 0")

    def _as_far_as_sound(self) -> Workload | None:
        """The workload, or what it would be without the parts that are wrong; None when it cannot be without them."""
        if isinstance(self._driven.model, Workload):
            return self._driven.model
        return validated(Workload, self._without_doubtful(), self._driven.path, self._holder, Problems())

    def _without_doubtful(self) -> Mapping:
        """The tree without what is wrong or unknown: keys, and single feeds."""
        node, path = self._driven.node, self._driven.path
        kept = _sound_entries(node, path, self.is_sound)
        feeds = node.get("feeds")
        if isinstance(feeds, Mapping):
            some = Mapping(feeds.place, _sound_entries(feeds, (*path, "feeds"), self.is_sound))
            kept["feeds"] = Entry(node.key_place("feeds"), some)
        return Mapping(node.place, kept)


def _sound_entries(node: Mapping, path: Path, is_sound: Callable[[Path], bool]) -> dict[str, Entry]:
    return {
        key: entry
        for key, entry in node.entries.items()
        if is_sound((*path, key)) and not has_unknown(entry.node)
    }
