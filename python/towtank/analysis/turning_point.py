"""Where a response turns: two straight lines that meet at a load, against one, with the interval of the place.

"Above 2,000 requests per 10 s response time turns" is such a claim. It is made only when two lines fit better than one
by more than chance would; otherwise the answer is that there is none.

References
----------
Hansen, B. E. (2017). Regression kink with an unknown threshold. Journal of Business & Economic Statistics 35 (2),
228–240: F of the best place, its distribution by bootstrap under no kink, and the interval by inverting F.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from towtank.analysis.intervals import FloatArray, as_finite, check_confidence
from towtank.units import format_number

FEWEST_LEVELS = 5
"""Two levels on each side and one more."""
PLACES = 200
"""Loads at which the lines may meet, between the second and the last but one level."""
RESAMPLES = 999
_SMOOTH = 0.5
"""An interval wider than this share of all loads is no place where something turns."""


@dataclass(frozen=True)
class TurningPoint:
    """Where two lines meet, or why there is no such place.

    Parameters
    ----------
    at : float or None
        Load; None when there is none.
    low, high : float or None
        Interval of the place.
    slope_before, slope_after : float or None
        Change of the response (of its log, if so fitted) for each unit of load.
    p : float or None
        How often chance alone would fit two lines so much better than one.
    reason : str
        Why there is none, or what must be said beside it.
    """

    at: float | None
    low: float | None = None
    high: float | None = None
    slope_before: float | None = None
    slope_after: float | None = None
    p: float | None = None
    reason: str = ""


def turning_point(
    loads: npt.ArrayLike,
    responses: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    log: bool = True,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> TurningPoint:
    """Look for the load at which a response turns.

    Parameters
    ----------
    loads, responses : array_like
        One of each for every run.
    rng : numpy.random.Generator
        For the bootstrap.
    log : bool
        Fit the logarithm of the response: latencies vary by a share of themselves.
    confidence : float
        Of the interval; 1 − confidence is the level of the test.
    resamples : int

    Returns
    -------
    TurningPoint
        Without a place when there are too few levels, when one line does as well, or when the interval is wider than
        half of all loads.

    Raises
    ------
    ValueError
        Lengths differ, or a response is not above 0 although its logarithm is asked for.
    """
    check_confidence(confidence)
    x, y = as_finite(loads), as_finite(responses)
    if x.size != y.size:
        raise ValueError(f"{x.size} loads and {y.size} responses; each run has one of both")
    if log and x.size and y.min() <= 0:
        raise ValueError(f"a response of {y.min():g} has no logarithm")
    y = np.log(y) if log else y
    levels = np.unique(x)
    if levels.size < FEWEST_LEVELS or x.size < FEWEST_LEVELS + 1:
        return TurningPoint(
            None,
            reason=f"{x.size} runs at {levels.size} loads are too few; at least {FEWEST_LEVELS} loads and "
            f"{FEWEST_LEVELS + 1} runs are needed",
        )
    places = np.linspace(levels[1], levels[-2], PLACES)
    bases = [np.linalg.qr(_design(x, place))[0] for place in places]
    line = np.linalg.qr(_design(x, None))[0]
    rss = np.array([_residual(basis, y) for basis in bases])
    rss_line = _residual(line, y)
    scale = float(np.sum((y - y.mean()) ** 2)) * 1e-12
    if rss_line <= scale:
        return TurningPoint(None, reason="one straight line fits exactly: the response does not turn")
    best = int(np.argmin(rss))
    best_rss = float(rss[best]) + scale
    p = _chance(y, line, bases, (rss_line - best_rss) / best_rss, rng=rng, resamples=resamples)
    if p > 1 - confidence:
        return TurningPoint(
            None, p=p, reason=f"one straight line does as well (p = {p:.2g}): no turning point was shown"
        )
    degrees = x.size - 4
    limit = best_rss * (1 + float(stats.f.ppf(confidence, 1, degrees)) / degrees)
    inside = places[rss <= limit]
    _, before, bend = np.linalg.lstsq(_design(x, places[best]), y, rcond=None)[0]
    low, high = float(inside.min()), float(inside.max())
    if high - low > _SMOOTH * (levels[-1] - levels[0]):
        where = f"between {format_number(low)} and {format_number(high)}"
        reason = f"it bends somewhere {where}, but over so wide a range that no single load can be named"
        return TurningPoint(None, p=p, reason=reason)
    return TurningPoint(float(places[best]), low, high, float(before), float(before + bend), p)


def _design(x: FloatArray, place: float | None) -> FloatArray:
    columns = [np.ones_like(x), x] if place is None else [np.ones_like(x), x, np.maximum(x - place, 0.0)]
    return np.column_stack(columns)


def _residual(basis: FloatArray, y: FloatArray) -> float:
    """Residual sum of squares; several responses are rows of a matrix elsewhere, see `_residuals`."""
    return float(_residuals(basis, y[np.newaxis, :])[0])


def _residuals(basis: FloatArray, many: FloatArray) -> FloatArray:
    left = many - (many @ basis) @ basis.T
    return np.asarray(np.sum(left**2, axis=1))


def _chance(
    y: FloatArray,
    line: FloatArray,
    bases: list[FloatArray],
    seen: float,
    *,
    rng: np.random.Generator,
    resamples: int,
) -> float:
    """Share of resamples of one line's residuals whose gain by a second line is as large as was seen."""
    fitted = line @ (line.T @ y)
    # residuals of a fit are smaller than the errors were
    residuals = (y - fitted) * np.sqrt(y.size / (y.size - 2))
    drawn = fitted + rng.choice(residuals, size=(resamples, y.size), replace=True)
    ones = _residuals(line, drawn)
    twos = np.min([_residuals(basis, drawn) for basis in bases], axis=0)
    larger = int(np.sum((ones - twos) >= seen * twos))
    return (larger + 1) / (resamples + 1)
