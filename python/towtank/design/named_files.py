"""Files that workloads and deployments name beside their journeys: bodies, feeds, certificates.

They are read once when the plan is made: a file that is missing or broken is refused before anything is sent, and its
SHA-256 is part of the plan, since a changed feed is a changed experiment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from pathlib import Path

from towtank.design.certificates import check_certificates
from towtank.design.context import FileContext
from towtank.design.feed_files import check_feed
from towtank.design.include import Library
from towtank.design.journey import requests_of
from towtank.design.model import Feed
from towtank.design.trace_files import trace_name
from towtank.design.tree import Mapping, Node, Scalar, Sequence
from towtank.design.validation import Path as KeyPath
from towtank.design.validation import joined

MOST_IN_FOLDER = 500
"""Of a chart or kustomize folder; what has more is another folder than was meant."""


@dataclass
class NamedFiles:
    """Finds, checks and fingerprints the files of one experiment.

    Parameters
    ----------
    library : Library
        Knows the experiment's folder.
    context : FileContext
    """

    library: Library
    context: FileContext
    _digests: dict[Path, str] = field(default_factory=dict)
    _checked: set[tuple[Path, str]] = field(default_factory=set)

    def of_workload(
        self, feeds: MappingType[str, Feed], node: Mapping, path: KeyPath, is_sound: Callable[[KeyPath], bool]
    ) -> dict[str, str]:
        """Files of bodies, parts, feeds and traces: path in the experiment's folder → SHA-256.

        Parameters
        ----------
        feeds : mapping
            Those of the workload whose form is right.
        node : Mapping
            The workload as it is written.
        path : tuple
        is_sound : callable
            Whether the form of a part is right; what is wrong is passed over.
        """
        found: dict[str, str] = {}
        trace = trace_name(node)
        if trace is not None and is_sound((*path, "load")):
            found |= self.look(trace, (*path, "load", "trace", "file"))
        journey = node.get("journey")
        if isinstance(journey, Mapping):
            for name, keys in _bodies(journey, (*path, "journey")):
                if is_sound(keys):
                    found |= self.look(name, keys)
        written = node.get("feeds")
        for key, feed in feeds.items():
            one = written.get(key) if isinstance(written, Mapping) else None
            named = one.get("file") if isinstance(one, Mapping) else one
            if not isinstance(named, Scalar):
                continue
            here = (*path, "feeds", key)
            if feed.kind is None:
                self.context.problems.add(
                    named.place, joined(here),
                    f"nothing says whether {feed.file!r} is CSV or JSON Lines",
                    "name it .csv or .jsonl, or write `format: csv` or `format: jsonl`",
                )  # fmt: skip
                continue
            found |= self.look(named, here)
            real = self.library.find(named.text, named.place, joined(here))
            check = (real, f"{feed.kind} {feed.delimiter}")
            if real is not None and check not in self._checked:
                self._checked.add((real, check[1]))
                check_feed(real, self.library.shown(real), feed, self.context.problems)
        return found

    def of_deployment(
        self, model: object, node: Node, path: KeyPath, *, is_exact: bool = True
    ) -> dict[str, str]:
        """What a deployment is made of, and certificates: path in the experiment's folder → SHA-256.

        Private keys are checked and left where they are.

        Parameters
        ----------
        model : Model
            The platform's own.
        node : Node
            The deployment as it is written.
        path : tuple
        is_exact : bool
            The model holds all that is written: what it finds wrong in the files is meant.
        """
        self.check_programs(model, node, path)
        found = self._of_sections(model, node, path, is_exact=is_exact)
        if not hasattr(model, "tls_sections"):
            return found
        for keys, tls in model.tls_sections():
            section: Node | None = node
            for key in keys:
                section = section.get(key) if isinstance(section, Mapping) else None
            if isinstance(section, Mapping):
                here = (*path, *keys)
                for key in ("ca", "cert"):
                    name = section.get(key)
                    if isinstance(name, Scalar) and name.value is not None:
                        found |= self.look(name, (*here, key))
                check_certificates(tls, section, here, self.library, self.context.problems)
        return found

    def check_programs(self, model: object, node: Node, path: KeyPath) -> None:
        """Programs and scripts of the experiment's folder that a deployment starts must be there.

        What a command that runs before makes, perhaps, is not asked for; neither is what lies elsewhere, since the plan
        may be carried out on another machine.
        """
        if not hasattr(model, "missing_programs") or _makes_files(self.context.root):
            return
        for one in model.missing_programs(self.library.root):
            if one.is_inside(self.library.root):
                place = _nearest(node, one.keys).place
                self.context.problems.add(place, joined((*path, *one.keys)), one.words)

    def _of_sections(self, model: object, node: Node, path: KeyPath, *, is_exact: bool) -> dict[str, str]:
        """Files and folders that a platform's model says it is made of, and what it finds wrong with them."""
        found: dict[str, str] = {}
        if not hasattr(model, "file_sections") or not hasattr(model, "file_problems"):
            return found
        before, is_whole = len(self.context.problems), True
        for keys in model.file_sections():
            name = _at(node, keys)
            if isinstance(name, Scalar):
                looked = self._look_at_all(name, (*path, *keys))
                is_whole &= bool(looked)  # what is wrong may have been said for another treatment already
                found |= looked
        if is_exact and is_whole and len(self.context.problems) == before:
            for keys, words in model.file_problems(self.library.root):
                spot = _at(node, keys)
                place = spot.place if spot is not None else self.context.holder(path)
                self.context.problems.add(place, joined((*path, *keys)), words)
        return found

    def _look_at_all(self, name: Scalar, path: KeyPath) -> dict[str, str]:
        """A file, or everything in a folder."""
        folder = (self.library.root / name.text).resolve() if "\0" not in name.text else self.library.root
        if not folder.is_dir() or not folder.is_relative_to(self.library.root):
            return self.look(name, path)
        found: dict[str, str] = {}
        files = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("."))
        if len(files) > MOST_IN_FOLDER:
            self.context.problems.add(
                name.place, joined(path), f"the folder {name.text!r} has more than {MOST_IN_FOLDER} files"
            )
            return found
        for file in files:
            inside = file.relative_to(self.library.root).as_posix()
            found |= self.look(Scalar(name.place, inside, inside), path)
        return found

    def look(self, name: Scalar, path: KeyPath) -> dict[str, str]:
        """The name of a file and its SHA-256; nothing when it cannot be used, which is said."""
        real = self.library.find(name.text, name.place, joined(path))
        if real is None:
            return {}
        if real not in self._digests:
            try:
                with real.open("rb") as stream:
                    self._digests[real] = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as error:
                message = f"{name.text!r} cannot be read: {error.strerror or error}"
                self.context.problems.add(name.place, joined(path), message)
                return {}
        return {self.library.inside(real): self._digests[real]}


