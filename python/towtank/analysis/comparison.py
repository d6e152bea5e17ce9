"""Every contrast on every variable: one confirmatory family with verdicts, one exploratory table without.

What makes a verdict is in `verdicts`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np

from towtank.analysis import deployments as deployed
from towtank.analysis import sentences
from towtank.analysis.contrasts import contrasts, shares_one_deployment_each, within_blocks
from towtank.analysis.differences import Difference, between_blocks, between_samples
from towtank.analysis.model import Comparison, Quantity, VerdictWord
from towtank.analysis.multiplicity import false_discovery, holm
from towtank.analysis.power import blocks_to_resolve
from towtank.analysis.verdicts import decide, goodput_guard, margin, share_margin
from towtank.design.model import Adaptive
from towtank.design.plan import Plan
from towtank.units import format_duration
from towtank.variables import Variable

NOT_WORTH = 10
"""Times the blocks so far beyond which an experiment is not worth going on with at its scatter."""
Values = Mapping[str, Mapping[str, Mapping[int, Quantity]]]
"""variable → treatment id → block → value."""


@dataclass(frozen=True)
class Rules:
    """What the experiment file fixes about all comparisons.

    Parameters
    ----------
    confidence : float
        0–1, of the family.
    matters : float
        Smallest relative difference worth acting on, 0–1.
    pilot_blocks : int, optional
        Blocks of the pilot of a two-stage design.
    seed : int
        Of the experiment: makes permutation checks repeatable.
    """

    confidence: float
    matters: float
    pilot_blocks: int | None
    seed: int
    block_s: float | None = None
    """Mean time that a block takes, seconds; None while no run has ended."""
    not_worse: bool = False
    """The file declares that a treatment shall be shown to be not worse."""

    @classmethod
    def of(cls, plan: Plan, *, block_s: float | None = None) -> Rules:
        """Rules of a plan."""
        experiment = plan.experiment
        answer = experiment.answer
        repetitions = experiment.repetitions
        return cls(
            confidence=answer.confidence if answer else 0.95,
            matters=answer.matters if answer else 0.05,
            pilot_blocks=repetitions.at_least if isinstance(repetitions, Adaptive) else None,
            seed=experiment.seed,
            block_s=block_s,
            not_worse=answer is not None and answer.claim == "not-worse",
        )

    def level_of(self, name: str, plan: Plan) -> float:
        """Level of the interval that a variable gets: simultaneous for primary ones (1 − α/m), else plain."""
        primary = plan.experiment.answer.primary if plan.experiment.answer else ()
        if name not in primary:
            return self.confidence
        return 1 - (1 - self.confidence) / max(len(primary) * len(contrasts(plan)), 1)


class Side(Protocol):
    """What is compared: a treatment, or one version of it."""

    @property
    def id(self) -> str:
        """Its name in tables."""

    @property
    def label(self) -> str:
        """Its name in sentences."""


class Pair(Protocol):
    """Two sides of a comparison, such as a `Contrast`."""

    @property
    def treatment(self) -> Side:
        """What is judged."""

    @property
    def baseline(self) -> Side:
        """What it is judged against."""


@dataclass(frozen=True)
class Compared:
    """A contrast on a variable with its difference, before its family is known."""

    contrast: Pair
    described: Variable
    difference: Difference
    guard: str
    blocked: bool
    sole: str = ""
    """Which deployments alone this is about, where they lived as long as the experiment."""

    @property
    def unit(self) -> str:
        """What n counts."""
        return "blocks" if self.blocked else "runs a side"


def compare(
    plan: Plan,
    values: Values,
    *,
    deployments: Mapping[str, int] | None = None,
    block_s: float | None = None,
) -> tuple[Comparison, ...]:
    """Compare treatments as the experiment file declares it.

    Parameters
    ----------
    plan : Plan
    values : mapping
        variable → treatment id → block → value, of the runs that count.
    deployments : mapping of str to int, optional
        Treatment id → how often it was deployed for these runs (`deployments.deployments_of`).
    block_s : float, optional
        Mean time that a block takes, for saying how long more of them would.

    Returns
    -------
    tuple of Comparison
        Confirmatory first (primary variables in the order of the file), then exploratory.
    """
    rules = Rules.of(plan, block_s=block_s)
    primary = plan.experiment.answer.primary if plan.experiment.answer else ()
    explored = [name for name in values if name not in primary]
    level = rules.level_of(primary[0], plan) if primary else rules.confidence
    counted = deployments or {}
    family = _differences(plan, rules, primary, values, counted, level=level)
    table = _differences(plan, rules, explored, values, counted, level=rules.confidence)
    return (*confirmatory(rules, family, level=level), *exploratory(rules, table))


def _differences(
    plan: Plan,
    rules: Rules,
    names: Sequence[str],
    values: Values,
    deployments: Mapping[str, int],
    *,
    level: float,
) -> list[Compared]:
    found: list[Compared] = []
    declared = contrasts(plan)
    nothing: Mapping[int, Quantity] = {}
    for name in names:
        described = plan.experiment.variable(name)
        by_treatment = values.get(name, {})
        for contrast in declared:
            rng = np.random.default_rng([rules.seed, len(found)])
            blocked = within_blocks(plan, contrast)
            method = between_blocks if blocked else between_samples
            extra = {"pilot_blocks": rules.pilot_blocks} if blocked else {}
            difference = method(
                described,
                by_treatment.get(contrast.treatment.id, nothing),
                by_treatment.get(contrast.baseline.id, nothing),
                confidence=level,
                rng=rng,
                **extra,
            )
            goodput = values.get("goodput", {})
            sides = (goodput.get(side.id, nothing) for side in (contrast.treatment, contrast.baseline))
            guard = goodput_guard(*sides) if described.successes_only else ""
            sole = ""
            if shares_one_deployment_each(contrast) and difference.n > 1:
                said = deployed.told(contrast, deployments)
                sole = f"about these deployments only: {said}"
                difference = replace(difference, method=f"{difference.method}; {said}")
            found.append(Compared(contrast, described, difference, guard, blocked, sole))
    return found


def confirmatory(rules: Rules, family: list[Compared], *, level: float) -> list[Comparison]:
    """Judge a family of claims together: Holm-adjusted p-values, verdicts, sentences.

    Parameters
    ----------
    rules : Rules
    family : list of Compared
        All of it, with intervals at `level`.
    level : float
        1 − α/m.
    """
    if not family:
        return []
    alpha = 1 - rules.confidence
    # What cannot be tested stays in the family as p = 1: dropping it would make the others easier.
    raw = [1.0 if c.difference.p_value is None else c.difference.p_value for c in family]
    adjusted = holm(raw)
    found = []
    for compared, p in zip(family, adjusted, strict=True):
        p_adjusted = None if compared.difference.p_value is None else p
        verdict: VerdictWord = decide(
            compared.described,
            compared.difference,
            p_adjusted=p_adjusted,
            alpha=alpha,
            level=level,
            matters=rules.matters,
            not_worse=rules.not_worse,
        )
        reason = compared.difference.reason
        if compared.guard:
            verdict, reason = "undecided", compared.guard
        found.append(_worded(rules, compared, p_adjusted, verdict, reason, level=level))
    return found


def _worded(
    rules: Rules,
    compared: Compared,
    p_adjusted: float | None,
    verdict: VerdictWord,
    reason: str,
    *,
    level: float,
) -> Comparison:
    difference, described, contrast = compared.difference, compared.described, compared.contrast
    excludes = difference.interval is not None and not (
        difference.interval.low <= 0 <= difference.interval.high
    )
    needs = reason or _needs(rules, compared, level=level)
    sole = compared.sole
    reason = "; ".join(part for part in (reason, sole) if part)
    ending = sentences.verdict_ending(
        verdict,
        matters=rules.matters if described.scale == "log" else share_margin(rules.matters),
        described=described,
        certain=excludes,
        planned=needs,
    )
    simultaneous = "simultaneous interval" if level != rules.confidence else "interval"
    p_text = "" if p_adjusted is None else sentences.p_value(p_adjusted, name="Holm p")
    sentence = sentences.difference_sentence(
        described,
        difference,
        treatment=contrast.treatment.label,
        baseline=contrast.baseline.label,
        evidence=f"{sentences.percent(rules.confidence)} {simultaneous} | {p_text}",
        unit=compared.unit,
        ending=ending + (f"; {sole}" if sole else ""),
    )
    return _comparison(
        compared, confirmatory=True, confidence=rules.confidence, p_adjusted=p_adjusted,
        verdict=verdict, sentence=sentence, reason=reason,
    )  # fmt: skip


def _needs(rules: Rules, compared: Compared, *, level: float) -> str:
    """How many blocks an undecided comparison would need, from its own variance."""
    difference = compared.difference
    target = margin(compared.described, rules.matters)
    size = (
        sentences.percent(rules.matters)
        if compared.described.scale == "log"
        else sentences.share_points(target)
    )
    if difference.sd is None or difference.sd <= 0:
        shown = difference.interval
        across = shown is not None and any(shown.low < edge < shown.high for edge in (-target, target))
        return f"the interval reaches across the margin of {size}" if across else ""
    blocks = blocks_to_resolve(difference.sd, difference=target, confidence=level)
    if blocks is None:
        return f"a difference of {size} is far below the variation between runs"
    if blocks <= difference.n:
        return f"the interval reaches across the margin of {size}"
    pace = f"{format_duration(blocks * rules.block_s)} at the pace so far" if rules.block_s else ""
    time = f" ({pace})" if pace else ""
    worth = "; not worth it at this scatter" if blocks > NOT_WORTH * difference.n else ""
    return f"about {blocks} {compared.unit}{time} would show a difference of {size} if there is one{worth}"


def exploratory(rules: Rules, table: list[Compared]) -> list[Comparison]:
    """Say what the other comparisons found, without verdict words; the false discovery rate is that of the table."""
    adjusted = false_discovery([c.difference.p_value for c in table])
    found = []
    for compared, p_adjusted in zip(table, adjusted, strict=True):
        difference = compared.difference
        reason = "; ".join(part for part in (compared.guard, difference.reason) if part)
        p_text = "" if p_adjusted is None else sentences.p_value(p_adjusted, name="FDR-adjusted p")
        sentence = sentences.difference_sentence(
            compared.described,
            difference,
            treatment=compared.contrast.treatment.label,
            baseline=compared.contrast.baseline.label,
            evidence=f"{sentences.percent(rules.confidence)} interval | {p_text}",
            unit=compared.unit,
            ending=f"; exploratory{': ' + reason if reason else ''}",
        )
        found.append(
            _comparison(
                compared, confirmatory=False, confidence=rules.confidence, p_adjusted=p_adjusted,
                verdict=None, sentence=sentence, reason=reason,
            )
        )  # fmt: skip
    return found


def _comparison(
    compared: Compared,
    *,
    confirmatory: bool,
    confidence: float,
    p_adjusted: float | None,
    verdict: VerdictWord | None,
    sentence: str,
    reason: str,
) -> Comparison:
    difference, scale = compared.difference, compared.described.scale
    shown = difference.interval
    return Comparison(
        variable=compared.described.name,
        treatment_id=compared.contrast.treatment.id,
        baseline_id=compared.contrast.baseline.id,
        confirmatory=confirmatory,
        scale=scale,
        n=difference.n,
        estimate=_natural(difference.estimate, scale),
        low=None if shown is None else _natural(shown.low, scale),
        high=None if shown is None else _natural(shown.high, scale),
        confidence=confidence,
        p_value=difference.p_value,
        p_adjusted=p_adjusted,
        p_permutation=difference.checks.get("sign_flip", difference.checks.get("brunner_munzel")),
        verdict=verdict,
        sentence=sentence,
        method=difference.method,
        reason=reason,
        checks=dict(difference.checks),
    )


def _natural(value: float | None, scale: Literal["log", "difference"]) -> float | None:
    """From the scale of comparison to what is shown: a ratio, or a difference. Infinite means not known."""
    if value is None or math.isinf(value):
        return None
    if scale == "difference":
        return value
    return math.exp(value) if value < 700 else None
