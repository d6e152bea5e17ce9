"""What makes a verdict: the rules in one place, and the margins that they go by.

The rules of a verdict, in one place
------------------------------------
m = number of primary variables × contrasts, α = 1 − confidence.

- *better*, *worse*: the Holm-adjusted p is at most α **and** the simultaneous interval excludes "no difference".
  That interval has level 1 − α/m, so the second condition is p ≤ α/m (Bonferroni). Holm alone would sometimes claim
  what the interval beside it contradicts; requiring both costs a little power and buys that all intervals and all
  verdicts of the report hold together with probability `confidence`.
- *equivalent*: the same interval lies inside ±`matters`. That is TOST by inclusion (Schuirmann 1987), at the level
  of the shown interval instead of 1 − 2α: stricter, and what the reader sees is what was decided by.
- *not worse*, where the file declares `claim: not-worse`: the end of the same interval on the worse side lies inside
  `matters`. It is one half of *equivalent*, by the same inclusion: non-inferiority at the level of the shown interval.
- *undecided*: everything else, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from towtank.analysis import sentences
from towtank.analysis.differences import Difference
from towtank.analysis.model import Quantity, VerdictWord
from towtank.variables import Variable

GOODPUT_GUARD = 0.01
"""Treatments whose goodput differs by more than a point are not ranked by latencies of successes only."""


def goodput_guard(treatment: Mapping[int, Quantity], baseline: Mapping[int, Quantity]) -> str:
    """Why two treatments must not be ranked by successes only, from their goodput by run; empty when they may."""
    means = []
    for side in (treatment, baseline):
        known = [q.value for q in side.values() if q.value is not None]
        if not known:
            return ""
        means.append(sum(known) / len(known))
    if abs(means[0] - means[1]) <= GOODPUT_GUARD:
        return ""
    return (
        f"goodput differs by more than a point ({sentences.percent(means[0])} against "
        f"{sentences.percent(means[1])}), so latencies of successes only do not rank these treatments"
    )


def share_margin(matters: float) -> float:
    """Largest difference of shares that counts as none: `matters`, but at most one point.

    A share has no useful relative scale near 0 or 1, and a point of goodput is what the guard calls a difference.
    """
    return min(matters, GOODPUT_GUARD)


def margin(described: Variable, matters: float) -> float:
    """Equivalence margin on the scale of comparison; symmetric in logs, so that swapping sides changes nothing."""
    return math.log1p(matters) if described.scale == "log" else share_margin(matters)


def decide(
    described: Variable,
    difference: Difference,
    *,
    p_adjusted: float | None,
    alpha: float,
    level: float,
    matters: float,
    not_worse: bool = False,
) -> VerdictWord:
    """Verdict on one comparison by the rules above.

    Parameters
    ----------
    described : Variable
    difference : Difference
        Its interval is the simultaneous one.
    p_adjusted : float or None
        By Holm.
    alpha : float
        1 − confidence of the family.
    level : float
        1 − α/m, of each interval. A method without an interval is held to p ≤ α/m instead.
    matters : float
    not_worse : bool
        *Not worse* is what the file declares to show.

    Returns
    -------
    VerdictWord
    """
    within = margin(described, matters)
    shown = difference.interval
    word = _by_difference(described, difference, p_adjusted=p_adjusted, alpha=alpha, level=level)
    if shown is not None and not difference.ranks_only and -within <= shown.low and shown.high <= within:
        return "equivalent"
    if word == "undecided" and not_worse and shown is not None and not difference.ranks_only:
        short = shown.high <= within if described.lower_is_better else shown.low >= -within
        return "not worse" if short else word
    return word


def _by_difference(
    described: Variable, difference: Difference, *, p_adjusted: float | None, alpha: float, level: float
) -> VerdictWord:
    """Better or worse, where the difference itself is certain."""
    shown = difference.interval
    if p_adjusted is None or p_adjusted > alpha or difference.direction == 0:
        return "undecided"
    if difference.p_value is None or difference.p_value > 1 - level:
        return "undecided"
    if shown is not None and shown.low <= 0 <= shown.high:
        return "undecided"
    return "better" if (difference.direction < 0) == described.lower_is_better else "worse"
