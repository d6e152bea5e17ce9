"""How many repetitions an experiment needs to find a difference of a given size, judged by runs made before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from towtank.analysis.comparison import Rules, Values
from towtank.analysis.contrasts import Contrast, contrasts, within_blocks
from towtank.analysis.differences import between_blocks, between_samples
from towtank.analysis.model import Quantity
from towtank.analysis.power import blocks_to_resolve, power_of_t, upper_sd
from towtank.analysis.run_cost import cost_values
from towtank.analysis.run_values import run_values
from towtank.analysis.selection import counting_attempts
from towtank.analysis.steady_state import steady_folders
from towtank.design.answer import least_blocks
from towtank.design.plan import Plan
from towtank.store import Results
from towtank.variables import Variable

ASSURANCE = 0.8
"""Probability with which the safe number of blocks is enough, given how little a small pilot knows of the scatter."""
UNASKED = ("p95", "throughput")
"""What is planned for where the file claims nothing."""


@dataclass(frozen=True)
class Need:
    """What one contrast on one variable needs.

    Parameters
    ----------
    variable, treatment, baseline : str
    scale : {"log", "difference"}
    n : int
        Blocks of the pilot (runs, where only single treatments could be looked at).
    sd : float or None
        Of a difference, on the scale of comparison.
    unit : str
        What is counted: blocks, or runs a side.
    enough : int or None
        Fewest at which a true effect is found with 80 % power, were the scatter that of the pilot.
    safe : int or None
        The same with the bound that the true scatter stays below with 80 % probability; None beyond 10 000.
    power : float or None
        With which the planned number finds it, were the scatter that of the pilot.
    reason : str
        Why nothing can be said, or what the scatter is of.
    """

    variable: str
    treatment: str
    baseline: str
    scale: str
    n: int
    sd: float | None = None
    unit: str = "blocks"
    enough: int | None = None
    safe: int | None = None
    power: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Needs:
    """What a plan needs, claim by claim.

    Parameters
    ----------
    effect : float
        Relative difference to be found, 0–1; of shares the difference itself.
    level : float
        Of each interval, 1 − α/m.
    planned : int
        Blocks of the plan, at least.
    claims : tuple of Need
    """

    effect: float
    level: float
    planned: int
    claims: tuple[Need, ...]

    @property
    def safe(self) -> int | None:
        """Blocks that are enough for every claim, on the safe side; None when one of them cannot be said."""
        found = [claim.safe for claim in self.claims]
        known = [n for n in found if n is not None]
        return max(known) if known and len(known) == len(found) else None


def needs(plan: Plan, pilot: Results, *, effect: float) -> Needs:
    """Say how many blocks every claim of a plan needs.

    Parameters
    ----------
    plan : Plan
        The experiment that is planned.
    pilot : Results
        Its own results so far, or those of an experiment with treatments of the same names.
    effect : float
        Relative difference to be found, above 0.

    Notes
    -----
    Exact power of the t-test at the level of the simultaneous interval, which is what a verdict needs. A logarithm's
    difference is log(1 + effect), the smaller of both directions.
    """
    if not 0 < effect < 1:
        raise ValueError(f"an effect of {effect!r} cannot be planned for; it must be above 0 and below 1")
    names = plan.experiment.answer.primary if plan.experiment.answer else UNASKED
    values = pilot_values(plan, pilot, names)
    level = Rules.of(plan).level_of(names[0], plan)
    planned = least_blocks(plan.experiment)
    claims = tuple(
        _need(
            plan,
            contrast,
            plan.experiment.variable(name),
            values,
            level=level,
            effect=effect,
            planned=planned,
        )
        for name in names
        for contrast in contrasts(plan)
    )
    return Needs(effect, level, planned, claims)


def pilot_values(plan: Plan, pilot: Results, names: Sequence[str]) -> Values:
    """Variable → treatment → block → value, of the pilot's runs that count."""
    found: dict[str, dict[str, dict[int, Quantity]]] = {name: {} for name in names}
    folders = steady_folders(pilot, plan)
    chosen = counting_attempts([run.record for run in folders])
    costs = cost_values(folders, plan)
    for run in folders:
        if run.run_id not in chosen:
            continue
        summary = run_values(pilot, run, plan, costs, wanted=names)
        for name in names:
            found[name].setdefault(run.record.treatment_id, {})[run.record.block] = summary.values[name]
    return found


