"""Designs that are too large or cannot decide their question; and what an author should know about one that can."""

from __future__ import annotations

import math
from collections.abc import Sequence as SequenceType

from towtank.design.answer import (
    LEAST_BLOCKS,
    MOST_CONTRASTS,
    contrasts,
    least_blocks,
    most_blocks,
    power_of,
)
from towtank.design.constant_load import constant_stretches, stretch_at
from towtank.design.designed import Designed
from towtank.design.load_shape import may_end_in_warmup, window_start_s
from towtank.design.model import Adaptive, Answer, ExperimentSpec
from towtank.design.operations import as_text
from towtank.design.order import plot_key
from towtank.design.plan import Treatment
from towtank.design.problems import Problems, listing, nearest
from towtank.design.tree import Mapping
from towtank.telemetry import registry as telemetry
from towtank.units import format_duration

MAX_RUNS = 10_000
"""More do not fit into a lifetime of patience; counted before they are listed."""


def check_design(
    root: Mapping,
    spec: ExperimentSpec,
    treatments: SequenceType[Designed],
    problems: Problems,
    *,
    are_deployed: bool = True,
) -> None:
    """Say designs that are too large, or that cannot decide their question.

    Parameters
    ----------
    root : Mapping
    spec : ExperimentSpec
    treatments : sequence of Designed
        All of them.
    problems : Problems
    are_deployed : bool
        Whether it is known how each is deployed; else only levels are gone by.
    """
    count = len(treatments) * most_blocks(spec)
    if count > MAX_RUNS:
        problems.add(
            root.key_place("repetitions"),
            "repetitions",
            f"{len(treatments):,} treatments × {most_blocks(spec):,} repetitions = {count:,} runs; "
            f"at most {MAX_RUNS:,} are allowed",
        )
    if are_deployed:
        _check_lifetimes(root, spec, treatments, problems)
    if spec.answer is None:
        return
    comparable = _check_answer(root, spec, spec.answer, treatments, problems)
    if comparable and are_deployed:
        _check_enough(root, spec, spec.answer, treatments, problems)


def _check_lifetimes(
    root: Mapping, spec: ExperimentSpec, treatments: SequenceType[Designed], problems: Problems
) -> None:
    outlives = [t for t in treatments if t.spec.deploy != "per-run"]
    if (outlives or "fixtures" in root.entries) and "reset" not in root.entries:
        what = (
            f"deployment {outlives[0].spec.deployment_name!r} outlives a run"
            if outlives
            else "there is a fixture"
        )
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
            "the number of blocks is decided after the pilot, and `deploy: once` needs all blocks of a deployment "
            "together",
            "use `deploy: per-block`, or a fixed number of repetitions",
        )


def check_sources(root: Mapping, treatments: SequenceType[Treatment], problems: Problems) -> None:
    """Refuse a telemetry source that sees none of the deployments."""
    seen_by = _blind_to(treatments)
    for name, (platforms, blind) in seen_by.items():
        if len(blind) < len({t.spec.deployment_name for t in treatments}):
            continue
        problems.add(
            root.key_place("observe"),
            "observe",
            f"the source {name!r} sees deployments on platform {' or '.join(platforms)} only, and there is none: "
            f"{listing(blind)} would not be seen",
            f"leave {name!r} out",
        )


def check_steady_state(
    root: Mapping, spec: ExperimentSpec, treatments: SequenceType[Treatment], problems: Problems
) -> None:
    """Refuse `steady_state` where there is none: a load that changes when it is measured, and faults."""
    node = root.get("answer")
    if spec.answer is None or not spec.answer.steady_state or not isinstance(node, Mapping):
        return
    place, path = node.key_place("steady_state"), "answer.steady_state"
    if any(t.spec.faults for t in treatments):
        problems.add(
            place, path, "a fault disturbs the steady state, and what it does must not be left out",
            "leave `faults` or `steady_state` out",
        )  # fmt: skip
    changing = {
        t.spec.drive: at_s
        for t in treatments
        if stretch_at(
            constant_stretches(t.spec),
            at_s := window_start_s(workload.load for workload in t.spec.workloads.values()),
        ) is None
    }  # fmt: skip
    for drive, at_s in changing.items():
        problems.add(
            place, path,
            f"the load of {drive} is not known to be constant at the end of its warm-up, {format_duration(at_s)}: "
            "there is no steady state to find",
            "let the warm-up end behind the ramp, or leave `steady_state` out",
        )  # fmt: skip


