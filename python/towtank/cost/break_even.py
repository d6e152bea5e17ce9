"""Cost of a month against load: for every deployment a line, and where two lines cross.

A reserved deployment is a staircase: so many requests a second to a node, then one node more. Pay-per-use begins with
what is free each month. An instance that scales to zero is paid as long as it is there, and that is longer than it
works: it waits for another request before it goes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from towtank.cost.money import DAY_S, MONTH_S
from towtank.cost.price_list import FreePerMonth

GRID_POINTS = 400
"""Loads that are looked at between the smallest and the largest, besides every step of a line."""
MOST_STEPS = 2000
"""Steps of a staircase that are looked at; beyond, the grid is finer than nobody needs."""
BESIDE = 1e-9
"""How far on either side of a step a line is looked at, as a share of the load."""


@dataclass(frozen=True)
class Line:
    """Cost of a month against load.

    Parameters
    ----------
    name : str
        Of the deployment.
    cost : callable
        Requests per second (mean over the month) → cost of a month.
    low, high : callable
        The same at the ends of the interval of what was measured.
    steps : tuple of float
        Loads at which it jumps or bends, requests per second.
    """

    name: str
    cost: Callable[[float], float]
    low: Callable[[float], float]
    high: Callable[[float], float]
    steps: tuple[float, ...] = ()


@dataclass(frozen=True)
class Crossing:
    """Where two deployments change places.

    Parameters
    ----------
    cheaper_below, cheaper_above : str
        Names of the deployments.
    per_s : float
        Requests per second.
    low, high : float or None
        Interval of `per_s` from the intervals of both lines; None where the lines do not cross at that end.
    """

    cheaper_below: str
    cheaper_above: str
    per_s: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Always:
    """Two deployments that never change places.

    Parameters
    ----------
    cheaper, dearer : str
        Names of the deployments.
    differs : {"always", "sometimes", "never"}
        Where they cost differently: at every load, at some of them (at others they cost the same), at none.
    least_per_s, most_per_s : float
        Loads that were looked at.
    is_sure : bool
        They do not change places at the ends of the intervals of what was measured either.
    """

    cheaper: str
    dearer: str
    differs: Literal["always", "sometimes", "never"]
    least_per_s: float
    most_per_s: float
    is_sure: bool


@dataclass(frozen=True)
class Measured:
    """A measured quantity with its interval; without one, both ends are None."""

    value: float
    low: float | None = None
    high: float | None = None

    def ends(self) -> tuple[float, float]:
        """Lower and upper end; the value itself where there is no interval."""
        return (
            self.value if self.low is None else max(0.0, self.low),
            self.value if self.high is None else self.high,
        )


def staircase(
    name: str, *, node_per_s: float, fee_per_s: float, capacity: Measured, least_nodes: int, most_per_s: float,
    credit: float = 0.0, busy_per_s: float = 0.0, per_request: float = 0.0,
) -> Line:  # fmt: skip
    """Line of nodes that are paid whether they work or not.

    Parameters
    ----------
    name : str
    node_per_s, fee_per_s : float
        Price of one node, and of what comes with the cluster, per second.
    capacity : Measured
        Requests per second that a node carries, > 0.
    least_nodes : int
        Nodes that are there without any load, ≥ 0.
    most_per_s : float
        Largest load that is of interest.
    credit : float
        What is not charged of a month's bill.
    busy_per_s : float
        What a node that works fully costs beyond an idle one, per second: energy.
    per_request : float
        What every request costs besides: logs, egress.
    """

    def at(per_node: float) -> Callable[[float], float]:
        def cost(per_s: float) -> float:
            nodes = max(least_nodes, math.ceil(round(per_s / per_node, 9)))
            working = per_s / per_node * busy_per_s + per_s * per_request
            return max(0.0, (nodes * node_per_s + fee_per_s + working) * MONTH_S - credit)

        return cost

    few, many = capacity.ends()
    steps = _stairs(capacity, first=max(1, least_nodes), most_per_s=most_per_s)
    return Line(name, at(capacity.value), at(many), at(few), steps)


def _stairs(capacity: Measured, *, first: int, most_per_s: float) -> tuple[float, ...]:
    """Loads at which one node or instance more is needed, from the first one that a load brings."""
    few, many = capacity.ends()
    steps = {
        each * count for each in {few, capacity.value, many}
        for count in range(first, min(MOST_STEPS, math.ceil(most_per_s / each)) + 1)
    }  # fmt: skip
    return tuple(sorted(steps))


def pay_per_use(
    name: str, *, vcpu_price: float, gib_price: float, request_price: float, vcpu: float, gib: float,
    billed_s: Measured, free: FreePerMonth, per_request: float = 0.0, waiting: Sequence[tuple[float, float]] = (),
) -> Line:  # fmt: skip
    """Line of instances that are paid while they work.

    Parameters
    ----------
    name : str
    vcpu_price, gib_price : float
        Of a second.
    request_price : float
    vcpu, gib : float
        Size of an instance.
    billed_s : Measured
        Billed seconds ÷ requests, as measured: requests that share an instance make it smaller.
    free : FreePerMonth
    per_request : float
        What every request costs besides, free tier or not: logs, egress.
    waiting : sequence of (float, float)
        Of vCPU, then of memory: how much is kept without load, and the price of a second of it while it has no work.
    """
    sizes = (vcpu, gib)

    def at(seconds: float) -> Callable[[float], float]:
        def cost(per_s: float) -> float:
            requests = per_s * MONTH_S
            return (
                max(0.0, requests * seconds * vcpu - free.vcpu_seconds) * vcpu_price
                + max(0.0, requests * seconds * gib - free.gib_seconds) * gib_price
                + max(0.0, requests - free.requests) * request_price
                + requests * per_request
                + sum(
                    max(0.0, kept * MONTH_S - requests * seconds * size) * price
                    for (kept, price), size in zip(waiting, sizes, strict=False)
                )
            )

        return cost

    fast, slow = billed_s.ends()
    bends = [free.requests]
    for seconds in {fast, billed_s.value, slow}:
        bends += [
            amount / (seconds * size) for amount, size in ((free.vcpu_seconds, vcpu), (free.gib_seconds, gib))
            if seconds * size > 0
        ]  # fmt: skip
        bends += [
            kept * MONTH_S / (seconds * size)
            for (kept, _), size in zip(waiting, sizes, strict=False)
            if seconds * size > 0
        ]
    steps = sorted({bend / MONTH_S for bend in bends if bend > 0})
    return Line(name, at(billed_s.value), at(fast), at(slow), tuple(steps))


def while_there(
    name: str, *, vcpu_price: float, gib_price: float, vcpu: float, gib: float, capacity: Measured, idle_s: float,
    least: int, most_per_s: float, free: FreePerMonth, per_request: float = 0.0,
) -> Line:  # fmt: skip
    """Line of instances that are paid as long as they are there, scaling to `least`.

    Parameters
    ----------
    name : str
    vcpu_price, gib_price : float
        Of a second.
    vcpu, gib : float
        Size of an instance.
    capacity : Measured
        Requests per second that an instance carries, > 0.
    idle_s : float
        How long an instance waits for another request before it goes, ≥ 0.
    least : int
        Instances that never go; 0 scales to zero.
    most_per_s : float
    free : FreePerMonth
        Free memory pays for memory only, free vCPU for vCPU.
    per_request : float
        What every request costs besides: logs, egress.

    Notes
    -----
    With requests at random instants (Poisson, rate λ) an instance that stays for τ after each is there for the share
    1 − exp(−λ τ) of the time: the probability that M/D/∞ is not empty (Takács, "Introduction to the Theory of Queues",
    1962, ch. 3). Here τ is the idle time and the time of one request at capacity. Above one instance's work, as many
    are there as the load needs.
    """

    def at(per_instance: float) -> Callable[[float], float]:
        def cost(per_s: float) -> float:
            working = math.ceil(round(per_s / per_instance, 9))
            there = -math.expm1(-per_s * (idle_s + 1 / per_instance)) if working <= 1 else float(working)
            seconds = max(float(least), there) * MONTH_S
            return (
                max(0.0, seconds * vcpu - free.vcpu_seconds) * vcpu_price
                + max(0.0, seconds * gib - free.gib_seconds) * gib_price
                + per_s * per_request * MONTH_S
            )

        return cost

    few, many = capacity.ends()
    return Line(
        name, at(capacity.value), at(many), at(few), _stairs(capacity, first=1, most_per_s=most_per_s)
    )


def crossings(one: Line, other: Line, *, least_per_s: float, most_per_s: float) -> list[Crossing]:
    """Find every load at which two lines change places.

    Parameters
    ----------
    one, other : Line
    least_per_s, most_per_s : float
        Loads that are of interest; > 0.

    Returns
    -------
    list of Crossing
        Ascending. A staircase may cross a line many times: each is said.

    Notes
    -----
    The interval of a crossing is that of the crossing of the same kind nearest to it when one line is at the lower end
    of its interval and the other at the upper, and the other way round.
    """
    found = _changes(one.cost, other.cost, one, other, least_per_s, most_per_s)
    left = _changes(one.low, other.high, one, other, least_per_s, most_per_s)
    right = _changes(one.high, other.low, one, other, least_per_s, most_per_s)
    made = []
    for per_s, one_is_cheaper_below in found:
        ends = [
            _nearest(per_s, [at for at, same in side if same == one_is_cheaper_below])
            for side in (left, right)
        ]
        known = sorted(end for end in ends if end is not None)
        names = (one.name, other.name) if one_is_cheaper_below else (other.name, one.name)
        low, high = (known[0], known[-1]) if len(known) == 2 else (None, None)
        made.append(Crossing(*names, per_s, low, high))
    return made


def _changes(  # noqa: PLR0917 - two curves, their lines and two bounds
    a: Callable[[float], float], b: Callable[[float], float], one: Line, other: Line, least: float, most: float
) -> list[tuple[float, bool]]:  # fmt: skip
    """Loads at which the sign of a − b changes, and whether `a` was the cheaper one below."""
    found: list[tuple[float, bool]] = []
    before: tuple[float, float] | None = None  # the last load at which one was cheaper, and by how much

    def gap(per_s: float) -> float:
        return a(per_s) - b(per_s)

    for load in _loads(one, other, least, most):
        here = gap(load)
        if here == 0:
            continue
        if before is not None and (here > 0) != (before[1] > 0):
            found.append((float(brentq(gap, before[0], load)), before[1] < 0))
        before = (load, here)
    return found


def _loads(one: Line, other: Line, least: float, most: float) -> list[float]:
    """Loads at which two lines are compared, ascending: a grid, and both sides of every step."""
    steps = [s for s in (*one.steps, *other.steps) if least < s < most]
    beside = [s * factor for s in steps for factor in (1 - BESIDE, 1.0, 1 + BESIDE)]
    loads: list[float] = np.unique([*np.geomspace(least, most, GRID_POINTS), *beside]).tolist()
    return loads


def always(one: Line, other: Line, *, least_per_s: float, most_per_s: float) -> Always | None:
    """Say which of two lines is the cheaper one wherever they differ; None where they change places.

    Parameters
    ----------
    one, other : Line
    least_per_s, most_per_s : float
        Loads that are of interest; > 0.
    """
    loads = _loads(one, other, least_per_s, most_per_s)
    gaps = [one.cost(load) - other.cost(load) for load in loads]
    if min(gaps) < 0 < max(gaps):
        return None
    cheaper, dearer = (one, other) if min(gaps) < 0 else (other, one)
    if not any(gaps):
        cheaper, dearer = one, other
    differs: Literal["always", "sometimes", "never"] = (
        "always" if all(gaps) else "sometimes" if any(gaps) else "never"
    )
    is_sure = all(cheaper.high(load) <= dearer.low(load) for load in loads)
    return Always(cheaper.name, dearer.name, differs, least_per_s, most_per_s, is_sure)


def _nearest(per_s: float, others: Sequence[float]) -> float | None:
    return min(others, key=lambda at: abs(math.log(at / per_s)), default=None)


def sentence(crossing: Crossing, since_per_s: float | None = None) -> str:
    """Say a crossing as a reader asks for it: ``a is cheaper than b below 2.2 M requests a day``.

    Parameters
    ----------
    crossing : Crossing
    since_per_s : float, optional
        Where the two changed places before, at a lower load: below that, it is the other way round.
    """
    interval = ""
    if crossing.low is not None and crossing.high is not None and crossing.low < crossing.high:
        interval = f" ({a_day(crossing.low)} to {a_day(crossing.high)})"
    below, above, load = crossing.cheaper_below, crossing.cheaper_above, a_day(crossing.per_s)
    if since_per_s is None:
        return f"{below} is cheaper than {above} below {load} requests a day{interval}"
    since = a_day(since_per_s)
    return f"{below} is cheaper than {above} from {since} to {load} requests a day{interval}"


def always_in_words(found: Always) -> str:
    """Say that two deployments never change places: ``a is cheaper than b at every load``."""
    least, most = a_day(found.least_per_s), a_day(found.most_per_s)
    cheap, dear = found.cheaper, found.dearer
    unsure = "" if found.is_sure else "; at the ends of what was measured they may change places"
    match found.differs:
        case "always":
            return (
                f"{cheap} is cheaper than {dear} at every load from {least} to {most} requests a day{unsure}"
            )
        case "sometimes":
            return f"{cheap} is cheaper than {dear} or costs the same, from {least} to {most} requests a day{unsure}"
        case "never":
            return f"{cheap} and {dear} cost the same at every load from {least} to {most} requests a day{unsure}"


def a_day(per_s: float) -> str:
    """Write requests per second as those of a day: ``2.2 M``."""
    count = per_s * DAY_S
    for size, word in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if count >= size:
            return f"{count / size:.3g}{word}"
    return f"{count:.3g}"
