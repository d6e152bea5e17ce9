"""What a design can decide: its contrasts, its family of claims, and by which method, from which p-value on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from towtank.design.designed import Designed
from towtank.design.factors import level_key
from towtank.design.methods import method
from towtank.design.model import Adaptive, Answer, ExperimentSpec
from towtank.design.operations import as_text
from towtank.design.plan import Plan

MOST_CONTRASTS = 10_000
"""A larger family of claims cannot reach significance, nor be read."""
LEAST_BLOCKS = 2
"""An interval needs a variance, a variance two blocks."""


def contrasts(answer: Answer, treatments: Sequence[Designed]) -> tuple[tuple[str, str], ...]:
    """List the declared comparisons as (treatment id, baseline id), in the order of the file.

    With a treatment as baseline, every other treatment is compared with it. With a level of one factor as baseline,
    every treatment with another level is compared with the one that differs in nothing else. With ``all-pairs``,
    every later treatment is compared with every earlier one.

    Raises
    ------
    ValueError
        The baseline is neither, or a level of several factors; the message lists what is allowed.
    """
    if answer.contrasts == "all-pairs":
        return tuple((b.id, a.id) for a, b in itertools.combinations(treatments, 2))
    if answer.baseline is None:
        raise ValueError(
            "`baseline` is missing; name a treatment or a level, or write `contrasts: all-pairs`"
        )
    if any(t.id == answer.baseline for t in treatments):
        return tuple((t.id, answer.baseline) for t in treatments if t.id != answer.baseline)
    factor = _baseline_factor(answer.baseline, treatments)
    partners = {
        _other_levels(t, factor): t.id for t in treatments if as_text(t.levels[factor]) == answer.baseline
    }
    return tuple(
        (t.id, partners[_other_levels(t, factor)])
        for t in treatments
        if as_text(t.levels[factor]) != answer.baseline and _other_levels(t, factor) in partners
    )


def _other_levels(treatment: Designed, factor: str) -> tuple[tuple[str, str], ...]:
    """Levels of all factors but one, such that 1 is not true."""
    return level_key({name: level for name, level in treatment.levels.items() if name != factor})


def _baseline_factor(baseline: str, treatments: Sequence[Designed]) -> str:
    """The one factor that has the baseline as a level."""
    having = {f for t in treatments for f, level in t.levels.items() if as_text(level) == baseline}
    if len(having) == 1:
        return having.pop()
    if having:
        raise ValueError(
            f"{baseline!r} is a level of several factors: {', '.join(sorted(having))}; name a treatment instead"
        )
    raise ValueError(f"there is no treatment and no level {baseline!r}")


@dataclass(frozen=True)
class Claim:
    """One contrast on one primary variable, and how it will be decided.

    Parameters
    ----------
    treatment, baseline, variable : str
    method, check : str
        As the analysis will choose them.
    unit : str
        What n counts: blocks, or runs a side.
    least : int
        Blocks (or runs a side) below which no outcome can confirm the claim.
    smallest_p : float or None
        Smallest two-sided p-value, adjusted by Holm for the whole family; None when the data alone bound it.
    smallest_check_p : float or None
        The same of the check: 2 / 2^blocks (within blocks) or 2 / C(2n, n) (samples); None when there is no check.
    check_can_confirm : bool
        Whether the check can reach significance with it.
    """

    treatment: str
    baseline: str
    variable: str
    method: str
    check: str
    unit: str
    least: int
    smallest_p: float | None
    smallest_check_p: float | None
    check_can_confirm: bool


@dataclass(frozen=True)
class Power:
    """What the design can reach before any run is made.

    Parameters
    ----------
    blocks : int
        Planned blocks; of the pilot, when they are adaptive.
    alpha : float
        1 − confidence.
    claims : tuple of Claim
        The confirmatory family: contrasts × primary variables.
    """

    blocks: int
    alpha: float
    claims: tuple[Claim, ...]


def power(plan: Plan) -> Power | None:
    """Say what a plan can decide; None when it makes no claim."""
    answer = plan.experiment.answer
    if answer is None:
        return None
    return power_of(plan.experiment, answer, plan.treatments)


def power_of(experiment: ExperimentSpec, answer: Answer, treatments: Sequence[Designed]) -> Power:
    """Say what a design can decide.

    Raises
    ------
    ValueError
        The baseline is none; see `contrasts`.
    """
    n = least_blocks(experiment)
    alpha = 1 - answer.confidence
    specs = {t.id: t.spec for t in treatments}
    pairs = contrasts(answer, treatments)
    family = len(pairs) * len(answer.primary)

    def adjusted(p: float | None) -> float | None:
        return None if p is None else min(1.0, p * family)

    found: list[Claim] = []
    for name in answer.primary:
        for first, second in pairs:
            chosen = method(experiment, specs[first], specs[second], experiment.variable(name))
            check_p = adjusted(chosen.smallest_check_p(n))
            found.append(
                Claim(
                    treatment=first, baseline=second, variable=name, method=chosen.name, check=chosen.check,
                    unit="blocks" if chosen.paired else "runs a side", least=chosen.least(alpha / max(family, 1)),
                    smallest_p=adjusted(chosen.smallest_p(n)), smallest_check_p=check_p,
                    check_can_confirm=check_p is not None and check_p <= alpha,
                )
            )  # fmt: skip
    return Power(n, alpha, tuple(found))


def least_blocks(experiment: ExperimentSpec) -> int:
    """Blocks that there will be at least."""
    repetitions = experiment.repetitions
    return repetitions.at_least if isinstance(repetitions, Adaptive) else repetitions


def most_blocks(experiment: ExperimentSpec) -> int:
    """Blocks that there will be at most."""
    repetitions = experiment.repetitions
    return repetitions.at_most if isinstance(repetitions, Adaptive) else repetitions
