"""One contrast on one variable: the size of the difference, its interval and its p-value.

What is compared is a per-run value. It may be censored ("more than 30 s", a percentile among failures) or 0 where
a ratio is asked for; then ranks take over, because no mean of logs exists. That switch looks only at whether
differences can be reckoned with, never at which side they favour: flipping the treatments within a block does not
change it, so it does not bend the level of the test.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from towtank.analysis import independent, paired, sentences
from towtank.analysis.intervals import (
    FloatArray,
    Interval,
    fewest_for_ranks,
    has_no_variation,
    mean_interval,
    median_interval,
    share_interval,
)
from towtank.analysis.model import Quantity
from towtank.analysis.stein import pilot_spread
from towtank.variables import Variable


@dataclass(frozen=True)
class Difference:
    """A contrast before it is put into words: on the scale of comparison (logs, or plain).

    Parameters
    ----------
    n : int
        Complete blocks, or runs of the smaller side.
    estimate : float or None
        log(treatment ÷ baseline), or treatment − baseline.
    interval : Interval or None
    p_value : float or None
        Two-sided.
    direction : int
        Sign of the difference: −1, 0, 1.
    sd : float or None
        Standard deviation of the differences within blocks, for planning.
    signs : (int, int), optional
        Blocks in which the treatment lies below and above the baseline, where signs decide.
    sides : (int, int), optional
        Runs of treatment and baseline, where these are not as many.
    ranks_only : bool
        Some values cannot be reckoned with, so that equivalence cannot be claimed.
    """

    n: int
    estimate: float | None = None
    interval: Interval | None = None
    p_value: float | None = None
    direction: int = 0
    sd: float | None = None
    method: str = "none"
    reason: str = ""
    ranks_only: bool = False
    signs: tuple[int, int] | None = None
    sides: tuple[int, int] | None = None
    checks: dict[str, float] = field(default_factory=dict)


def between_blocks(
    described: Variable,
    treatment: Mapping[int, Quantity],
    baseline: Mapping[int, Quantity],
    *,
    confidence: float,
    rng: np.random.Generator,
    pilot_blocks: int | None = None,
) -> Difference:
    """Compare within blocks: the default design.

    Parameters
    ----------
    described : Variable
        Its `scale` decides: mean of log(a/b), or of a − b.
    treatment, baseline : mapping of int to Quantity
        Block → value. Only blocks that have both count.
    confidence : float
        Of the interval, 0–1; in a family of m claims 1 − α/m.
    rng : numpy.random.Generator
        For the permutation check beyond 16 blocks.
    pilot_blocks : int, optional
        A two-stage design: variance and degrees of freedom are those of the blocks up to this number.

    Returns
    -------
    Difference
        Never nan: what cannot be said is None, with a reason.
    """
    blocks = complete_blocks(treatment, baseline)
    first = [treatment[block] for block in blocks]
    second = [baseline[block] for block in blocks]
    n = len(blocks)
    if n == 0:
        why = _why_nothing(treatment.values(), baseline.values())
        return Difference(0, reason=f"no block has a value on both sides{why}")
    if described.name == "collapsed":
        return _collapse_shares(first, second, confidence=confidence)
    low, high, sign = block_differences(described, treatment, baseline)
    if not bool(np.all(np.isfinite(low) & np.isfinite(high))):
        return _by_signs(low, high, sign, confidence=confidence, why=_why_ranks(described, first, second))
    if n == 1:
        return Difference(
            1, estimate=float(low[0]), direction=int(sign[0]), reason="one complete block: no variation known"
        )
    if has_no_variation(low):
        return _by_signs(low, high, sign, confidence=confidence, why=_why_same(described, first, second))
    pilot = None if pilot_blocks is None else pilot_spread(low, blocks, pilot_blocks=pilot_blocks)
    return _by_t(low, confidence=confidence, rng=rng, pilot=pilot)


def between_samples(
    described: Variable,
    treatment: Mapping[int, Quantity],
    baseline: Mapping[int, Quantity],
    *,
    confidence: float,
    rng: np.random.Generator,
) -> Difference:
    """Compare two independent samples: designs whose order is listed, not randomised within blocks.

    Parameters are those of `between_blocks`; the keys of the mappings are not matched.
    """
    first = [q for q in treatment.values() if q.value is not None]
    second = [q for q in baseline.values() if q.value is not None]
    n = min(len(first), len(second))
    if n == 0:
        why = _why_nothing(treatment.values(), baseline.values())
        return Difference(0, reason=f"one side has no run with a value{why}")
    sides = None if len(first) == len(second) else (len(first), len(second))
    a = np.array([scaled(described, q) for q in first])
    b = np.array([scaled(described, q) for q in second])
    finite = bool(np.all(np.isfinite(a)) and np.all(np.isfinite(b)))
    checks: dict[str, float] = {}
    munzel = independent.brunner_munzel(a, b, rng=rng)
    whitney = independent.mann_whitney(a, b)
    if n >= 2 and munzel is not None and whitney is not None:
        checks = {"mann_whitney": whitney, "brunner_munzel": munzel}
    tested = independent.welch(a, b, confidence=confidence) if finite else None
    if tested is not None:
        p_value, interval = tested
        estimate = float(a.mean() - b.mean())
        spread = math.sqrt(float(a.var(ddof=1)) + float(b.var(ddof=1)))
        direction = int(np.sign(estimate))
        return Difference(
            n, estimate, interval, p_value, direction, spread, "Welch", checks=checks, sides=sides
        )
    ahead = independent.superiority(a, b)
    direction = int(np.sign(0.5 - ahead))
    size = float(a.mean() - b.mean()) if finite else None
    if n == 1:
        return Difference(
            1, size, direction=direction, reason="one run on a side: no variation known", sides=sides
        )
    why = "no run varies" if finite else _why_ranks(described, first, second)
    reason = f"{why}; by ranks (Brunner–Munzel, permutation), so no interval of the size"
    return Difference(
        n, size, None, munzel, direction, None, "Brunner–Munzel", reason, ranks_only=True, checks=checks,
        sides=sides,
    )  # fmt: skip


def complete_blocks(treatment: Mapping[int, Quantity], baseline: Mapping[int, Quantity]) -> list[int]:
    """Blocks with a value on both sides, ascending."""
    both = treatment.keys() & baseline.keys()
    return sorted(b for b in both if treatment[b].value is not None and baseline[b].value is not None)


def block_differences(
    described: Variable, treatment: Mapping[int, Quantity], baseline: Mapping[int, Quantity]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Differences within complete blocks on the scale of comparison: lowest, highest, sign.

    Lowest and highest are equal unless both sides lie among failures.
    """
    pairs = [
        _extended(described, treatment[block], baseline[block])
        for block in complete_blocks(treatment, baseline)
    ]
    columns = np.array(pairs, dtype=np.float64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def scaled(described: Variable, quantity: Quantity) -> float:
    """Value on the scale of comparison; inf among failures, −inf for the log of 0."""
    if quantity.above:
        return math.inf
    value = quantity.value if quantity.value is not None else math.nan
    if described.scale == "difference":
        return value
    return math.log(value) if value > 0 else -math.inf


def _extended(described: Variable, a: Quantity, b: Quantity) -> tuple[float, float, float]:
    """Difference a − b as (lowest, highest, sign).

    Both sides among failures: nothing is known of their order. Both exactly 0: they are equal.
    """
    first, second = scaled(described, a), scaled(described, b)
    if math.isinf(first) and first == second:
        return (-math.inf, math.inf, 0.0) if first > 0 else (0.0, 0.0, 0.0)
    difference = first - second
    return difference, difference, float(np.sign(difference))


def _by_t(
    values: FloatArray, *, confidence: float, rng: np.random.Generator, pilot: tuple[float, int] | None
) -> Difference:
    n = values.size
    sd, df = float(np.std(values, ddof=1)), n - 1
    method = f"t over blocks, {df} degrees of freedom" if df != 1 else "t over blocks, 1 degree of freedom"
    if pilot is not None:
        sd, df = pilot
        method = f"Stein: t over blocks, {df} degrees of freedom of the pilot"
    centre = float(values.mean())
    checks = {}
    if n >= paired.PERMUTATION_FROM:
        flipped = paired.sign_flip_test(values, rng=rng)
        checks = {} if flipped is None else {"sign_flip": flipped}
    return Difference(
        n=n,
        estimate=centre,
        interval=mean_interval(values, confidence=confidence, sd=sd, df=df),
        p_value=paired.t_test(values, sd=sd, df=df),
        direction=int(np.sign(centre)),
        sd=sd,
        method=method,
        checks=checks,
    )


def _by_signs(
    low: FloatArray, high: FloatArray, sign: FloatArray, *, confidence: float, why: str
) -> Difference:
    """Exact sign test, and the exact rank interval of the median difference."""
    n = low.size
    interval = median_interval(high, confidence=confidence, lower=low)
    reason = why
    if interval is None:
        needed = fewest_for_ranks(confidence=confidence)
        same = not bool(np.any(sign))
        reason += (
            f"; {needed} complete blocks are needed {'to call it equivalent' if same else 'for an interval'}"
        )
    lower, upper = _median(low), _median(high)
    estimate = lower if lower == upper and math.isfinite(lower) else None
    return Difference(
        n=n,
        estimate=estimate,
        interval=interval,
        p_value=paired.sign_test(sign) if n > 1 else None,
        direction=int(np.sign(sign.sum())),
        method="exact sign test",
        reason=reason if n > 1 else f"{why}; one complete block",
        ranks_only=not bool(np.all(np.isfinite(low) & np.isfinite(high))),
        signs=(int(np.sum(sign < 0)), int(np.sum(sign > 0))),
    )


def _collapse_shares(first: list[Quantity], second: list[Quantity], *, confidence: float) -> Difference:
    """Collapse of runs in pairs: exact McNemar test, and a conservative interval of the difference.

    The interval combines an exact one of each share at half the error, so it holds however the pairs depend.
    """
    a = np.array([q.value for q in first], dtype=np.float64)
    b = np.array([q.value for q in second], dtype=np.float64)
    n = a.size
    each = 1 - (1 - confidence) / 2
    left = share_interval(round(float(a.sum())), n, confidence=each)
    right = share_interval(round(float(b.sum())), n, confidence=each)
    assert left is not None  # noqa: S101 - n ≥ 1 here
    assert right is not None  # noqa: S101
    difference = float(np.mean(a - b))
    return Difference(
        n=n,
        estimate=difference,
        interval=Interval(left.low - right.high, left.high - right.low, confidence, confidence),
        p_value=paired.sign_test(a - b) if n > 1 else None,
        direction=int(np.sign(difference)),
        method="exact McNemar test",
    )


def _median(values: FloatArray) -> float:
    """Median of numbers that may be infinite; the middle pair must agree or be finite, else ±inf."""
    ordered = np.sort(values)
    lower, upper = float(ordered[(values.size - 1) // 2]), float(ordered[values.size // 2])
    if math.isfinite(lower) and math.isfinite(upper):
        return (lower + upper) / 2
    return lower if math.isinf(lower) else upper


def _why_nothing(*sides: Iterable[Quantity]) -> str:
    """Why there are no values, in the words of the first run without one; the treatment's before the baseline's."""
    missing = (q.reason for side in sides for q in side if q.value is None and q.reason)
    first = next(missing, "")
    return f" ({first})" if first else ""


def _why_same(described: Variable, first: list[Quantity], second: list[Quantity]) -> str:
    """Say what is equal where no block differs from another."""
    values = [q.value for q in (*first, *second) if q.value is not None]
    if has_no_variation(values):
        return f"{sentences.value(described, values[0])} in every run of both"
    return "the same difference in every block"


def _why_ranks(described: Variable, first: list[Quantity], second: list[Quantity]) -> str:
    among = sum(q.above for q in first), sum(q.above for q in second)
    if any(among):
        return (
            f"the value falls among failures in {among[0]} of {len(first)} runs of the treatment "
            f"and {among[1]} of {len(second)} of the baseline"
        )
    return f"{described.title} is 0 in some runs, so there is no ratio"
