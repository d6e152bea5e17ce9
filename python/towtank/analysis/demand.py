"""Demand: the fewest fixed replicas that hold the objectives at a load, from a stored calibration (DESIGN §9).

A calibration is the capacity of one deployment with 1, 2, … n fixed replicas, each as the interval that `load_line`
found: the highest load shown to hold, the lowest shown to fail. Capacity cannot fall when replicas are added, so the
bounds are made monotone (isotonic regression, which pools neighbours that contradict each other); nothing is
extrapolated beyond the most replicas that were measured.

References
----------
Henning, S., Hasselbring, W. (2022). A configurable method for benchmarking scalability of cloud-native applications.
Empirical Software Engineering 27, 143: demand(l) = min {r : all objectives hold at load l with r}.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression

from towtank.analysis.elasticity import GRID_S, Elasticity, elasticity
from towtank.analysis.intervals import FloatArray
from towtank.analysis.step_function import StepFunction
from towtank.design.load_shape import AnyLoad, duration_s, pieces


@dataclass(frozen=True)
class Level:
    """Capacity with a fixed number of replicas.

    Parameters
    ----------
    replicas : int
        At least 1.
    holds : float
        Highest load shown to hold, > 0: users, or arrivals per second.
    fails : float or None
        Lowest load shown to fail, above `holds`; None where none was reached.
    """

    replicas: int
    holds: float
    fails: float | None


@dataclass(frozen=True, eq=False)
class DemandCurve:
    """Load → replicas, with its bounds.

    Parameters
    ----------
    levels : tuple of Level
        As they were measured, by replicas.
    replicas : array of int
        1 to the most that were measured.
    holds : array
        Load that so many replicas carry: monotone, between measured numbers along a straight line.
    surely : array
        Load that so many carry at least: where a number was not measured, that of the next smaller one.
    perhaps : array
        Load at which so many are sure to fail; infinite where that is not known.
    least : int
        Replicas without load: 0 for what scales to nothing.
    pooled : tuple of int
        Measured numbers whose capacity contradicted a neighbour's and was averaged with it.
    """

    levels: tuple[Level, ...]
    replicas: npt.NDArray[np.int64]
    holds: FloatArray
    surely: FloatArray
    perhaps: FloatArray
    least: int
    pooled: tuple[int, ...]

    @property
    def most_load(self) -> float:
        """Above this, demand is not known."""
        return float(self.holds[-1])

    def demand(self, load: npt.ArrayLike) -> FloatArray:
        """Fewest replicas that hold at each load; nan where more than the most that were measured are needed."""
        return self._fewest(load, self.holds, side="left")

    def at_least(self, load: npt.ArrayLike) -> FloatArray:
        """Replicas of which fewer are sure to fail."""
        return self._fewest(load, self.perhaps, side="right")

    def at_most(self, load: npt.ArrayLike) -> FloatArray:
        """Replicas that are sure to hold; nan as in `demand`, and where that is not known."""
        return self._fewest(load, self.surely, side="left")

    def _fewest(
        self, load: npt.ArrayLike, carried: FloatArray, *, side: Literal["left", "right"]
    ) -> FloatArray:
        asked = np.asarray(load, dtype=float)
        place = np.searchsorted(carried, asked, side=side)
        needed = np.where(place < len(carried), place + 1, np.nan).astype(float)
        return np.where(asked <= 0, float(self.least), np.maximum(needed, self.least))


def demand_curve(levels: Sequence[Level], *, least: int = 1) -> DemandCurve:
    """Fit the curve to a calibration.

    Parameters
    ----------
    levels : sequence of Level
        Any order; 1 replica must be among them, since nothing is known below the fewest.
    least : int
        Replicas that are there without load.

    Raises
    ------
    ValueError
        No level, a number of replicas twice, 1 missing, or a capacity that is none.
    """
    ordered = tuple(sorted(levels, key=lambda one: one.replicas))
    _check(ordered, least)
    measured = np.array([one.replicas for one in ordered])
    held = np.array([one.holds for one in ordered], dtype=float)
    failed = np.array([math.inf if one.fails is None else one.fails for one in ordered])
    monotone = _ascending(held)
    bounded = np.isfinite(failed)
    if bool(bounded.any()):  # unknown bounds say nothing about their neighbours
        failed[bounded] = _ascending(failed[bounded])
    # a bound of more replicas is one of fewer, too: what eight cannot carry, four cannot
    failed = np.minimum.accumulate(failed[::-1])[::-1]
    replicas = np.arange(1, int(measured[-1]) + 1)
    below = np.searchsorted(measured, replicas, side="right") - 1
    above = np.searchsorted(measured, replicas, side="left")
    return DemandCurve(
        levels=ordered,
        replicas=replicas,
        holds=np.interp(replicas, measured, monotone),
        surely=monotone[below],
        perhaps=np.maximum(failed[above], np.interp(replicas, measured, monotone)),
        least=least,
        pooled=tuple(
            int(r) for r, was, now in zip(measured, held, monotone, strict=True) if not math.isclose(was, now)
        ),
    )


def _check(ordered: Sequence[Level], least: int) -> None:
    numbers = [one.replicas for one in ordered]
    if not ordered or numbers[0] != 1:
        raise ValueError(
            f"a calibration of {numbers or 'nothing'} replicas does not say when 1 is enough; measure 1 as well"
        )
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"a calibration has each number of replicas once; it has {numbers}")
    if least < 0:
        raise ValueError(f"{least} replicas without load cannot be; allowed is 0 or more")
    for one in ordered:
        if not 0 < one.holds < math.inf or (one.fails is not None and not one.fails > one.holds):
            raise ValueError(
                f"with {one.replicas} replicas it holds at {one.holds} and fails at {one.fails}: the first must be "
                "above 0, the second above the first"
            )


def _ascending(values: FloatArray) -> FloatArray:
    """Monotone fit on logs: an error of measurement is relative."""
    return np.asarray(np.exp(isotonic_regression(np.log(values)).x), dtype=float)


def intended_load(load: AnyLoad) -> FloatArray:
    """Mean intended load of each second: arrivals per second, or users.

    Returns
    -------
    array
        One value for each second that has begun, from the start of the load.
    """
    total = duration_s(load)
    # a length such as 0.1 + 0.2 must not begin another second
    edges = np.minimum(GRID_S * np.arange(math.ceil(round(total / GRID_S, 9)) + 1), total)
    under = np.zeros_like(edges)
    at_s = 0.0
    for piece in pieces(load):
        since = edges - at_s  # what lies before a piece has nothing of it, what lies behind it all
        first, last = np.searchsorted(since, 0.0, side="right"), np.searchsorted(since, piece.duration_s)
        under[first:last] += [piece.area_to(float(one)) for one in since[first:last]]
        under[last:] += piece.area
        at_s += piece.duration_s
    return np.asarray(np.diff(under) / np.diff(edges), dtype=float)


def each_second(values: FloatArray, start_s: float) -> StepFunction:
    """Values of seconds, one after the other."""
    times = np.asarray(start_s + GRID_S * np.arange(values.size), dtype=float)
    return StepFunction(times, values, start_s + GRID_S * values.size)


@dataclass(frozen=True)
class Judged:
    """Elasticity of a run with what is not sure about its demand.

    Parameters
    ----------
    found : Elasticity or None
        At the demand that was estimated; None when it is not known all the time.
    low, high : Elasticity or None
        At the smallest and the largest demand that the calibration allows: every measure of too few instances is
        between those of `low` and `high`, every measure of too many between those of `high` and `low`; jitter and
        instability have no such bounds. None where a bound is not known.
    reason : str
        Why there is nothing, or no bound.
    """

    found: Elasticity | None
    low: Elasticity | None = None
    high: Elasticity | None = None
    reason: str = ""


def judge(curve: DemandCurve, loads: FloatArray, supply: StepFunction, *, start_s: float = 0.0) -> Judged:
    """Compare the supply of a run with what its intended load demanded.

    Parameters
    ----------
    curve : DemandCurve
    loads : array
        Of each second from `start_s` on (`intended_load`, the measured window of it).
    supply : StepFunction
        Ready instances.
    start_s : float
        Of the first load, on the clock of `supply`.
    """
    beyond = np.flatnonzero(np.isnan(curve.demand(loads)))
    if beyond.size:
        first = int(beyond[0])
        return Judged(
            None,
            reason=f"a load of {loads[first]:g} at {start_s + first * GRID_S:g} s is above {curve.most_load:g}, what "
            f"{int(curve.replicas[-1])} replicas were seen to carry; calibrate with more",
        )
    low = elasticity(each_second(curve.at_least(loads), start_s), supply)
    found = elasticity(each_second(curve.demand(loads), start_s), supply)
    most = curve.at_most(loads)
    if bool(np.isnan(most).any()):
        return Judged(
            found, low, None, "the most that may have been in demand is not known at the highest loads"
        )
    return Judged(found, low, elasticity(each_second(most, start_s), supply))
