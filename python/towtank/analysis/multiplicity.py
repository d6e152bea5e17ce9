"""Adjusted p-values of many comparisons at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values of a family by Holm's step-down method: controls the chance of any false claim.

    Parameters
    ----------
    p_values : sequence of float
        0–1; what cannot be tested belongs in as 1, so that dropping it does not make the others easier.

    Returns
    -------
    list of float
        In the order given: with p(1) ≤ … ≤ p(m), max over j ≤ i of min(1, (m − j + 1) p(j)).

    Notes
    -----
    Equal to `statsmodels.stats.multitest.multipletests`, which runs the garbage collector at each call.

    References
    ----------
    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of
    Statistics 6 (2), 65–70.
    """
    ps = np.asarray(p_values, dtype=np.float64)
    if ps.size == 0:
        return []
    if not bool(np.all((ps >= 0) & (ps <= 1))):
        raise ValueError("a p-value is not between 0 and 1")
    order = np.argsort(ps, kind="stable")
    stepped = np.maximum.accumulate(ps[order] * np.arange(ps.size, 0, -1))
    adjusted = np.empty_like(ps)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(p) for p in adjusted]


def false_discovery(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values of an exploratory table: controls the expected share of false discoveries.

    What has no p-value stays None and does not count: nobody can discover it.

    References
    ----------
    Benjamini, Y. and Hochberg, Y. (1995). Controlling the false discovery rate. Journal of the Royal Statistical
    Society B 57 (1), 289–300.
    """
    known = [p for p in p_values if p is not None]
    if not known:
        return [None] * len(p_values)
    adjusted = iter(stats.false_discovery_control(known))
    return [None if p is None else float(next(adjusted)) for p in p_values]
