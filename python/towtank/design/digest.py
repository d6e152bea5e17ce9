"""What makes stored results incomparable: one digest, and the difference in words.

Left out is what changes neither a request nor a claim: the wording of the question, the name of the profile, overrides
(their effect is in the values), how often an invalid run may be repeated, `timeout_as`, `phases`, notes, and the text
of the files. The answer and the number of repetitions are in: a claim is fixed before its data, else it is none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from towtank.design.model import ExperimentSpec
from towtank.design.plan import Plan, Treatment
from towtank.fields import Model
from towtank.sensitive import SENSITIVE_HEADERS, mask_values

_NOT_COMPARED = {"question", "profile", "overrides", "max_invalid_repeats"}
MOST_LINES = 50


def digest(experiment: ExperimentSpec, treatments: Sequence[Treatment]) -> str:
    """SHA-256, as hex, over the canonical JSON of everything that matters.

    Defaults are left out: a later version may add a key, and results of today are still recognised.
    """
    compared = _compared(experiment, treatments, leave_defaults_out=True)
    text = json.dumps(compared, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _compared(
    experiment: ExperimentSpec, treatments: Sequence[Treatment], *, leave_defaults_out: bool = False
) -> dict[str, Any]:
    def data(model: Model, exclude: set[str] | None = None) -> dict[str, Any]:
        return model.model_dump(
            mode="json", by_alias=True, exclude=exclude, exclude_defaults=leave_defaults_out
        )

    frame = data(experiment, _NOT_COMPARED)
    if frame.get("answer"):
        frame["answer"].pop("timeout_as", None)  # how a table is printed
        frame["answer"].pop("phases", None)  # what is described besides
    return {
        **frame,
        "treatments": {t.id: {"levels": t.levels, **data(t.spec)} for t in treatments},
        "listing": [t.id for t in treatments],
    }


def difference(old: Plan, new: Plan, *, leave_out: Collection[str] = ()) -> list[str]:
    """Say what differs between two plans, one line for each key: ``key path: old → new``.

    Parameters
    ----------
    old, new : Plan
        The stored plan and the one made from the file now.
    leave_out : collection of str
        Keys of the experiment or of its treatments, such as ``deployment``, that may differ. Values that are not kept
        cannot be told from each other then.

    Returns
    -------
    list of str
        Empty when their results may stand side by side. What changed alike in several treatments is one line. Values
        of headers such as Authorization are not shown; the digest knows that one of them changed.
    """
    before = dict(_flat(mask_values(_compared(old.experiment, old.treatments)), ()))
    after = dict(_flat(mask_values(_compared(new.experiment, new.treatments)), ()))
    gone = [t.id for t in old.treatments if t.id not in {n.id for n in new.treatments}]
    added = [t.id for t in new.treatments if t.id not in {o.id for o in old.treatments}]
    lines: list[str] = []
    alike: dict[tuple[str, str, str], list[str]] = {}
    for path in dict.fromkeys((*before, *after)):
        was, now = before.get(path, _ABSENT), after.get(path, _ABSENT)
        key = path[2] if path[0] == "treatments" and len(path) > 2 else path[0]
        if was == now or path[0] == "listing" or key in leave_out:
            continue
        treatment = path[1] if path[0] == "treatments" else ""
        if treatment in gone or treatment in added:
            continue
        key = ".".join(path[2:] if treatment else path)
        alike.setdefault((key, was, now), []).append(treatment)
    for (key, was, now), where in alike.items():
        if where == [""]:
            lines.append(f"{key}: {was} → {now}")
        else:
            every = len(where) == len(new.treatments)
            lines.append(f"{key} ({'every treatment' if every else ', '.join(where)}): {was} → {now}")
    # behind what changed: a search has treatments for loads that it never came to
    lines += [f"treatment {name}: no longer there" for name in gone]
    lines += [f"treatment {name}: new" for name in added]
    order_before = [t.id for t in old.treatments]
    if not lines and order_before != [t.id for t in new.treatments]:
        lines.append(
            f"order of treatments: {', '.join(order_before)} → {', '.join(t.id for t in new.treatments)}"
        )
    if not lines and not leave_out and old.digest != new.digest:
        lines.append(f"a header whose value is not kept: {', '.join(sorted(SENSITIVE_HEADERS))}")
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"… and {len(lines) - MOST_LINES} more"]
    return lines


_ABSENT = "(absent)"


def _flat(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _flat(below, (*path, str(key)))
    elif isinstance(value, list) and value and any(isinstance(v, dict | list) for v in value):
        for index, below in enumerate(value):
            yield from _flat(below, (*path, str(index)))
    else:
        yield path, json.dumps(value, ensure_ascii=False)
