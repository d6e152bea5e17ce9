"""Files that workloads and deployments name beside their journeys: bodies, feeds, certificates.

They are read once when the plan is made: a file that is missing or broken is refused before anything is sent, and its
SHA-256 is part of the plan, since a changed feed is a changed experiment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from towtank.design.certificates import check_certificates
from towtank.design.context import FileContext
from towtank.design.feed_files import check_feed
from towtank.design.foreign import ForeignWorkload
from towtank.design.include import Library
from towtank.design.journey import requests_of
from towtank.design.model import Workload
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

    def of(self, workload: Workload | ForeignWorkload, node: Mapping, path: KeyPath) -> dict[str, str]:
        """Files of a workload: path in the experiment's folder → SHA-256."""
        if isinstance(workload, Workload):
            return self.of_workload(workload, node, path)
        script = node.get("script")
        return self.look(script, (*path, "script")) if isinstance(script, Scalar) else {}

    def of_workload(self, workload: Workload, node: Mapping, path: KeyPath) -> dict[str, str]:
        """Files of bodies, parts, feeds and traces: path in the experiment's folder → SHA-256."""
        found: dict[str, str] = {}
        trace = trace_name(node)
        if trace is not None:
            found |= self.look(trace, (*path, "load", "trace", "file"))
        journey = node.get("journey")
        if isinstance(journey, Mapping):
            for name, keys in _bodies(journey, (*path, "journey")):
                found |= self.look(name, keys)
        feeds = node.get("feeds")
        for key, feed in workload.feeds.items():
            one = feeds.get(key) if isinstance(feeds, Mapping) else None
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

    def of_deployment(self, model: object, node: Node, path: KeyPath) -> dict[str, str]:
        """Certificates: path in the experiment's folder → SHA-256. Private keys are checked and left where they are."""
        found = self._of_sections(model, node, path)
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

    def _of_sections(self, model: object, node: Node, path: KeyPath) -> dict[str, str]:
        """Files and folders that a platform's model says it is made of, and what it finds wrong with them."""
        found: dict[str, str] = {}
        if not hasattr(model, "file_sections") or not hasattr(model, "file_problems"):
            return found
        before = len(self.context.problems)
        for keys in model.file_sections():
            name = _at(node, keys)
            if isinstance(name, Scalar):
                found |= self._look_at_all(name, (*path, *keys))
        if len(self.context.problems) == before:
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
