"""From a key path back to a place in the file: for problems that are found later, by the engine."""

from __future__ import annotations

import os
from pathlib import Path

from towtank.design.document import read_document
from towtank.design.include import Library
from towtank.design.loading import FILE_NAME
from towtank.design.problems import Place, Problems
from towtank.design.tree import Mapping, Node, Scalar, Sequence
from towtank.design.validation import Path as KeyPath


def locate(experiment: Path, keys: KeyPath) -> Place:
    """Place of the value at a key path, or of the nearest thing around it that exists.

    Parameters
    ----------
    experiment : Path
        The experiment file, or its folder.
    keys : tuple of str or int
        Such as ``("workloads", "shop", "journey", "steps", 0, "path")``; a journey in a file of its own is followed.
    """
    path = experiment / FILE_NAME if experiment.is_dir() else experiment
    silent = Problems()
    node, _ = read_document(path, os.fspath(path), silent)
    library = Library(path.parent, os.fspath(path.parent), silent)
    place = Place(os.fspath(path))
    for index, key in enumerate(keys):
        if key == "steps" and index and keys[index - 1] == "journey" and isinstance(node, Scalar):
            node = library.include(node.text, node.place, "")
        below = _child(node, key)
        if below is None:
            break
        node = below
        place = node.place
    return place


def _child(node: Node | None, key: str | int) -> Node | None:
    if isinstance(node, Mapping) and isinstance(key, str):
        return node.get(key)
    if isinstance(node, Sequence) and isinstance(key, int) and key < len(node.items):
        return node.items[key]
    return None
