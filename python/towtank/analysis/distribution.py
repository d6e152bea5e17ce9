"""A distribution of latencies as value → count, with the failures that rank above every success.

The exact count tables of the store are what comes in; no request is ever scanned. Values are integer
microseconds, as stored; results are seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from towtank.analysis.model import Quantity

IntArray = npt.NDArray[np.int64]
MICROSECOND_S = 1e-6


@dataclass(frozen=True, eq=False)
class Distribution:
    """Successes by value, and the number of requests that failed.

    Parameters
    ----------
    values : int64 array
        Distinct latencies of successes, µs, ascending.
    counts : int64 array
        How often each occurs, ≥ 1.
    failures : int
        Requests that were due and did not succeed: failed, timed out, never sent, cut off.
    """

    values: IntArray
    counts: IntArray
    failures: int = 0

    @classmethod
    def of(
        cls, values: npt.ArrayLike, counts: npt.ArrayLike | None = None, *, failures: int = 0
    ) -> Distribution:
        """Merge equal values and sort them.

        Parameters
        ----------
        values : array_like of int
            Latencies, µs; in any order, repeated values allowed.
        counts : array_like of int, optional
            Count of each value; 1 when left out.
        failures : int, default 0

        Raises
        ------
        ValueError
            Lengths differ, or a count or `failures` is negative.
        """
        value = _whole(values)
        count = np.ones(value.size, dtype=np.int32) if counts is None else _whole(counts)
        if value.shape != count.shape:
            raise ValueError(f"{value.size} values but {count.size} counts; each value needs its count")
        if failures < 0 or bool(np.any(count < 0)):
            raise ValueError("a count is negative; counts and failures must be ≥ 0")
        order = np.argsort(value, kind="stable")
        value, count = value[order], count[order]
        del order  # these arrays may have ten million rows
        first = np.flatnonzero(np.concatenate(([True], value[1:] != value[:-1])))[: value.size]
        total = np.add.reduceat(count, first, dtype=np.int64) if value.size else count.astype(np.int64)
        distinct = value[first].astype(np.int64)
        if bool(np.any(total == 0)):
            distinct, total = distinct[total > 0], total[total > 0]
        return cls(distinct, total, failures)

    @property
    def successes(self) -> int:
        """Number of requests that succeeded."""
        return int(self.counts.sum())

    @property
    def n(self) -> int:
        """Number of requests that were due."""
        return self.successes + self.failures

    def only_successes(self) -> Distribution:
        """The same distribution as if nothing had failed."""
        return Distribution(self.values, self.counts)

    def percentile(self, percentile: float) -> float | None:
        """Exact percentile by linear interpolation (type 7 of Hyndman and Fan).

        Parameters
        ----------
        percentile : float
            0–100.

        Returns
        -------
        float or None
            Seconds; `inf` when it falls among the failures, or between the slowest success and the first
            failure; None when there are no requests.

        Notes
        -----
        With order statistics x(0) ≤ … ≤ x(n−1) and h = (n − 1) p / 100, the value is
        x(⌊h⌋) + (h − ⌊h⌋) (x(⌊h⌋ + 1) − x(⌊h⌋)). h is computed as a fraction, so that a percentile that is exactly
        the slowest success is not pushed among the failures by rounding.

        References
        ----------
        Hyndman, R. J. and Fan, Y. (1996). Sample quantiles in statistical packages. The American
        Statistician 50 (4), 361–365.
        """
        if not 0 <= percentile <= 100:
            raise ValueError(f"percentile {percentile!r} is not between 0 and 100")
        if self.n == 0:
            return None
        position = Fraction(str(percentile)) * (self.n - 1) / 100
        lower = math.floor(position)
        share = float(position - lower)
        first = self._order_statistic(lower)
        if share == 0.0:
            return first
        second = self._order_statistic(lower + 1)
        return math.inf if math.isinf(second) else first + share * (second - first)

    def _order_statistic(self, index: int) -> float:
        """Value at 0-based `index` of the sorted requests, seconds; `inf` among the failures."""
        if index >= self.successes:
            return math.inf
        at = int(np.searchsorted(np.cumsum(self.counts), index, side="right"))
        return float(self.values[at]) * MICROSECOND_S

    def quantity(self, percentile: float, *, limit_s: float) -> Quantity:
        """Percentile as a `Quantity`: "more than `limit_s`" when it falls among the failures.

        Parameters
        ----------
        percentile : float
            0–100.
        limit_s : float
            What "above" is said of, seconds: the timeout of the workload.
        """
        value = self.percentile(percentile)
        if value is None:
            return Quantity(None, reason="no requests")
        if math.isinf(value):
            share = f"{self.failures} of {self.n} requests failed"
            return Quantity(limit_s, above=True, reason=f"falls among the failures: {share}")
        return Quantity(value)

    def mean(self) -> float | None:
        """Mean of the successes, seconds; None without any."""
        if not self.values.size:
            return None
        return float(np.dot(self.values.astype(float), self.counts)) / self.successes * MICROSECOND_S

    def deviation(self) -> float | None:
        """Standard deviation of the successes as a sample (n − 1), seconds; None of fewer than two."""
        if self.successes < 2:
            return None
        apart = self.values - float(np.average(self.values, weights=self.counts))
        return math.sqrt(float(np.dot(apart**2, self.counts)) / (self.successes - 1)) * MICROSECOND_S


def _whole(numbers: npt.ArrayLike) -> npt.NDArray[np.int32] | IntArray:
    """One-dimensional whole numbers; int32 stays as it is, to save memory."""
    array = np.asarray(numbers)
    return array.ravel() if array.dtype == np.int32 else array.astype(np.int64, copy=False).ravel()


def merge(distributions: Iterable[Distribution]) -> Distribution:
    """Pool distributions; descriptive, since requests of one run are not independent."""
    parts: Sequence[Distribution] = list(distributions)
    if not parts:
        return Distribution.of([])
    return Distribution.of(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.counts for part in parts]),
        failures=sum(part.failures for part in parts),
    )


class Pool:
    """Distributions that come one by one, pooled.

    They are merged when as many values wait as are merged already: every value is then merged a few times only, however
    many distributions there are.
    """

    _FEWEST = 1 << 16

    def __init__(self) -> None:
        self._merged = Distribution.of([])
        self._waiting: list[Distribution] = []

    def add(self, distribution: Distribution) -> None:
        """Add one."""
        self._waiting.append(distribution)
        rows = sum(waiting.values.size for waiting in self._waiting)
        if rows > max(self._merged.values.size, self._FEWEST):
            self.all()

    def all(self) -> Distribution:
        """All that were added, pooled."""
        self._merged = merge((self._merged, *self._waiting))
        self._waiting = []
        return self._merged
