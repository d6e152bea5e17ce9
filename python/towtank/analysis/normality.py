"""Whether per-run values look normal: three tests, descriptive. No method is ever chosen by them.

The method of a comparison is fixed by the design (docs/statistics.md, 3); reviewers ask for these tables all the
same. Mean and standard deviation are estimated from the data, so the Kolmogorov–Smirnov statistic is held against
Lilliefors' distribution: against that of known parameters it would hardly ever reject.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from towtank.analysis.descriptive import described, lying_above
from towtank.analysis.intervals import FloatArray, has_no_variation
from towtank.analysis.model import RunSummary
from towtank.design.plan import Plan

Word = Literal["not normal", "nothing against it", "constant", "too few runs", "cannot be said"]
LEAST = {"shapiro_wilk": 3, "lilliefors": 4, "anderson_darling": 8}
"""Fewest values that each test is defined for: Royston (1995), Lilliefors' table, D'Agostino and Stephens (1986)."""
SMALL = 20
"""With fewer values the tests find only gross departures, so that nothing found means little."""
MOST = 5000
"""Beyond this Royston's approximation of the p-value of Shapiro–Wilk is not to be trusted."""


@dataclass(frozen=True)
class Tested:
    """One test of one sample.

    Parameters
    ----------
    statistic : float or None
        W, D or A².
    p : float or None
    bound : str
        ``"≥"`` or ``"≤"`` where the table ends there: Lilliefors' from 0.001 to 0.2.
    """

    statistic: float | None = None
    p: float | None = None
    bound: str = ""


@dataclass(frozen=True)
class Normality:
    """What three tests say of one variable in one treatment.

    Parameters
    ----------
    n : int
        Runs.
    tests : dict
        shapiro_wilk, lilliefors, anderson_darling.
    word : str
        "not normal" when any test that can be made has p < α; see `Word`.
    reason : str
    """

    treatment_id: str
    variable: str
    n: int
    tests: dict[str, Tested]
    word: Word
    reason: str = ""


def normality_table(
    plan: Plan, counting: Mapping[str, Sequence[RunSummary]], *, alpha: float
) -> tuple[Normality, ...]:
    """Tested every variable of every treatment.

    Parameters
    ----------
    plan, counting
        As `described` takes them.
    alpha : float
        1 − confidence, of each test by itself: the table describes.
    """
    found = []
    for name, by_treatment in described(plan, counting):
        for treatment_id, quantities in by_treatment.items():
            known = [q for q in quantities if q.value is not None]
            if not known:
                continue
            reason = lying_above(known)
            if reason:
                found.append(Normality(treatment_id, name, len(known), _no_tests(), "cannot be said", reason))
                continue
            values = [q.value for q in known if q.value is not None]
            tests, word, reason = judge(values, alpha=alpha)
            found.append(Normality(treatment_id, name, len(values), tests, word, reason))
    return tuple(found)


def judge(values: Sequence[float], *, alpha: float) -> tuple[dict[str, Tested], Word, str]:
    """Tested one sample.

    Parameters
    ----------
    values : sequence of float
        Finite.
    alpha : float

    Returns
    -------
    dict
        Tested → what it says; empty tests where there are too few values.
    str
        The word for all of them.
    str
        What to know about it; may be empty.
    """
    array = np.asarray(values, dtype=np.float64)
    n = array.size
    if n < LEAST["shapiro_wilk"]:
        return _no_tests(), "too few runs", f"{n} {'run' if n == 1 else 'runs'}; the tests need 3, 4 and 8"
    if has_no_variation(array):
        return _no_tests(), "constant", f"the same in all {n} runs: there is no distribution to test"
    tests = {name: test(array) if n >= LEAST[name] else Tested() for name, test in TESTS.items()}
    rejected = any(test.p is not None and test.p < alpha for test in tests.values())
    few = f"{n} runs show only gross departures" if n < SMALL else ""
    return tests, "not normal" if rejected else "nothing against it", "" if rejected else few


def shapiro_wilk(values: FloatArray) -> Tested:
    """Shapiro and Wilk's W with Royston's (1995) p-value, by scipy."""
    if values.size > MOST:
        return Tested()
    found = stats.shapiro(values)
    return _test(found.statistic, found.pvalue)


def lilliefors(values: FloatArray) -> Tested:
    """Kolmogorov and Smirnov's D against Lilliefors' (1967) distribution, by statsmodels' table."""
    from statsmodels.stats.diagnostic import lilliefors as statistic  # noqa: PLC0415 - a second to import

    found = _test(*statistic(values, dist="norm", pvalmethod="table"))
    if found.p is None:
        return found
    bound = "≤" if found.p <= LILLIEFORS_ENDS[0] else "≥" if found.p >= LILLIEFORS_ENDS[1] else ""
    return Tested(found.statistic, found.p, bound)


LILLIEFORS_ENDS = (0.001, 0.2)
"""Smallest and largest p-value of the table."""


def anderson_darling(values: FloatArray) -> Tested:
    """Anderson and Darling's A² with the p-value of D'Agostino and Stephens (1986), by statsmodels."""
    from statsmodels.stats.diagnostic import normal_ad  # noqa: PLC0415

    return _test(*normal_ad(values))


TESTS: Mapping[str, Callable[[FloatArray], Tested]] = {
    "shapiro_wilk": shapiro_wilk, "lilliefors": lilliefors, "anderson_darling": anderson_darling,
}  # fmt: skip


def _test(statistic: float, p: float) -> Tested:
    """A test's numbers; where a library could not reckon, it said nothing."""
    if not (math.isfinite(statistic) and math.isfinite(p)):
        return Tested()
    return Tested(float(statistic), min(max(float(p), 0.0), 1.0))


def _no_tests() -> dict[str, Tested]:
    return dict.fromkeys(TESTS, Tested())
