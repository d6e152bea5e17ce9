"""The frame around all runs: what is asked and claimed, how often, in which order; and what cannot work about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from towtank.design.demand_section import check_demand_variables
from towtank.design.expansion import refuse_expressions
from towtank.design.experiment_file import FRAME_KEYS, ExperimentFile
from towtank.design.factors import Combination, Factor
from towtank.design.fault_section import check_fault_variables
from towtank.design.model import Adaptive, ExperimentSpec
from towtank.design.operations import Value, as_text
from towtank.design.own_variables import check_own_names, own_names
from towtank.design.problems import Place, Problems, listing, nearest, shown
from towtank.design.slo import check_variable
from towtank.design.treatment import SIDE_BY_SIDE, Parts
from towtank.design.tree import Entry, Mapping, Node, Scalar, Sequence, has_unknown
from towtank.design.validation import lies_in, validated
from towtank.spelling import nearest_name


def check_keys(root: Mapping, problems: Problems) -> Mapping:
    """Say unknown and missing keys of the file itself, and expressions where none can be.

    Returns
    -------
    Mapping
        The file as it was probably meant: a misspelled key is said once, and its part is still checked.
    """
    known = tuple(ExperimentFile.model_fields)
    entries: dict[str, Entry] = {}
    for key, entry in root.entries.items():
        meant = key if key in known else nearest_name(key, known)
        if meant != key and meant in root.entries:
            meant = key
        entries[meant or key] = entry
        if key not in known:
            allowed = listing(known, most=len(known))
            problems.add(entry.place, key, f"unknown key {key!r}; allowed are {allowed}", nearest(key, known))
    root = replace(root, entries=entries)
    for key in ("experiment", "question", "deployments", "workloads"):
        if key not in root.entries:
            problems.add(Place(root.place.file), key, f"the key {key!r} is missing here")
    for key in (*FRAME_KEYS, "exclude", "include"):
        node = root.get(key)
        if node is not None:
            refuse_expressions(node, (key,), problems)
    return root


@dataclass(frozen=True)
class FrameRead:
    """What could be read of the frame.

    Parameters
    ----------
    spec : ExperimentSpec or None
        None when something in it is wrong.
    sure : ExperimentSpec or None
        The same for checks of the design: what is wrong is left out of it, or has a stand-in. None when what the design
        hangs on is wrong.
    """

    spec: ExperimentSpec | None
    sure: ExperimentSpec | None


_STAND_INS = {"experiment": "unnamed", "question": "unasked"}
"""For checks of a design that has no good name yet."""
_HANGS_ON = ("repetitions", "order")
"""Keys that all checks of the design go by."""


def read_frame(root: Mapping, factors: dict[str, Factor], problems: Problems) -> FrameRead:
    """Validate the frame; what is wrong in it is said, and the rest is checked all the same."""
    found = Problems()
    written = root.only(set(FRAME_KEYS))
    spec = validated(ExperimentSpec, written, (), Place(root.place.file), found)
    sure = spec if spec is not None else _sure(written, found)
    answer = root.get("answer")
    driven = root.get("workloads")
    workloads = tuple(driven.entries) if isinstance(driven, Mapping) else ()
    own = own_names(answer)
    if isinstance(answer, Mapping):
        _check_variables(answer.get("primary"), "answer.primary", workloads, found, own)
        check_own_names(answer.get("variables"), found)
    check_fault_variables(root, found)
    check_demand_variables(root, found)
    repetitions = root.get("repetitions")
    until = repetitions.get("until") if isinstance(repetitions, Mapping) else None
    if isinstance(until, Mapping):
        for name, entry in until.entries.items():
            check_variable(name, entry.place, f"repetitions.until.{name}", workloads, found, own)
    if sure is not None:
        _check_numbers(root, sure, found)
    wrong = [problem.path for problem in found.sorted()]
    problems.take(found)
    if sure is None or any(lies_in(path, (key,)) for path in wrong for key in _HANGS_ON):
        return FrameRead(None, None)
    known: dict[str, object] = {"factors": {name: tuple(factor.levels) for name, factor in factors.items()}}
    if any(lies_in(path, ("answer",)) for path in wrong):
        return FrameRead(None, sure.model_copy(update={**known, "answer": None}))
    sure = sure.model_copy(update=known)
    return FrameRead(sure if spec is not None else None, sure)


def _sure(written: Mapping, found: Problems) -> ExperimentSpec | None:
    """The frame without its keys that are wrong; what cannot be left out has a stand-in."""
    wrong = [problem.path for problem in found.sorted()]
    kept = {
        key: entry
        for key, entry in written.entries.items()
        if not any(lies_in(path, (key,)) for path in wrong) and not has_unknown(entry.node)
    }
    for key, text in _STAND_INS.items():
        kept.setdefault(key, Entry(written.place, Scalar(written.place, text, text)))
    return validated(ExperimentSpec, replace(written, entries=kept), (), written.place, Problems())


def _check_variables(
    node: Node | None, path: str, workloads: tuple[str, ...], problems: Problems, own: tuple[str, ...]
) -> None:
    if not isinstance(node, Sequence):
        return
    seen: list[str] = []
    for index, item in enumerate(node.items):
        if not isinstance(item, Scalar):
            continue
        check_variable(item.text, item.place, f"{path}[{index}]", workloads, problems, own)
        if item.text in seen:
            problems.add(item.place, f"{path}[{index}]", f"{item.text!r} is listed twice")
        seen.append(item.text)


def _check_numbers(root: Mapping, spec: ExperimentSpec, problems: Problems) -> None:
    repetitions = spec.repetitions
    if isinstance(repetitions, Adaptive):
        node = root.get("repetitions")
        if repetitions.at_most < repetitions.at_least and isinstance(node, Mapping):
            problems.add(
                node.key_place("at_most"),
                "repetitions.at_most",
                f"{repetitions.at_most} is less than at_least, {repetitions.at_least}",
            )
        if any(width <= 0 for width in repetitions.until.values()) and isinstance(node, Mapping):
            problems.add(node.key_place("until"), "repetitions.until", "a half-width must be more than 0%")
    answer, node = spec.answer, root.get("answer")
    if answer is None or not isinstance(node, Mapping):
        return
    if not 0.5 <= answer.confidence < 1:
        problems.add(
            node.key_place("confidence"),
            "answer.confidence",
            f"{answer.confidence:g} cannot be reached; allowed is 50% to below 100%",
        )
    if not 0 < answer.matters < 1:
        problems.add(
            node.key_place("matters"),
            "answer.matters",
            f"{answer.matters:g} decides nothing; allowed is above 0% and below 100%",
        )


def choose_parts(
    root: Mapping, factors: dict[str, Factor], problems: Problems
) -> tuple[str | None, str | None]:
    """Find the deployment and workload that hold for all treatments: the only one there is, or None with a factor."""
    return _only(root, factors, "deployment", problems), _only(root, factors, "workload", problems)


def _only(root: Mapping, factors: dict[str, Factor], kind: str, problems: Problems) -> str | None:
    section = f"{kind}s"
    node = root.get(section)
    if node is None:
        return None
    if not isinstance(node, Mapping) or not node.entries:
        problems.add(node.place, section, f"allowed is a mapping with at least one {kind}: name → what it is")
        return None
    names = tuple(node.entries)
    factor = factors.get(kind)
    if factor is None:
        if len(names) == 1:
            return names[0]
        problems.add(
            root.key_place(section),
            section,
            f"{len(names)} {section} are defined and no factor chooses among them",
            f"write `factors: {{{kind}: [{', '.join(names[:5])}]}}`"
            + (
                f" to compare them, or `factors: {{workload: [{SIDE_BY_SIDE.join(names[:5])}]}}` to drive them side by "
                "side"
                if kind == "workload"
                else ""
            ),
        )
        return None
    for level, place in zip(factor.levels, factor.places, strict=True):
        for problem in _unknown(kind, level, names):
            factor.is_whole = False
            problems.add(place, f"factors.{kind}", *problem)
    return None


def _named(kind: str, level: Value) -> tuple[Value, ...]:
    """Parts that a level stands for: ``shop+wiki`` is two workloads side by side."""
    if kind == "workload" and isinstance(level, str) and SIDE_BY_SIDE in level:
        return tuple(name.strip() for name in level.split(SIDE_BY_SIDE))
    return (level,)


def _unknown(kind: str, level: Value, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """What is wrong with a level that names a part, and a hint."""
    parts = _named(kind, level)
    for name in parts:
        if name not in names:
            hint = nearest(as_text(name), names)
            yield f"there is no {kind} {shown(name)}; there are {listing(names)}", hint
    if len(set(parts)) < len(parts):
        yield f"{shown(level)} drives a workload beside itself", "give a copy of it another name"


def parts_of(
    root: Mapping,
    combination: Combination,
    only: tuple[str | None, str | None],
    problems: Problems,
) -> Parts | None:
    """Find the deployment and workload of one treatment; None when they do not exist, which is said."""
    chosen: list[tuple[str, ...]] = []
    for kind, single in zip(("deployment", "workload"), only, strict=True):
        level = combination.levels.get(kind, single)
        node = root.get(f"{kind}s")
        known = tuple(node.entries) if isinstance(node, Mapping) else ()
        if level is None:
            return None
        unknown = list(_unknown(kind, level, known))
        if unknown:
            if combination.path != "factors":  # what stands there has been said
                for problem in unknown:
                    problems.add(combination.place, f"{combination.path}.{kind}", *problem)
            return None
        chosen.append(tuple(map(str, _named(kind, level))))
    return Parts(chosen[0][0], chosen[1])
