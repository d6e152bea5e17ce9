"""Averages over the last seconds, in buckets of one second: what Knative's decisions are made from."""

from __future__ import annotations

import math

from towtank.autoscaling.kpa.settings import BUCKET_S

LEAST_SMOOTHING = 0.2
"""Weights fall at least this fast, however long the window is."""
WEIGHT_COVERED = 0.9999
"""Weights within the window sum up to this much at least."""
_DIGITS = 1e6


class Buckets:
    """Values of a window, added up by the second.

    A window that has not been filled yet is averaged over the seconds since its first value; a second without a
    value counts as 0; a window without any value starts afresh with the next.

    Parameters
    ----------
    window_s : float
        ≥ 1.
    weighted : bool
        Later seconds count more, by exponentially falling weights.

    Notes
    -----
    pkg/autoscaler/aggregation/bucketing.go: an average divides by the seconds that are known, not by the window.
    """

    def __init__(self, window_s: float, *, weighted: bool = False) -> None:
        self._window = window_s / BUCKET_S
        self._count = math.ceil(self._window)
        self._weighted = weighted
        self._values: dict[int, float] = {}
        self._first = 0
        self._last: int | None = None

    def record(self, t_s: float, value: float) -> None:
        """Add a value to its second; one that is older than the window is left out."""
        at = math.floor(t_s / BUCKET_S)
        if self._last is None or at - self._last >= self._window:
            self._values = {}
            self._first = self._last = at
        elif at + self._window <= self._last:
            return
        self._first, self._last = min(self._first, at), max(self._last, at)
        self._values[at] = self._values.get(at, 0.0) + value
        self._values = {k: v for k, v in self._values.items() if k > self._last - self._count}

    def empty(self, t_s: float) -> bool:
        """Whether nothing was recorded for longer than the window."""
        return self._last is None or math.floor(t_s / BUCKET_S) - self._last > self._window

    def average(self, t_s: float) -> float:
        """Average of a second over the window that ends now; 0 when nothing is known."""
        now = math.floor(t_s / BUCKET_S)
        if self._last is None:
            return 0.0
        behind = max(0, now - self._last)
        if self._weighted:
            return self._weighted_average(behind)
        if behind >= self._window:
            return 0.0
        known = min(self._last - self._first + 1, self._count - behind)
        oldest = self._last + behind - self._count
        total = sum(value for at, value in self._values.items() if at > oldest)
        return math.floor(total / known * _DIGITS) / _DIGITS

    def _weighted_average(self, behind: int) -> float:
        """Sum of values times weights m, m(1 − m), m(1 − m)² …, the latest first."""
        if self._last is None or behind > self._window:
            return 0.0
        speed: float = max(1 - (1 - WEIGHT_COVERED) ** (1 / self._count), LEAST_SMOOTHING)
        return sum(
            self._values.get(self._last - age, 0.0) * speed * (1 - speed) ** (behind + age)
            for age in range(self._count - behind)
        )
