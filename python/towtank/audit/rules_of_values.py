"""Smallest, largest, percentiles, mean and standard deviation of the same values: what must lie where."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

from towtank.audit.check import Check
from towtank.audit.printed import show
from towtank.audit.table import Cell, Row, bounded

_STATISTIC = re.compile(r"(?:([a-z0-9-]+)\.)?(min|max|mean|std|median|p\d{1,2}(?:\.\d+)?)")


def _rank(statistic: str) -> Fraction | None:
    """Percent of values at or below it, by the name of the statistic; None for mean and std."""
    fixed = {"min": 0, "median": 50, "max": 100}
    if statistic in fixed:
        return Fraction(fixed[statistic])
    return Fraction(statistic[1:]) if statistic[0] == "p" else None


def _groups(row: Row) -> dict[str, dict[str, Cell]]:
    """Statistics by what they are of: ``dns.p95`` is the p95 of ``dns``, ``p95`` that of the row."""
    found: dict[str, dict[str, Cell]] = {}
    for key, cell in row.cells.items():
        if cell.column.name.endswith(("_ns", "_us", "_ms", "_s")):
            match = _STATISTIC.fullmatch(key)
            if match:
                found.setdefault(match[1] or "", {})[match[2]] = cell
    return found


def ascending(row: Row) -> Iterator[Check]:
    """Min ≤ p25 ≤ median ≤ p75 ≤ p95 ≤ max."""
    for cells in _groups(row).values():
        ranked = sorted((rank, name) for name in cells if (rank := _rank(name)) is not None)
        names = [name for _, name in ranked]
        told: list[tuple[int, int]] = []
        for i, j in sorted(combinations(range(len(names)), 2), key=lambda pair: pair[1] - pair[0]):
            lower, upper = cells[names[i]], cells[names[j]]
            holds = upper.range.high is None or lower.low <= upper.high
            if not holds and any(i <= a and b <= j for a, b in told):
                continue  # two cells between these were named already
            told += [] if holds else [(i, j)]
            says = f"{_said(names[i], lower)} is above {_said(names[j], upper)}"
            yield Check((lower, upper), holds, says)


def mean_within(row: Row) -> Iterator[Check]:
    """Min ≤ mean ≤ max."""
    for cells in _groups(row).values():
        mean = cells.get("mean")
        if mean is None:
            continue
        low, high = cells.get("min"), cells.get("max")
        if low is not None:
            holds = mean.range.high is None or mean.high >= low.low
            yield Check((mean, low), holds, f"{_said('mean', mean)} is below {_said('min', low)}")
        if high is not None and high.range.high is not None:
            yield Check(
                (mean, high), mean.low <= high.high, f"{_said('mean', mean)} is above {_said('max', high)}"
            )


def mean_of_so_many(row: Row) -> Iterator[Check]:
    """Of n values one is the smallest and one the largest: so far from either the mean must be, at the least."""
    n = _values(row)
    found = bounded(_groups(row).get("", {}), "min", "max", "mean")
    if not found or n is None or n < 2:
        return
    low, high, mean = found
    least = ((n - 1) * low.low + high.low) / n
    most = ((n - 1) * high.high + low.high) / n
    scale = mean.column.scale
    says = (
        f"{_said('mean', mean)}, but {n} values from {_said('min', low)} to {_said('max', high)} have one from "
        f"{show(least / scale)} to {show(most / scale)}"
    )
    yield Check(found, mean.low <= most and mean.high >= least, says)


def median_near_mean(row: Row) -> Iterator[Check]:
    """|mean − median| ≤ std, of whatever values (Mallows, 1991)."""
    for cells in _groups(row).values():
        found = bounded(cells, "mean", "median", "std")
        if found:
            mean, median, std = found
            apart = max(mean.low - median.high, median.low - mean.high, Fraction(0))
            says = (
                f"{_said('mean', mean)} and {_said('median', median)} are {show(apart / mean.column.scale)} apart "
                f"or more, but no values with {_said('std', std)} have them further apart than that"
            )
            yield Check(found, apart <= std.high, says)


def spread_possible(row: Row) -> Iterator[Check]:
    """Std between what min and max at least and at most make of it.

    Notes
    -----
    At most: variance ≤ (max − mean)(mean − min) (Bhatia and Davis, 2000), times n ÷ (n − 1) where it is that of a
    sample. At least: variance ≥ (max − min)² ÷ 2n (Nagy, 1918). Where n is not printed 2 is reckoned with, the widest.
    """
    for group, cells in _groups(row).items():
        n = None if group else _values(row)  # what has a prefix, such as `dns.`, may have happened less often
        found = bounded(cells, "min", "max", "std")
        if not found:
            continue
        low, high, std = found
        mean = cells.get("mean")
        named = (*found, mean) if mean is not None else found
        highest = _largest_variance(low, high, mean) * (Fraction(n, n - 1) if n and n > 1 else 2)
        top = max(std.low, Fraction(0)) ** 2
        about = f"{_said('min', low)}, {_said('max', high)}" + (f" and {_said('mean', mean)}" if mean else "")
        bound = _root(highest) / float(std.column.scale)
        yield Check(named, top <= highest, f"{_said('std', std)}, but {about} allow {bound:.6g} at most")
        if n and n > 1:
            range_low = max(high.low - low.high, Fraction(0))
            least = range_low**2 / (2 * n)
            bound = _root(least) / float(std.column.scale)
            about = f"{_said('min', low)} and {_said('max', high)} of {n} values"
            says = f"{_said('std', std)}, but {about} make {bound:.6g} at least"
            yield Check(found, max(std.high, Fraction(0)) ** 2 >= least, says)


def _largest_variance(low: Cell, high: Cell, mean: Cell | None) -> Fraction:
    """Largest (max − mean)(mean − min) that the printed numbers allow."""
    bottom, top = max(low.low, Fraction(0)), high.high
    middle = (bottom + top) / 2
    if mean is not None:
        middle = max(middle, mean.low)
        if mean.range.high is not None:
            middle = min(middle, mean.high)
    return max((top - middle) * (middle - bottom), Fraction(0))


def _values(row: Row) -> int | None:
    """How many values there are, where `n` says so."""
    cell = row.cells.get("n")
    exact = cell is not None and cell.range.low == cell.range.high
    return int(cell.low) if cell is not None and exact else None


def _root(value: Fraction) -> float:
    return math.sqrt(float(value))


def _said(name: str, cell: Cell) -> str:
    return f"{name} {cell.said}"
