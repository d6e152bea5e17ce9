"""Copies of `reset` stay within the folders that an experiment may touch: refused before anything is started.

The campaign looks again when it copies: only then are the folders of data and fixtures known, and links in them.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from towtank.design.context import FileContext
from towtank.design.problems import shown
from towtank.design.tree import Mapping, Node, Scalar, Sequence
from towtank.design.validation import Path as KeyPath
from towtank.design.validation import joined

_OWN = re.compile(r"\{(?:data|fixture\.[A-Za-z0-9_.-]+)\}(?=/|$)")
"""Folders that a run may write to, at the beginning of a path."""
_ROOT = "{root}"


def check_copies(reset: Node, path: KeyPath, context: FileContext) -> None:
    """Say which copies read or write where an experiment must not."""
    copies = reset.get("copy") if isinstance(reset, Mapping) else None
    for index, item in enumerate(copies.items if isinstance(copies, Sequence) else ()):
        if not isinstance(item, Mapping):
            continue
        for key in ("source", "to"):
            node = item.get(key)
            if isinstance(node, Scalar) and isinstance(node.value, str):
                _check(node, (*path, "copy", index, key), context, reads=key == "source")


def _check(node: Scalar, path: KeyPath, context: FileContext, *, reads: bool) -> None:
    if _in_own_folder(node.text) or (reads and _in_experiment(node.text, context.folder)):
        return
    if reads:
        message = "is read from outside of the experiment's folder, {data} and fixtures"
        hint = "move the file beside the experiment file, or fetch it in a `run:` command"
    else:
        message = "is written outside of {data} and fixtures"
        hint = 'write `to: "{data}/…"`, without `..` that leads out of it'
    context.problems.add(node.place, joined(path), f"{shown(node.text)} {message}", hint)


def _in_own_folder(text: str) -> bool:
    """Whether a path begins with the folder of data or a fixture, and no `..` leads out of it."""
    begin = _OWN.match(text)
    if begin is None or "\0" in text:
        return False
    below = posixpath.normpath(text[begin.end() :].lstrip("/"))
    return below != ".." and not below.startswith("../")


def _in_experiment(text: str, folder: Path) -> bool:
    """Whether a path lies in the experiment's folder, links followed."""
    if text == _ROOT or text.startswith(_ROOT + "/"):
        text = os.fspath(folder) + text.removeprefix(_ROOT)
    elif text.startswith("{") and not text.startswith("{{"):
        return False  # another folder, or a `..` that leads out of one
    try:
        return (folder / text).resolve().is_relative_to(folder)
    except (OSError, RuntimeError, ValueError):
        return False
