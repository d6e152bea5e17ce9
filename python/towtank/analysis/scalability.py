"""The Universal Scalability Law over levels of load or of replicas, with intervals and what it must not be trusted for.

References
----------
Gunther, N. J. (2007). Guerrilla Capacity Planning, chapter 4: X(N) = λN / (1 + σ(N − 1) + κN(N − 1)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq, curve_fit

from towtank.analysis.intervals import FloatArray, as_finite, check_confidence

FEWEST_LEVELS = 4
"""Three coefficients need one more level for anything to be left over."""
TRUSTED_LEVELS = 6
TRUSTED_SPAN = 4.0
"""Highest level ÷ lowest below which contention and crosstalk cannot be told apart."""
_NAMES = ("rate", "contention", "crosstalk")
_FAR = 1e6
_ROUNDING = 1e-12
"""Squared residual of log X that is rounding: exact data would otherwise have no interval at all."""


@dataclass(frozen=True)
class Coefficient:
    """A coefficient with its interval.

    Parameters
    ----------
    value, low, high : float
        `low` is 0 where the bound of the coefficient was reached, `high` infinite where the data set none.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ScalabilityLaw:
    """A fit of X(N) = λN / (1 + σ(N − 1) + κN(N − 1)).

    Parameters
    ----------
    rate : Coefficient
        λ, throughput of one.
    contention : Coefficient
        σ, the share that is done one after another, 0–1.
    crosstalk : Coefficient
        κ, what each pays for each other, ≥ 0.
    confidence : float
    n, levels : int
        Points and different N.
    peak_at : float or None
        N of the highest throughput, √((1 − σ)/κ); None where the interval of κ includes 0: no peak was shown.
    r_squared : float
        Of log X; 1 − residual ÷ total. Near 1 for almost any rising curve: no proof of the law.
    cautions : tuple of str
        For what the fit must not be trusted.
    """

    rate: Coefficient
    contention: Coefficient
    crosstalk: Coefficient
    confidence: float
    n: int
    levels: int
    peak_at: float | None
    r_squared: float
    cautions: tuple[str, ...]

    def throughput(self, levels: npt.ArrayLike) -> FloatArray:
        """X(N) of the fit."""
        n = np.asarray(levels, dtype=float)
        return np.exp(_log_law(n, math.log(self.rate.value), self.contention.value, self.crosstalk.value))


class CannotFitError(ValueError):
    """The law cannot be fitted to these numbers; the message says why."""


def fit_scalability(
    levels: npt.ArrayLike, throughputs: npt.ArrayLike, *, confidence: float = 0.95
) -> ScalabilityLaw:
    """Fit the law to throughputs at levels.

    Parameters
    ----------
    levels : array_like
        N ≥ 1: users, or replicas; one for each run, repeated levels are welcome.
    throughputs : array_like
        X > 0 of the same runs.
    confidence : float

    Raises
    ------
    CannotFitError
        Fewer than `FEWEST_LEVELS` different levels, N below 1, or a throughput that is not above 0.

    Notes
    -----
    Least squares on log X, since throughput varies by a share of itself. Intervals are of the profile: the values of a
    coefficient at which the best fit of the other two leaves at most RSS·(1 + F(1, n − 3)/(n − 3)). Unlike those from
    the covariance they hold near the bounds σ, κ ≥ 0.
    """
    check_confidence(confidence)
    n, x = as_finite(levels), as_finite(throughputs)
    different = np.unique(n)
    if n.size != x.size:
        raise ValueError(f"{n.size} levels and {x.size} throughputs; each run has one of both")
    if different.size < FEWEST_LEVELS:
        raise CannotFitError(
            f"{different.size} different levels do not determine three coefficients; {FEWEST_LEVELS} are the least"
        )
    if n.min() < 1 or x.min() <= 0:
        raise CannotFitError(f"levels begin at 1, throughputs above 0; found {n.min():g} and {x.min():g}")
    y = np.log(x)
    best, rss = _fit(n, y)
    degrees = n.size - 3
    allowed = rss * (1 + float(stats.f.ppf(confidence, 1, degrees)) / degrees) + n.size * _ROUNDING
    intervals = [_profile(n, y, best, index, allowed) for index in range(3)]
    values = [math.exp(best[0]), best[1], best[2]]
    bounds = [(math.exp(intervals[0][0]), math.exp(intervals[0][1])), *intervals[1:]]
    found = {
        name: Coefficient(value, low, high)
        for name, value, (low, high) in zip(_NAMES, values, bounds, strict=True)
    }
    crosstalk = found["crosstalk"]
    peak = math.sqrt((1 - best[1]) / best[2]) if crosstalk.low > 0 and best[1] < 1 else None
    total = float(np.sum((y - y.mean()) ** 2))
    return ScalabilityLaw(
        **found,
        confidence=confidence,
        n=n.size,
        levels=different.size,
        peak_at=peak,
        r_squared=1 - rss / total if total > 0 else 0.0,
        cautions=_cautions(different, peak),
    )