def _need(
    plan: Plan,
    contrast: Contrast,
    described: Variable,
    values: Values,
    *,
    level: float,
    effect: float,
    planned: int,
) -> Need:
    by_treatment = values[described.name]
    first, second = contrast.treatment.id, contrast.baseline.id
    blocked = within_blocks(plan, contrast)
    need = Need(
        described.name, first, second, described.scale, 0, unit="blocks" if blocked else "runs a side"
    )
    if described.name == "collapsed":
        return _without(need, "collapses are counted, not measured: `plan` says the fewest blocks above")
    scatter = _scatter(described, by_treatment, first, second, blocked=blocked, level=level)
    if isinstance(scatter, str):
        return _without(need, scatter)
    target = math.log1p(effect) if described.scale == "log" else effect
    samples = 1 if blocked else 2
    safe_sd = upper_sd(scatter.sd, scatter.df, assurance=ASSURANCE)
    return Need(
        described.name, first, second, described.scale, scatter.n, scatter.sd, need.unit,
        blocks_to_resolve(scatter.sd, difference=target, confidence=level, samples=samples),
        blocks_to_resolve(safe_sd, difference=target, confidence=level, samples=samples),
        power_of_t(planned, shift=target / scatter.sd, confidence=level, samples=samples),
        scatter.said,
    )  # fmt: skip


def _without(need: Need, reason: str) -> Need:
    return Need(
        need.variable, need.treatment, need.baseline, need.scale, need.n, unit=need.unit, reason=reason
    )


@dataclass(frozen=True)
class _Scatter:
    """Standard deviation of a difference, and how well it is known."""

    sd: float
    df: int
    n: int
    said: str = ""


def _scatter(
    described: Variable,
    by_treatment: Mapping[str, Mapping[int, Quantity]],
    first: str,
    second: str,
    *,
    blocked: bool,
    level: float,
) -> _Scatter | str:
    """Scatter of the contrast itself; where the pilot lacks a side, of single treatments; or why there is neither."""
    nothing: Mapping[int, Quantity] = {}
    rng = np.random.default_rng(0)
    method = between_blocks if blocked else between_samples
    sides = by_treatment.get(first, nothing), by_treatment.get(second, nothing)
    difference = method(described, *sides, confidence=level, rng=rng)
    if difference.sd is not None and difference.sd > 0:
        df = difference.n - 1 if blocked else 2 * difference.n - 2
        return _Scatter(difference.sd, df, difference.n)
    if all(sides):
        return difference.reason or "the pilot's values do not vary"
    return _pooled(described, by_treatment)


def _pooled(described: Variable, by_treatment: Mapping[str, Mapping[int, Quantity]]) -> _Scatter | str:
    """Scatter within single treatments, as if blocks had nothing in common: an upper estimate of a difference's."""
    squares, df, n = 0.0, 0, 0
    for of in by_treatment.values():
        known = [q.value for q in of.values() if q.value is not None and not q.above]
        if described.scale == "log":
            known = [math.log(value) for value in known if value > 0]
        if len(known) == len(of) >= 2:
            squares += float(np.var(known, ddof=1)) * (len(known) - 1)
            df += len(known) - 1
            n += len(known)
    if df < 1 or squares <= 0:
        return "the pilot has no treatment with two runs that vary and can be reckoned with"
    said = "the pilot has not both sides: judged by the scatter of single treatments, which blocks may make smaller"
    return _Scatter(math.sqrt(2 * squares / df), df, n, said)
