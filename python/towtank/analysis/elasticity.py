"""How well supply follows demand: accuracy, timeshare, jitter, instability, elastic speedup, time to scale.

Supply is the number of instances that are ready, demand the fewest that hold the objectives (`demand`). Both are step
functions of time; all of this is arithmetic on two of them.

References
----------
Herbst, N., Kounev, S., Weber, A., Groenda, H. (2015). BUNGEE: an elasticity benchmark for self-adaptive IaaS cloud
environments. SEAMS 2015. Accuracy, timeshare and jitter are those of its tool (tools.descartes.bungee.metric).

Herbst, N. et al. (2016). Ready for Rain? A view from SPEC Research on the future of cloud metrics. SPEC-RG-2016-01.
Normalised accuracy, instability and elastic speedup.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from towtank.analysis.step_function import StepFunction, together

GRID_S = 1.0
"""Instability counts changes between instants so far apart."""


@dataclass(frozen=True)
class Elasticity:
    """Supply against demand over one stretch of time; shares are 0–1, smaller is better everywhere.

    Parameters
    ----------
    duration_s : float
        T, the time that both are known of.
    accuracy_under, accuracy_over : float
        Mean number of instances that were missing, or too many: (1/T) ∫ max(d − s, 0) dt, (1/T) ∫ max(s − d, 0) dt.
    accuracy_under_ratio, accuracy_over_ratio : float
        The same as a share of the demand of that moment: (1/T) ∫ max(d − s, 0)/d dt. Where nothing is in demand, an
        instance is a whole one too many: the divisor is then 1.
    timeshare_under, timeshare_over : float
        Share of the time in which instances were missing, or too many.
    jitter_per_min : float
        (unit steps of supply − unit steps of demand) ÷ T: below 0, supply moves less than demand.
    instability : float or None
        Share of the seconds in which supply and demand do not move in the same direction. None below 2 s.
    """

    duration_s: float
    accuracy_under: float
    accuracy_over: float
    accuracy_under_ratio: float
    accuracy_over_ratio: float
    timeshare_under: float
    timeshare_over: float
    jitter_per_min: float
    instability: float | None


def elasticity(demand: StepFunction, supply: StepFunction) -> Elasticity:
    """Compare supply with demand over the time that both cover.

    Raises
    ------
    ValueError
        No time in common, a negative number of instances, or a stretch in which either is not known.
    """
    lengths, wanted, there = together(demand, supply)
    unknown = np.isnan(wanted) | np.isnan(there)
    if bool(np.any(unknown)):
        raise ValueError(
            f"demand or supply is not known for {float(np.sum(lengths[unknown])):g} s; leave those out before comparing"
        )
    if bool(np.any(wanted < 0)) or bool(np.any(there < 0)):
        raise ValueError("there is no negative number of instances, neither in demand nor in supply")
    total = float(np.sum(lengths))
    under, over = np.maximum(wanted - there, 0.0), np.maximum(there - wanted, 0.0)
    whole = np.where(wanted > 0, wanted, 1.0)
    start, end = max(demand.start_s, supply.start_s), min(demand.end_s, supply.end_s)
    parts = [one.within(start, end) for one in (demand, supply)]

    def mean(values: np.ndarray) -> float:
        return float(np.dot(values, lengths)) / total

    return Elasticity(
        duration_s=total,
        accuracy_under=mean(under),
        accuracy_over=mean(over),
        accuracy_under_ratio=mean(under / whole),
        accuracy_over_ratio=mean(over / whole),
        timeshare_under=mean(under > 0),
        timeshare_over=mean(over > 0),
        jitter_per_min=60 * (parts[1].unit_steps() - parts[0].unit_steps()) / total,
        instability=_instability(*parts),
    )


def _instability(demand: StepFunction, supply: StepFunction) -> float | None:
    """υ = 1/(T − 1) Σ min(|sgn Δs − sgn Δd|, 1), on a grid of one second."""
    grid = demand.start_s + GRID_S * np.arange(math.ceil(round(demand.length_s / GRID_S, 9)))
    if grid.size < 2:
        return None
    moves = [np.sign(np.diff(one.at(grid))) for one in (supply, demand)]
    return float(np.mean(moves[0] != moves[1]))


@dataclass(frozen=True)
class Speedup:
    """Elastic speedup, and why it is not a number or says little.

    Parameters
    ----------
    value : float or None
        Above 1, the autoscaler follows demand better than without one.
    reason : str
    """

    value: float | None
    reason: str = ""


SPEEDUP = {
    "accuracy_under_ratio": "instances that were missing",
    "accuracy_over_ratio": "instances that were too many",
    "timeshare_under": "time with too few",
    "timeshare_over": "time with too many",
}


def elastic_speedup(without: Mapping[str, float], scaled: Mapping[str, float]) -> Speedup:
    """Geometric mean of the four ratios without ÷ with an autoscaler.

    A ratio 0/0 is 1: neither was ever wrong in that way, so they are equal. x/0 has no value, and so the whole has
    none; 0/x makes it 0 whatever the other three say, which the reason tells.

    Parameters
    ----------
    without, scaled : mapping
        The metrics `SPEEDUP` of both: of a run, or means over runs.
    """
    ratios: list[float] = []
    lost = []
    for name, words in SPEEDUP.items():
        before, after = float(without[name]), float(scaled[name])
        if after == 0 and before > 0:
            return Speedup(None, f"with the autoscaler there were no {words}: nothing can be divided by that")
        ratios.append(1.0 if before == after == 0 else before / after)
        if before == 0 < after:
            lost.append(words)
    reason = f"0 because without the autoscaler there were no {' and no '.join(lost)}" if lost else ""
    return Speedup(math.prod(ratios) ** 0.25, reason)


@dataclass(frozen=True)
class Adaptation:
    """A change of demand, and how long supply took to follow.

    Parameters
    ----------
    at_s : float
    before, after : float
        Demand.
    took_s : float or None
        Until supply had reached the new demand; 0 where it was there already. None when it did not before demand
        changed again, or before the end.
    watched_s : float
        How long it was waited for, where it did not.
    """

    at_s: float
    before: float
    after: float
    took_s: float | None
    watched_s: float

    @property
    def is_up(self) -> bool:
        """Whether more was wanted."""
        return self.after > self.before


def adaptations(demand: StepFunction, supply: StepFunction) -> tuple[Adaptation, ...]:
    """Every change of demand with the time that supply took: at least as many going up, at most going down.

    A ramp changes demand instance by instance; each of those changes is one.
    """
    end = min(demand.end_s, supply.end_s)
    steps = [
        (float(at), float(before), float(after))
        for at, (before, after) in zip(demand.times_s[1:], itertools.pairwise(demand.values), strict=True)
        if before != after and supply.start_s <= at < end and not math.isnan(before + after)
    ]
    found = []
    for number, (at, before, after) in enumerate(steps):
        until = steps[number + 1][0] if number + 1 < len(steps) else end
        part = supply.within(at, until)
        reached = part.values >= after if after > before else part.values <= after
        took = float(part.times_s[int(np.argmax(reached))]) - at if bool(reached.any()) else None
        found.append(Adaptation(at, before, after, took, until - at))
    return tuple(found)