def _log_law(n: FloatArray, log_rate: float, contention: float, crosstalk: float) -> FloatArray:
    return np.asarray(log_rate + np.log(n) - np.log1p(contention * (n - 1) + crosstalk * n * (n - 1)))


_LOWEST, _HIGHEST = np.array([-np.inf, 0.0, 0.0]), np.array([np.inf, 1.0, np.inf])


def _fit(n: FloatArray, y: FloatArray, fixed: tuple[int, float] | None = None) -> tuple[FloatArray, float]:
    """Best coefficients, one of them fixed perhaps, and the residual sum of squares."""
    free = [index for index in range(3) if fixed is None or index != fixed[0]]

    def whole(some: tuple[float, ...] | FloatArray) -> FloatArray:
        every = np.zeros(3)
        every[free] = some
        if fixed is not None:
            every[fixed[0]] = fixed[1]
        return every

    def law(at: FloatArray, *some: float) -> FloatArray:
        return _log_law(at, *whole(some))

    start = np.array([float(np.max(y - np.log(n))), 0.05, 1e-4])
    found, _ = curve_fit(
        law, n, y, p0=start[free], bounds=(_LOWEST[free], _HIGHEST[free]), x_scale=np.array([1.0, 0.05, 1e-3])[free],
        xtol=1e-12, ftol=1e-12, gtol=1e-12, max_nfev=5000,
    )  # fmt: skip
    return whole(found), float(np.sum((y - law(n, *found)) ** 2))


def _profile(
    n: FloatArray, y: FloatArray, best: FloatArray, index: int, allowed: float
) -> tuple[float, float]:
    """Values of one coefficient that the data allow."""

    def beyond(value: float) -> float:
        return _fit(n, y, (index, value))[1] - allowed

    return _edge(beyond, best[index], _LOWEST[index], -1), _edge(beyond, best[index], _HIGHEST[index], 1)


def _edge(beyond: Callable[[float], float], best: float, bound: float, sign: int) -> float:
    """Where the profile leaves what is allowed, on one side of the best value."""
    step = 0.1 * abs(best) if best else 1e-5
    inner = best
    while step < _FAR:
        outer = best + sign * step
        if math.isfinite(bound) and sign * (outer - bound) >= 0:
            if beyond(bound) <= 0:
                return float(bound)
            outer = bound
        if beyond(outer) > 0:
            return (
                float(brentq(beyond, min(inner, outer), max(inner, outer), rtol=1e-6))
                if inner != outer
                else inner
            )
        inner, step = outer, 2 * step
    return sign * math.inf


def _cautions(levels: FloatArray, peak: float | None) -> tuple[str, ...]:
    found = []
    top, span = float(levels[-1]), float(levels[-1] / levels[0])
    if levels.size < TRUSTED_LEVELS:
        found.append(
            f"{levels.size} levels are few for three coefficients; from {TRUSTED_LEVELS} on it is sounder"
        )
    if span < TRUSTED_SPAN:
        found.append(
            f"the levels span a factor of {span:.2g} only: contention and crosstalk can hardly be told apart"
        )
    if peak is None:
        found.append("no crosstalk was shown (its interval includes 0): nothing is said about a peak")
    elif peak > top:
        found.append(
            f"the peak at {peak:.3g} lies beyond the highest level, {top:g}: no falling throughput was seen, "
            "so it is an extrapolation"
        )
    found.append(f"above {top:g} the curve is an extrapolation")
    return tuple(found)
