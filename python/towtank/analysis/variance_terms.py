"""Terms of an analysis of variance: sums of squares of type II by projection, and Freedman–Lane's permutation of each.

A kernel over plain arrays. Terms are given as indicator columns, over-parametrised; ranks say the degrees of freedom,
so that no coding of levels has to be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from towtank.analysis.intervals import FloatArray

IntArray = npt.NDArray[np.int64]
Codes = Mapping[str, IntArray]
"""Factor → number of its level in each run."""
PERMUTATIONS = 1999
_SAME = 1e-9
"""Statistics this close are equal: permutations that change nothing must count as reaching the observed one."""


@dataclass(frozen=True)
class Row:
    """One term.

    Parameters
    ----------
    factors : tuple of str
        Of the term; empty for what is left over.
    df, sum_sq : float
    f, p, p_permutation : float or None
        None where there is nothing to hold a term against.
    """

    factors: tuple[str, ...]
    df: float
    sum_sq: float
    f: float | None = None
    p: float | None = None
    p_permutation: float | None = None


def analyse_terms(
    y: FloatArray,
    codes: Codes,
    terms: Sequence[tuple[str, ...]],
    *,
    nuisance: IntArray | None,
    rng: np.random.Generator,
    permutations: int = PERMUTATIONS,
) -> list[Row] | None:
    """Analyse the variance of y.

    Parameters
    ----------
    y : float array
        One value per run.
    codes : mapping of str to int array
        Factor → level of each run.
    terms : sequence of tuples of str
        Main effects and interactions, by their factors.
    nuisance : int array, optional
        Group of each run (block, or deployment in a block) whose mean is taken out first; runs are exchanged within a
        group only. Without it, all of them.
    rng : numpy.random.Generator
    permutations : int
        0 for none.

    Returns
    -------
    list of Row or None
        The terms in their order, then what is left over. None when nothing is left over, when y does not vary beyond
        the groups, or when a term cannot be told from the others.

    Notes
    -----
    Type II: SS(T) = RSS(all terms that do not contain T) − RSS(those and T), which does not depend on the order of the
    terms (Langsrud 2003); F with the residual of the full model. Freedman and Lane (1983): residuals of the model
    without T are permuted within groups and added to its fit; p = (1 + hits) / (1 + permutations).
    """
    n = y.size
    groups = nuisance if nuisance is not None else np.zeros(n, dtype=np.int64)
    columns = {term: _indicators(_joined(codes, term)) for term in terms}
    base = _indicators(groups)
    full = _basis([base, *columns.values()])
    left = n - full.shape[1]
    rest = _rss(y, full)
    within = _rss(y, _basis([base]))
    if left < 1 or within <= _SAME * float(y @ y):
        return None
    rows = []
    for term in terms:
        others = [columns[other] for other in terms if not set(term) <= set(other)]
        reduced, added = _basis([base, *others]), _basis([base, *others, columns[term]])
        df = added.shape[1] - reduced.shape[1]
        if df < 1:
            return None
        sum_sq = max(_rss(y, reduced) - _rss(y, added), 0.0)
        if rest <= _SAME * within:
            rows.append(Row(term, df, sum_sq))
            continue
        f = (sum_sq / df) / (rest / left)
        drawn = _permuted_f(y, groups, reduced, added, full, rng=rng, count=permutations)
        hits = None if drawn is None else int(np.sum(drawn >= f * (1 - _SAME)))
        check = None if hits is None else (1 + hits) / (1 + permutations)
        rows.append(Row(term, df, sum_sq, f, float(stats.f.sf(f, df, left)), check))
    return [*rows, Row((), left, rest)]


def _permuted_f(
    y: FloatArray,
    groups: IntArray,
    reduced: FloatArray,
    added: FloatArray,
    full: FloatArray,
    *,
    rng: np.random.Generator,
    count: int,
) -> FloatArray | None:
    """F of permuted data, one value each."""
    if count < 1:
        return None
    fit = reduced @ (reduced.T @ y)
    drawn = fit[:, None] + (y - fit)[_shuffles(groups, count, rng)].T
    df, left = added.shape[1] - reduced.shape[1], y.size - full.shape[1]
    total = np.sum(drawn**2, axis=0)

    def rss(basis: FloatArray) -> FloatArray:
        left_over: FloatArray = np.maximum(total - np.sum((basis.T @ drawn) ** 2, axis=0), 0.0)
        return left_over

    rest = np.maximum(rss(full), np.finfo(float).tiny)
    found: FloatArray = ((rss(reduced) - rss(added)) / df) / (rest / left)
    return found


def _shuffles(groups: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Orders of all runs that exchange them within their groups only, one a row."""
    keys = rng.random((count, groups.size))
    shuffled = np.lexsort((keys, np.broadcast_to(groups, keys.shape)), axis=1)
    places = np.argsort(groups, kind="stable")
    orders = np.empty_like(shuffled)
    orders[:, places] = shuffled
    return orders


def _joined(codes: Codes, term: tuple[str, ...]) -> IntArray:
    """Number of the combination of levels in each run."""
    stacked = np.stack([codes[factor] for factor in term], axis=1)
    return np.unique(stacked, axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def _indicators(codes: IntArray) -> FloatArray:
    columns: FloatArray = (codes[:, None] == np.unique(codes)[None, :]).astype(np.float64)
    return columns


def _basis(parts: Sequence[FloatArray]) -> FloatArray:
    """Orthonormal basis of the space that the columns span."""
    matrix = np.concatenate(parts, axis=1)
    left, size, _ = np.linalg.svd(matrix, full_matrices=False)
    basis: FloatArray = left[:, size > size[0] * max(matrix.shape) * np.finfo(float).eps * 10]
    return basis


def _rss(y: FloatArray, basis: FloatArray) -> float:
    left_over = y - basis @ (basis.T @ y)
    return float(left_over @ left_over)
