"""The frame around all runs: what is asked and claimed, how often, in which order; and what cannot work about it."""

from __future__ import annotations

from collections.abc import Sequence as SequenceType

from towtank.design.answer import LEAST_BLOCKS, contrasts, least_blocks, most_blocks
from towtank.design.document import Mapping, Node, Scalar, Sequence
from towtank.design.expansion import refuse_expressions
from towtank.design.experiment_file import FRAME_KEYS, ExperimentFile
from towtank.design.factors import Factor
from towtank.design.model import Adaptive, Answer, ExperimentSpec
from towtank.design.order import plot_key
from towtank.design.plan import Treatment
from towtank.design.problems import Place, Problems, listing, nearest, shown
from towtank.design.template import as_text
from towtank.design.validation import validated
from towtank.variables import known_names, variable

MAX_RUNS = 10_000


def check_keys(root: Mapping, problems: Problems) -> None:
    """Say unknown and missing keys of the file itself, and expressions where none can be."""
    known = tuple(ExperimentFile.model_fields)
    for key, entry in root.entries.items():
        if key not in known:
            problems.add(entry.place, key, f"unknown key {key!r}; allowed are {listing(known)}", nearest(key, known))
    for key in ("experiment", "question", "deployments", "workloads"):
        if key not in root.entries:
            problems.add(Place(root.place.file), key, f"the key {key!r} is missing here")
    for key in (*FRAME_KEYS, "exclude", "include"):
        node = root.get(key)
        if node is not None:
            refuse_expressions(node, (key,), problems)


def read_frame(
    root: Mapping, factors: dict[str, Factor], profile: str | None, overrides: dict[str, str], problems: Problems
) -> ExperimentSpec | None:
    """Validate the frame; None when it has problems, which are then said."""
    spec = validated(ExperimentSpec, root.only(set(FRAME_KEYS)), (), Place(root.place.file), problems)
    answer = root.get("answer")
    if isinstance(answer, Mapping):
        _check_variables(answer.get("primary"), "answer.primary", problems)
    repetitions = root.get("repetitions")
    until = repetitions.get("until") if isinstance(repetitions, Mapping) else None
    if isinstance(until, Mapping):
        for name, entry in until.entries.items():
            _check_variable(name, entry.place, f"repetitions.until.{name}", problems)
    if spec is None:
        return None
    _check_numbers(root, spec, problems)
    levels = {name: tuple(factor.levels) for name, factor in factors.items()}
    return spec.model_copy(update={"factors": levels, "profile": profile, "overrides": overrides})


def _check_variables(node: Node | None, path: str, problems: Problems) -> None:
    if not isinstance(node, Sequence):
        return
    seen: list[str] = []
    for index, item in enumerate(node.items):
        if not isinstance(item, Scalar):
            continue
        _check_variable(item.text, item.place, f"{path}[{index}]", problems)
        if item.text in seen:
            problems.add(item.place, f"{path}[{index}]", f"{item.text!r} is listed twice")
        seen.append(item.text)


def _check_variable(name: str, place: Place, path: str, problems: Problems) -> None:
    try:
        variable(name)
    except KeyError:
        known = known_names()
        problems.add(
            place,
            path,
            f"there is no response variable {name!r}; there are {listing(known)}, and any other percentile such as p97.5",
            nearest(name, known),
        )


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
            node.key_place("confidence"), "answer.confidence", f"{answer.confidence:g} cannot be reached; allowed is 50% to below 100%"
        )
    if not 0 < answer.matters < 1:
        problems.add(
            node.key_place("matters"), "answer.matters", f"{answer.matters:g} decides nothing; allowed is above 0% and below 100%"
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
            f"write `factors: {{{kind}: [{', '.join(names[:5])}]}}`",
        )
        return None
    for level, place in zip(factor.levels, factor.places, strict=True):
        if level not in names:
            problems.add(
                place,
                f"factors.{kind}",
                f"there is no {kind} {shown(level)}; there are {listing(names)}",
                nearest(as_text(level), names),
            )
    return None


def check_design(
    root: Mapping, spec: ExperimentSpec, treatments: SequenceType[Treatment], problems: Problems
) -> None:
    """Say designs that are too large, or that cannot decide their question."""
    count = len(treatments) * most_blocks(spec)
    if count > MAX_RUNS:
        problems.add(
            root.key_place("repetitions"),
            "repetitions",
            f"{len(treatments):,} treatments × {most_blocks(spec):,} repetitions = {count:,} runs; at most {MAX_RUNS:,} are allowed",
        )
    _check_lifetimes(root, spec, treatments, problems)
    if spec.answer is not None:
        _check_answer(root, spec, spec.answer, treatments, problems)


def _check_lifetimes(
    root: Mapping, spec: ExperimentSpec, treatments: SequenceType[Treatment], problems: Problems
) -> None:
    outlives = [t for t in treatments if t.spec.deploy != "per-run"]
    if (outlives or "fixtures" in root.entries) and "reset" not in root.entries:
        what = f"deployment {outlives[0].spec.deployment_name!r} outlives a run" if outlives else "there is a fixture"
        place = root.key_place("fixtures") if not outlives else root.key_place("deployments")
        problems.add(
            place,
            "reset",
            f"`reset` is missing: {what}, so say what happens to the data before each run",
            "write `reset: none` when data stays as it is; it is then named among the threats to validity",
        )
    once = {plot_key(t) for t in treatments if t.spec.deploy == "once"}
    rest = any(t.spec.deploy != "once" for t in treatments)
    if isinstance(spec.repetitions, Adaptive) and len(once) + rest > 1:
        problems.add(
            root.key_place("repetitions"),
            "repetitions",
            "the number of blocks is decided after the pilot, and `deploy: once` needs all blocks of a deployment together",
            "use `deploy: per-block`, or a fixed number of repetitions",
        )


def _check_answer(
    root: Mapping, spec: ExperimentSpec, answer: Answer, treatments: SequenceType[Treatment], problems: Problems
) -> None:
    node = root.get("answer")
    assert isinstance(node, Mapping)  # noqa: S101 - the model has accepted it
    if len(treatments) < 2:
        problems.add(root.key_place("answer"), "answer", "there is one treatment only: nothing to compare it with")
        return
    if least_blocks(spec) < LEAST_BLOCKS:
        problems.add(
            root.key_place("repetitions"),
            "repetitions",
            f"{least_blocks(spec)} repetition cannot decide the question: an interval needs at least {LEAST_BLOCKS}",
            "leave `answer` out to explore only",
        )
    try:
        found = contrasts(answer, treatments)
    except ValueError as error:
        baseline = node.get("baseline")
        place = baseline.place if baseline is not None else root.key_place("answer")
        ids = [t.id for t in treatments]
        levels = [as_text(level) for t in treatments for level in t.levels.values()]
        known = tuple(dict.fromkeys((*levels, *ids)))
        hint = nearest(answer.baseline, known) if answer.baseline else ""
        problems.add(place, "answer.baseline", f"{error}; there are {listing(known)}", hint)
        return
    if not found:
        problems.add(
            node.key_place("baseline"),
            "answer.baseline",
            f"nothing can be compared with {answer.baseline!r}: no treatment differs from one of it in this factor only",
        )
