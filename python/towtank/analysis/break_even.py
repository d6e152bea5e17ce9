"""At which load another deployment becomes the cheaper one: lines of a month's cost from what runs measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pandas as pd

from towtank.analysis.estimates import estimate
from towtank.analysis.model import Quantity
from towtank.analysis.run_cost import RunCost
from towtank.analysis.used import GIB
from towtank.cost.break_even import (
    BESIDE,
    Always,
    Crossing,
    Line,
    Measured,
    always,
    always_in_words,
    crossings,
    pay_per_use,
    sentence,
    staircase,
    while_there,
)
from towtank.cost.money import DAY_S
from towtank.cost.price_list import (
    AnyPriceList,
    OwnHardware,
    PerInstance,
    PerRequest,
    PodRequests,
    Reserved,
    rounded_up,
)
from towtank.cost.rules import CannotPriceError
from towtank.cost.spec import CostSpec, PricedDeployment
from towtank.design.expected_cost import kept_waiting
from towtank.design.plan import Plan, Treatment
from towtank.variables import own_variable

LEAST_PER_S = 1 / DAY_S
"""One request a day."""
MOST_PER_S = 1e9 / DAY_S
"""A billion requests a day."""
MOST_LISTED = 12
"""Crossings of a pair that are listed; a staircase may cross a line hundreds of times."""


CURVE_COLUMNS = ("treatment_id", "per_s", "cost", "low", "high")
AROUND = 10.0
"""How far beyond crossings and measured loads lines are drawn, as a factor."""
POINTS = 160
MOST_EDGES = 60
"""Edges of a staircase that are drawn as such; more would be one line."""


@dataclass(frozen=True)
class BreakEven:
    """Crossings of every pair of treatments that differ in their deployment, and pairs that have none.

    Parameters
    ----------
    crossings : tuple of Crossing
        Deployments are named by the label of their treatment.
    not_listed : int
        Crossings beyond `MOST_LISTED` of a pair.
    unknown : dict
        Label of a treatment → why there is no line of it.
    curves : DataFrame
        `CURVE_COLUMNS`: cost of a month against requests per second, with the ends of its interval.
    measured : dict
        Treatment → requests per second of its runs; what is said of other loads is reckoned, not measured.
    always : tuple of Always
        Pairs that never change places.
    """

    crossings: tuple[Crossing, ...] = ()
    not_listed: int = 0
    unknown: Mapping[str, str] = field(default_factory=dict)
    curves: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(CURVE_COLUMNS)))
    measured: Mapping[str, float] = field(default_factory=dict)
    always: tuple[Always, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """Every crossing in words; of a pair that changes places again, from where to where, and which never do."""
        said: list[str] = []
        before: dict[frozenset[str], float] = {}
        for one in self.crossings:
            pair = frozenset((one.cheaper_below, one.cheaper_above))
            said.append(sentence(one, before.get(pair)))
            before[pair] = one.per_s
        return (*said, *map(always_in_words, self.always))


def break_even(plan: Plan, runs: Mapping[str, Sequence[RunCost]], *, confidence: float) -> BreakEven | None:
    """Find the loads at which deployments change places; None without prices.

    Parameters
    ----------
    plan : Plan
    runs : mapping
        Treatment → what its runs that count cost.
    confidence : float
        Of the intervals of what was measured; those of crossings follow from them.
    """
    cost = plan.experiment.cost
    if cost is None:
        return None
    lines: list[_Drawn] = []
    unknown: dict[str, str] = {}
    for treatment in plan.treatments:
        others = {k: v for k, v in treatment.levels.items() if k != "deployment"}
        try:
            line = _line(cost, treatment, runs.get(treatment.id, ()), confidence)
        except CannotPriceError as error:
            unknown[treatment.label] = str(error)
        else:
            lines.append(_Drawn(treatment.id, others, line))
    found: list[Crossing] = []
    never: list[Always] = []
    left_out = 0
    for one, other in _pairs(lines):
        mine = crossings(one, other, least_per_s=LEAST_PER_S, most_per_s=MOST_PER_S)
        same = None if mine else always(one, other, least_per_s=LEAST_PER_S, most_per_s=MOST_PER_S)
        never += [] if same is None else [same]
        found += mine[:MOST_LISTED]
        left_out += max(0, len(mine) - MOST_LISTED)
    measured = {
        line.treatment_id: sum(loads) / len(loads)
        for line in lines
        if (loads := [run.per_s for run in runs.get(line.treatment_id, ()) if run.per_s])
    }
    curves = _curves(lines, found, measured)
    return BreakEven(tuple(found), left_out, unknown, curves, measured, tuple(never))


@dataclass(frozen=True)
class _Drawn:
    """A line, whose it is, and the levels of its factors besides the deployment."""

    treatment_id: str
    others: Mapping[str, object]
    line: Line


def _pairs(lines: Sequence[_Drawn]) -> Iterator[tuple[Line, Line]]:
    """Lines of treatments that differ in nothing but their deployment."""
    for one, other in combinations(lines, 2):
        if one.others == other.others:
            yield one.line, other.line


def _curves(
    lines: Sequence[_Drawn], found: Sequence[Crossing], measured: Mapping[str, float]
) -> pd.DataFrame:
    """Points of every line, around all that is of interest."""
    loads = [*measured.values(), *(one.per_s for one in found)]
    if not loads:
        return pd.DataFrame(columns=list(CURVE_COLUMNS))
    least, most = max(LEAST_PER_S, min(loads) / AROUND), min(MOST_PER_S, max(loads) * AROUND)
    rows = []
    for drawn in lines:
        line = drawn.line
        edges = [step for step in line.steps if least < step < most]
        beside = [step * (1 + sign * BESIDE) for step in edges[:MOST_EDGES] for sign in (-1, 1)]
        rows += [
            (drawn.treatment_id, per_s, line.cost(per_s), line.low(per_s), line.high(per_s))
            for per_s in sorted({*np.geomspace(least, most, POINTS).tolist(), *beside})
        ]
    return pd.DataFrame(rows, columns=list(CURVE_COLUMNS))


def _line(cost: CostSpec, treatment: Treatment, runs: Sequence[RunCost], confidence: float) -> Line:
    one = cost.deployments.get(treatment.spec.deployment_name)
    if one is None or one.prices is None:
        raise CannotPriceError(
            "it has no price list" if one is None else "a bill does not say what other loads cost"
        )
    prices = one.prices
    rate = cost.in_report(1.0, prices.currency)
    return _at_rate(_priced_line(prices, one, treatment, runs, rate, confidence), rate)


def _at_rate(line: Line, rate: float) -> Line:
    """The line in the currency of the report."""
    if rate == 1.0:
        return line
    plain, low, high = line.cost, line.low, line.high
    return replace(
        line, cost=lambda x: rate * plain(x), low=lambda x: rate * low(x), high=lambda x: rate * high(x)
    )


def _priced_line(  # noqa: PLR0917 - all that a line is made of
    prices: AnyPriceList, one: PricedDeployment, treatment: Treatment, runs: Sequence[RunCost], rate: float,
    confidence: float,
) -> Line:  # fmt: skip
    label = treatment.label
    each = _mean_bytes(prices, runs) / rate
    vcpu, gib = one.vcpu or 0.0, (one.memory or 0) / GIB
    if isinstance(prices, PerRequest):
        return pay_per_use(
            label, vcpu_price=prices.vcpu, gib_price=prices.memory, request_price=prices.request, vcpu=vcpu, gib=gib,
            billed_s=_billed(runs, confidence), free=prices.free_per_month, per_request=each,
            waiting=_waiting(prices, one, treatment),
        )  # fmt: skip
    capacity = _capacity(one, treatment.levels)
    match prices:
        case Reserved():
            return staircase(
                label, node_per_s=prices.node, fee_per_s=prices.fee, capacity=capacity, least_nodes=one.nodes or 1,
                most_per_s=MOST_PER_S, credit=prices.credit_per_month, per_request=each,
            )  # fmt: skip
        case PodRequests():
            return staircase(
                label, node_per_s=_pod(prices, one), fee_per_s=prices.fee, capacity=capacity, least_nodes=1,
                most_per_s=MOST_PER_S, credit=prices.credit_per_month, per_request=each,
            )  # fmt: skip
        case OwnHardware():
            energy = prices.overhead * prices.electricity
            return staircase(
                label, node_per_s=prices.machine / prices.lifetime + prices.idle_watts * energy, fee_per_s=0.0,
                capacity=capacity, least_nodes=one.machines, most_per_s=MOST_PER_S,
                busy_per_s=(prices.busy_watts - prices.idle_watts) * energy, per_request=each,
            )  # fmt: skip
        case PerInstance() if one.idle is None:
            raise CannotPriceError(
                "how long an instance waits before it goes is not known: write `idle` in `cost`"
            )
        case PerInstance():
            return while_there(
                label, vcpu_price=prices.vcpu, gib_price=prices.memory, vcpu=vcpu, gib=gib, capacity=capacity,
                idle_s=one.idle or 0.0, least=0, most_per_s=MOST_PER_S, free=prices.free_per_month, per_request=each,
            )  # fmt: skip


def _waiting(
    prices: PerRequest, one: PricedDeployment, treatment: Treatment
) -> tuple[tuple[float, float], ...]:
    """Size of what is kept without load, with the price of its waiting: of vCPU, then of memory."""
    if prices.waiting is None:
        return ()
    cores, gib = kept_waiting(one, treatment.spec)
    return (cores, prices.waiting.vcpu), (gib, prices.waiting.memory)


def _capacity(one: PricedDeployment, levels: Mapping[str, object]) -> Measured:
    """Requests per second that one instance carries: as the file says it, or as a search found it.

    A search that refuted no load leaves its upper end open.
    """
    if one.carries is not None:
        return Measured(one.carries, one.carries, one.fails) if one.fails else Measured(one.carries)
    fitting = one.carried_at(levels)
    if len(fitting) != 1:
        raise CannotPriceError(
            "how many requests per second one carries is not known: write `carries` or `capacity` in `cost`"
        )
    (found,) = fitting
    return Measured(found.holds, found.holds, math.inf if found.fails is None else found.fails)


def _pod(prices: PodRequests, one: PricedDeployment) -> float:
    """Price of a pod for a second, by what it is billed for.

    Raises
    ------
    CannotPriceError
        Its size is not written. What all pods of a run requested together says nothing of how many carry a load.
    """
    if (prices.vcpu and one.vcpu is None) or (prices.memory and one.memory is None):
        raise CannotPriceError("what one pod requests is not known: write its `vcpu` and `memory` in `cost`")
    vcpu = one.vcpu or 0.0
    billed = vcpu if prices.vcpu_step is None else rounded_up(vcpu, prices.vcpu_step)
    return billed * prices.vcpu + (one.memory or 0) / GIB * prices.memory


def _mean_bytes(prices: AnyPriceList, runs: Sequence[RunCost]) -> float:
    """Logs and egress of a request, mean over runs; in the currency of the report."""
    if not prices.log and not prices.egress:
        return 0.0
    known = [run.bytes_each for run in runs if run.bytes_each is not None]
    if not known:
        raise CannotPriceError("logs or egress are charged, and no run knows its bytes")
    return sum(known) / len(known)


def _billed(runs: Sequence[RunCost], confidence: float) -> Measured:
    """Billed seconds for each request, with the interval of its mean over runs."""
    quantities = [Quantity(run.billed_s) for run in runs if run.billed_s is not None]
    if not quantities:
        raise CannotPriceError("no run knows for how long instances worked")
    found = estimate(own_variable("billed_s", "lower"), quantities, confidence=confidence)
    if found.mean is None:
        raise CannotPriceError(found.reason)
    return Measured(found.mean, found.low, found.high)