def _at(node: Node, keys: tuple[str | int, ...]) -> Node | None:
    """What stands under some keys; None where there is nothing."""
    here: Node | None = node
    for key in keys:
        if isinstance(here, Mapping) and isinstance(key, str):
            here = here.get(key)
        elif isinstance(here, Sequence) and isinstance(key, int) and key < len(here.items):
            here = here.items[key]
        else:
            return None
    return here


def _nearest(node: Node, keys: tuple[str | int, ...]) -> Node:
    """What stands under some keys, or under as many of them as there are."""
    found = (_at(node, keys[:count]) for count in range(len(keys), -1, -1))
    return next((one for one in found if one is not None), node)


def _makes_files(root: Mapping) -> bool:
    """Whether the experiment runs a command of its own before a deployment starts."""
    fixtures, reset = root.get("fixtures"), root.get("reset")
    held = fixtures.entries.values() if isinstance(fixtures, Mapping) else ()
    prepared = any(isinstance(one.node, Mapping) and "prepare" in one.node.entries for one in held)
    return prepared or (isinstance(reset, Mapping) and "run" in reset.entries)


def _bodies(journey: Mapping, path: KeyPath) -> Iterator[tuple[Scalar, KeyPath]]:
    """Every file that a body is made of, with its key path."""
    for request, here in requests_of(journey, path):
        body = request.get("body")
        if not isinstance(body, Mapping):
            continue
        yield from _file(body, (*here, "body"))
        parts = body.get("multipart")
        for index, part in enumerate(parts.items if isinstance(parts, Sequence) else ()):
            yield from _file(part, (*here, "body", "multipart", index))


def _file(holder: Node, path: KeyPath) -> Iterator[tuple[Scalar, KeyPath]]:
    name = holder.get("file") if isinstance(holder, Mapping) else None
    if isinstance(name, Scalar):
        yield name, (*path, "file")