def _blind_to(treatments: SequenceType[Treatment]) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Source → the platforms that it sees, and deployments on others; sources that see all are left out."""
    found: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for name in dict.fromkeys(item.source for t in treatments for item in t.spec.observe):
        platforms = telemetry.kind(name).platforms
        blind = dict.fromkeys(
            t.spec.deployment_name
            for t in treatments
            if platforms and t.spec.deployment.platform not in platforms
        )
        if blind:
            found[name] = platforms, tuple(blind)
    return found


def _check_answer(
    root: Mapping,
    spec: ExperimentSpec,
    answer: Answer,
    treatments: SequenceType[Designed],
    problems: Problems,
) -> bool:
    """Say questions that cannot be put to these treatments; False when there is nothing to decide."""
    node = root.get("answer")
    assert isinstance(node, Mapping)  # noqa: S101 - the model has accepted it
    if len(treatments) < 2:
        problems.add(
            root.key_place("answer"), "answer", "there is one treatment only: nothing to compare it with"
        )
        return False
    if least_blocks(spec) < LEAST_BLOCKS:
        problems.add(
            root.key_place("repetitions"),
            "repetitions",
            f"{least_blocks(spec)} repetition cannot decide the question: an interval needs at least {LEAST_BLOCKS}",
            "leave `answer` out to explore only",
        )
    pairs = math.comb(len(treatments), 2)
    if answer.contrasts == "all-pairs" and pairs > MOST_CONTRASTS:
        problems.add(
            node.key_place("contrasts"),
            "answer.contrasts",
            f"all pairs of {len(treatments):,} treatments are {pairs:,} comparisons; "
            f"at most {MOST_CONTRASTS:,} are allowed",
        )
        return False
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
        return False
    if not found:
        problems.add(
            node.key_place("baseline"),
            "answer.baseline",
            f"nothing can be compared with {answer.baseline!r}: no treatment differs from one of it in this factor "
            "only",
        )
    return bool(found)


def _check_enough(
    root: Mapping,
    spec: ExperimentSpec,
    answer: Answer,
    treatments: SequenceType[Designed],
    problems: Problems,
) -> None:
    """Refuse claims that no outcome of so few blocks could confirm."""
    if most_blocks(spec) < LEAST_BLOCKS:
        return  # that has been said
    for claim in power_of(spec, answer, treatments).claims:
        if claim.least <= most_blocks(spec):
            continue
        reached = "" if claim.smallest_p is None else f" (smallest adjusted p-value {claim.smallest_p:.2g})"
        problems.add(
            root.key_place("repetitions" if "repetitions" in root.entries else "answer"),
            "repetitions",
            f"{most_blocks(spec)} repetitions cannot decide {claim.variable!r} at {answer.confidence:.4g} confidence: "
            f"{claim.method}{reached}; it needs at least {claim.least} {claim.unit}",
            f"write `repetitions: {claim.least}` or more, or leave {claim.variable!r} out of `primary`",
        )
        return


def notes(root: Mapping, spec: ExperimentSpec, treatments: SequenceType[Treatment]) -> tuple[str, ...]:
    """Say what the author should know and need not change."""
    found: list[str] = []
    for kind in ("deployment", "workload"):
        node = root.get(f"{kind}s")
        used: set[str] = set()
        for treatment in treatments:
            of_it = treatment.spec
            used |= {of_it.deployment_name} if kind == "deployment" else set(of_it.workloads)
        unused = [name for name in node.entries if name not in used] if isinstance(node, Mapping) else []
        if unused:
            found.append(f"never used: {kind} {listing(unused)}")
    if "reset" not in root.entries:
        found.append("`reset` is not written: every deployment is fresh in each run, nothing else is reset")
    if spec.answer is None:
        found.append("no `answer`: the report explores and claims nothing")
    if not any(t.spec.observe for t in treatments):
        found.append("no `observe`: the report cannot show why treatments differ")
    found += dict.fromkeys(
        f"workload {name!r} stops by count, perhaps within its warm-up of "
        f"{format_duration(workload.load.warmup)}: then the measured window is empty"
        for t in treatments
        for name, workload in t.spec.workloads.items()
        if may_end_in_warmup(workload.load)
    )
    found += [
        f"the source {name!r} does not see deployment {listing(blind)}: it sees platform {' or '.join(platforms)}"
        for name, (platforms, blind) in _blind_to(treatments).items()
    ]
    lifetimes = {t.spec.deploy for t in treatments}
    if "per-block" in lifetimes:
        found.append(
            "`deploy: per-block`: the order is split-plot, runs of one deployment lie together in a block"
        )
    if "once" in lifetimes:
        found.append(
            "`deploy: once`: one deployment for each level, so certainty is about these deployments only"
        )
    return tuple(found)
