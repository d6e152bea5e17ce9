"""Profiles and overrides: other sizes and places for the same question.

A profile is merged into the file before anything else is read: mappings key by key, everything else is replaced. So is
a deployment or fixture that names another platform, since other keys are its. A profile may change `repetitions`,
levels of existing factors (with `exclude` and `include` for them), existing deployments, workloads (not their journey,
connections or load model) and fixtures, `prepare`, `reset`, `settle`, `observe`, `faults`, `generator` and
`max_invalid_repeats`. It may not touch what makes the question: `question`, `answer`, `order`, `seed`, `slo`, names of
factors, levels of `deployment` and `workload`.

Overrides (``--set key.path=value``) are the experimenter's own, stand in the plan, and may change any key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as MappingType
from dataclasses import replace

from towtank.design.document import parse_document
from towtank.design.experiment_file import ExperimentFile, ProfileFile
from towtank.design.problems import Place, Problems, listing, nearest
from towtank.design.tree import Entry, Mapping, Node, Scalar, Sequence
from towtank.design.validation import Path, joined

_ALLOWED = tuple(ProfileFile.model_fields)
_NAMED = ("factors", "deployments", "workloads", "fixtures")
_QUESTION = ("journey", "connections", "rotate", "cold")
"""Of a workload: what is asked and how, not how much of it."""
_FIXED_FACTORS = frozenset({"deployment", "workload"})
_STEP = re.compile(r"([^.\[\]]+)|\[(\d{1,6})\]")


def check_profiles(root: Mapping, problems: Problems) -> None:
    """Say what is wrong with any profile, chosen or not."""
    node = root.get("profiles")
    if node is None:
        return
    if not isinstance(node, Mapping):
        problems.add(node.place, "profiles", "allowed is a mapping: profile → its changes")
        return
    for name, entry in node.entries.items():
        path = f"profiles.{name}"
        if not isinstance(entry.node, Mapping):
            problems.add(entry.node.place, path, f"allowed is a mapping with {listing(_ALLOWED)}")
            continue
        for key, changed in entry.node.entries.items():
            if key not in _ALLOWED:
                reason = (
                    "a profile changes sizes and places, never the question"
                    if key in ExperimentFile.model_fields
                    else "unknown key"
                )
                problems.add(
                    changed.place,
                    f"{path}.{key}",
                    f"{key!r} cannot stand in a profile: {reason}; allowed are {listing(_ALLOWED)}",
                    nearest(key, _ALLOWED),
                )
            elif key in _NAMED:
                _check_named(root, key, changed, f"{path}.{key}", problems)


def _check_named(root: Mapping, key: str, changed: Entry, path: str, problems: Problems) -> None:
    """A profile changes what exists; it adds nothing, and leaves alone what makes the question."""
    if not isinstance(changed.node, Mapping):
        problems.add(changed.node.place, path, "allowed is a mapping")
        return
    existing = root.get(key)
    names = tuple(existing.entries) if isinstance(existing, Mapping) else ()
    for name, entry in changed.node.entries.items():
        here = f"{path}.{name}"
        if name not in names:
            problems.add(
                entry.place,
                here,
                f"there is no {name!r} to change in {key}; there are {listing(names)}",
                nearest(name, names),
            )
        elif key == "factors" and name in _FIXED_FACTORS:
            problems.add(
                entry.place, here, f"a profile cannot change which {name}s are compared: that is the question"
            )
        elif key == "workloads":
            _check_workload(entry.node, here, problems)


def _check_workload(node: Node, path: str, problems: Problems) -> None:
    if not isinstance(node, Mapping):
        return
    for key in _QUESTION:
        if key in node.entries:
            problems.add(
                node.key_place(key),
                f"{path}.{key}",
                f"a profile cannot change the {key}: that is the question",
            )
    for key in ("driver", "script"):
        if key in node.entries:
            problems.add(
                node.key_place(key),
                f"{path}.{key}",
                f"a profile cannot change the {key}: that is the question",
            )
    load = node.get("load")
    if isinstance(load, Mapping) and "model" in load.entries:
        problems.add(
            load.key_place("model"),
            f"{path}.load.model",
            "a profile cannot change the load model: that is the question",
        )


def with_profile(root: Mapping, name: str, problems: Problems) -> Mapping:
    """Return the file with one profile merged into it."""
    profiles = root.get("profiles")
    known = tuple(profiles.entries) if isinstance(profiles, Mapping) else ()
    if not isinstance(profiles, Mapping) or name not in known:
        place = root.key_place("profiles")
        problems.add(
            place,
            "profiles",
            f"there is no profile {name!r}; there are {listing(known)}",
            nearest(name, known),
        )
        return root
    changes = profiles.get(name)
    if not isinstance(changes, Mapping):
        return root
    merged = _merged(root, changes.only(set(_ALLOWED)))
    return merged if isinstance(merged, Mapping) else root


def _merged(old: Node, new: Node) -> Node:
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)) or _is_elsewhere(old, new):
        return new
    entries = dict(old.entries)
    for key, entry in new.entries.items():
        before = entries.get(key)
        entries[key] = Entry(entry.place, _merged(before.node, entry.node)) if before else entry
    return replace(old, entries=entries)


def _is_elsewhere(old: Mapping, new: Mapping) -> bool:
    """Whether a deployment or a fixture goes to another platform."""
    before, after = old.get("platform"), new.get("platform")
    return isinstance(before, Scalar) and isinstance(after, Scalar) and before.value != after.value


def with_overrides(root: Mapping, overrides: MappingType[str, str], problems: Problems) -> Mapping:
    """Return the file with single values replaced: key path → YAML text."""
    for path, text in overrides.items():
        shown_as = f"--set {path}"
        value = (
            parse_document(text, shown_as, problems) if text.strip() else Scalar(Place(shown_as), None, "")
        )
        steps = _steps(path)
        if steps is None:
            problems.add(Place(shown_as), path, "not a key path; allowed is key.key[0].key")
        elif value is not None:
            root = _put(root, steps, value, Place(shown_as), problems)
    return root


def _steps(path: str) -> Path | None:
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        if path[position] == "." and steps:
            position += 1
        match = _STEP.match(path, position)
        if not match:
            return None
        steps.append(match.group(1) if match.group(1) is not None else int(match.group(2)))
        position = match.end()
    return tuple(steps) if steps and isinstance(steps[0], str) else None


def _put(root: Mapping, steps: Path, value: Node, place: Place, problems: Problems) -> Mapping:
    changed = _replaced(root, steps, value, place)
    if isinstance(changed, Mapping):
        return changed
    problems.add(
        place, joined(steps), "there is no such place in the file: a list on the way is too short, or a value"
    )
    return root


def _replaced(node: Node | None, steps: Path, value: Node, place: Place) -> Node | None:
    """Return the tree with one place replaced; None when the way leads through something else."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        if not isinstance(node, Sequence) or step >= len(node.items):
            return None
        below = _replaced(node.items[step], rest, value, place)
        if below is None:
            return None
        return replace(node, items=(*node.items[:step], below, *node.items[step + 1 :]))
    if node is None:
        node = Mapping(place, {})
    if not isinstance(node, Mapping):
        return None
    below = _replaced(node.get(step), rest, value, place)
    return None if below is None else replace(node, entries={**node.entries, step: Entry(place, below)})
