"""What a design can decide: its contrasts, the size of its family of claims, and the smallest p-value it can reach."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from towtank.design.factors import level_key
from towtank.design.model import Adaptive, Answer, ExperimentSpec
from towtank.design.operations import as_text
from towtank.design.plan import Plan, Treatment

PERMUTATION_BLOCKS = 8
"""From so many blocks on the sign-flip permutation is used as a check (DESIGN §8)."""
MOST_CONTRASTS = 10_000
"""A larger family of claims cannot reach significance, nor be read."""
LEAST_BLOCKS = 2
"""An interval needs a variance, a variance two blocks."""


def contrasts(answer: Answer, treatments: Sequence[Treatment]) -> tuple[tuple[str, str], ...]:
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


def _other_levels(treatment: Treatment, factor: str) -> tuple[tuple[str, str], ...]:
    """Levels of all factors but one, such that 1 is not true."""
    return level_key({name: level for name, level in treatment.levels.items() if name != factor})


def _baseline_factor(baseline: str, treatments: Sequence[Treatment]) -> str:
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
class Power:
    """What the design can reach before any run is made.

    Parameters
    ----------
    blocks : int
        Planned blocks; of the pilot, when they are adaptive.
    claims : int
        Size of the confirmatory family: contrasts × primary variables.
    alpha : float
        1 − confidence.
    smallest_check_p : float or None
        Smallest two-sided p-value of the permutation check, 2 / 2^blocks (paired) or 2 / C(2n, n) (listed), adjusted by
        Holm for the whole family; None below `PERMUTATION_BLOCKS` blocks, where there is no check.

    Notes
    -----
    The primary method, a t-test on blocks (or Welch's), has no smallest p-value: it depends on the variance only.
    """

    blocks: int
    claims: int
    alpha: float
    method: str
    check: str
    smallest_check_p: float | None

    @property
    def check_can_confirm(self) -> bool:
        """Whether the check can reach significance for the smallest adjusted p-value."""
        return self.smallest_check_p is not None and self.smallest_check_p <= self.alpha


def power(plan: Plan) -> Power | None:
    """Say what a plan can decide; None when it makes no claim."""
    answer = plan.experiment.answer
    if answer is None:
        return None
    claims = len(contrasts(answer, plan.treatments)) * len(answer.primary)
    n = least_blocks(plan.experiment)
    blocked = plan.experiment.order == "randomized-blocks"
    smallest = None
    if n >= PERMUTATION_BLOCKS or not blocked:
        single = 2 / 2**n if blocked else 2 / math.comb(2 * n, n)
        smallest = min(1.0, single * claims)
    return Power(
        blocks=n,
        claims=claims,
        alpha=1 - answer.confidence,
        method="t-test on log ratios of blocks" if blocked else "Welch's t-test",
        check="sign-flip permutation" if blocked else "Mann–Whitney",
        smallest_check_p=smallest,
    )


def least_blocks(experiment: ExperimentSpec) -> int:
    """Blocks that there will be at least."""
    repetitions = experiment.repetitions
    return repetitions.at_least if isinstance(repetitions, Adaptive) else repetitions


def most_blocks(experiment: ExperimentSpec) -> int:
    """Blocks that there will be at most."""
    repetitions = experiment.repetitions
    return repetitions.at_most if isinstance(repetitions, Adaptive) else repetitions
