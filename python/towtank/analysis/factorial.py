"""Several factors: analysis of variance on logs, in the strata that the lifetimes of deployments make. Exploratory.

It says which factors and interactions move a variable most; claims about single contrasts stay with the
confirmatory family.

Where a deployment outlives a run, several runs share it, and what is special about that one deployment is in all of
them. A factor that changes with the deployment (a whole-plot factor) is then held against the variation between
deployments, a factor that changes within one (a sub-plot factor) against the variation between its runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from towtank.analysis.intervals import FloatArray
from towtank.analysis.model import Quantity
from towtank.analysis.variance_terms import IntArray, Row, analyse_terms
from towtank.design.plan import Plan, Treatment

COLUMNS = (
    "variable", "stratum", "term", "df", "sum_sq", "f", "p", "p_permutation", "share", "reason",
)  # fmt: skip
BETWEEN, WITHIN = "between deployments", "within deployments"


def factorial_table(
    plan: Plan, values: Mapping[str, Mapping[str, Mapping[int, Quantity]]], *, names: tuple[str, ...]
) -> pd.DataFrame:
    """Analysis of variance of each variable over the factors that have more than one level.

    Parameters
    ----------
    plan : Plan
    values : mapping
        variable → treatment id → block → value.
    names : tuple of str
        Variables to look at.

    Returns
    -------
    DataFrame
        variable, stratum, term, df, sum_sq, f, p, p_permutation (Freedman–Lane's, a check), share (of the sum of
        squares), reason. Empty with fewer than two factors. A variable with censored values, zeros under a log, or too
        few runs for its terms is left out.

    Notes
    -----
    Model: log value ~ block + all main effects and two-way interactions, type II. With deployments that live for a
    block, deployment × block is the error of the factors between deployments; with deployments that live as long as
    the experiment there is none, and they are not tested. Split plots take complete blocks only.
    """
    factors = [f for f, levels in _levels(plan).items() if len(levels) > 1]
    if len(factors) < 2:
        return pd.DataFrame(columns=list(COLUMNS))
    found = [
        table for name in names if (table := _table(plan, name, values.get(name, {}), factors)) is not None
    ]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=list(COLUMNS))


def whole_plot_factors(plan: Plan) -> tuple[str, ...]:
    """Factors that change with the deployment, where several treatments share one that outlives a run; else none."""
    plots: dict[int, list[Treatment]] = {}
    for treatment, plot in zip(plan.treatments, _plots(plan.treatments), strict=True):
        plots.setdefault(plot, []).append(treatment)
    shared = [of for of in plots.values() if len(of) > 1 and of[0].spec.deploy != "per-run"]
    if not shared or len(plots) < 2:
        return ()
    within = {
        factor for of in shared for factor in of[0].levels if len({str(t.levels.get(factor)) for t in of}) > 1
    }
    return tuple(f for f, levels in _levels(plan).items() if len(levels) > 1 and f not in within)


def _plots(treatments: Sequence[Treatment]) -> list[int]:
    """Number of the deployment that each treatment runs on, were all of them in one block."""
    known: list[tuple[str, object]] = []
    numbers = []
    for treatment in treatments:
        key = (treatment.spec.deployment_name, treatment.spec.deployment)
        if key not in known:
            known.append(key)
        numbers.append(known.index(key))
    return numbers


def _levels(plan: Plan) -> dict[str, set[str]]:
    levels: dict[str, set[str]] = {}
    for treatment in plan.treatments:
        for factor, level in treatment.levels.items():
            levels.setdefault(factor, set()).add(str(level))
    return levels


@dataclass(frozen=True, eq=False)
class _Runs:
    """Values of all runs on the scale of comparison, with the levels, block and deployment of each."""

    y: FloatArray
    codes: dict[str, IntArray]
    block: IntArray
    plot: IntArray


def _table(
    plan: Plan, name: str, by_treatment: Mapping[str, Mapping[int, Quantity]], factors: list[str]
) -> pd.DataFrame | None:
    whole = [f for f in whole_plot_factors(plan) if f in factors]
    runs = _responses(plan, name, by_treatment, factors, complete=bool(whole))
    if runs is None:
        return None
    rng = np.random.default_rng([plan.experiment.seed, len(name)])
    strata = list(_split(plan, runs, whole, factors, rng) if whole else _single(plan, runs, factors, rng))
    rows = [(stratum, row, reason) for stratum, found, reason in strata for row in found]
    total = sum(row.sum_sq for _, row, _ in rows)
    if not rows or not total > 0:
        return None
    return pd.DataFrame(
        [
            (
                name, stratum, _readable(row), row.df, row.sum_sq, row.f, row.p, row.p_permutation,
                row.sum_sq / total, reason if row.f is None and row.factors not in _UNTESTED else "",
            )
            for stratum, row, reason in rows
        ],
        columns=list(COLUMNS),
    )  # fmt: skip


_BLOCK = ("block",)
_UNTESTED = ((), _BLOCK)
_Stratum = tuple[str, list[Row], str]


def _single(plan: Plan, runs: _Runs, factors: list[str], rng: np.random.Generator) -> Iterator[_Stratum]:
    """Every run has a deployment of its own: one stratum."""
    blocked = plan.experiment.order != "listed" and np.unique(runs.block).size > 1
    groups = runs.block if blocked else None
    found = analyse_terms(runs.y, runs.codes, _terms(factors), nuisance=groups, rng=rng)
    if found is not None:
        yield "", [*([_block_row(runs.y, runs.block)] if blocked else []), *found], ""


def _split(
    plan: Plan, runs: _Runs, whole: list[str], factors: list[str], rng: np.random.Generator
) -> Iterator[_Stratum]:
    """Two strata: means of deployments in their blocks, and runs within them."""
    once = any(t.spec.deploy == "once" for t in plan.treatments)
    plots, plot = np.unique(np.stack([runs.block, runs.plot], axis=1), axis=0, return_inverse=True)
    plot = plot.ravel().astype(np.int64)
    size = runs.y.size / len(plots)
    first = np.array([int(np.argmax(plot == number)) for number in range(len(plots))])
    means = np.array([runs.y[plot == number].mean() for number in range(len(plots))])
    codes = {factor: runs.codes[factor][first] for factor in whole}
    blocks = plots[:, 0].astype(np.int64)
    upper = analyse_terms(
        means, codes, _terms(whole), nuisance=blocks, rng=rng, permutations=0 if once else 1999
    )
    if upper is not None:
        scaled = [_scaled(row, size, tested=not once) for row in upper]
        reason = (
            "one deployment of each level: nothing is known of the variation between deployments"
            if once
            else "nothing to hold it against"
        )
        yield BETWEEN, [_scaled(_block_row(means, blocks), size, tested=True), *scaled], reason
    inner = [term for term in _terms(factors) if not set(term) <= set(whole)]
    lower = analyse_terms(runs.y, runs.codes, inner, nuisance=plot, rng=rng)
    if lower is not None:
        yield WITHIN, lower, ""


def _scaled(row: Row, size: float, *, tested: bool) -> Row:
    """A row over means of `size` runs, as one over runs."""
    f, p, check = (row.f, row.p, row.p_permutation) if tested else (None, None, None)
    return Row(row.factors, row.df, row.sum_sq * size, f, p, check)


def _terms(factors: Sequence[str]) -> list[tuple[str, ...]]:
    return [*((f,) for f in factors), *combinations(factors, 2)]


def _block_row(y: FloatArray, block: IntArray) -> Row:
    """Variation between blocks; not tested, since they are there to be taken out."""
    groups = [y[block == number] for number in np.unique(block)]
    spread = sum(group.size * float(group.mean() - y.mean()) ** 2 for group in groups)
    return Row(_BLOCK, len(groups) - 1, spread)


def _responses(
    plan: Plan,
    name: str,
    by_treatment: Mapping[str, Mapping[int, Quantity]],
    factors: list[str],
    *,
    complete: bool,
) -> _Runs | None:
    """All runs on the scale of comparison, or those of complete blocks; None when some cannot be reckoned with."""
    described = plan.experiment.variable(name)
    plots = _plots(plan.treatments)
    everywhere = set.intersection(*(set(by_treatment.get(t.id, {})) for t in plan.treatments))
    rows: list[tuple[float, int, int, Treatment]] = []
    for treatment, plot in zip(plan.treatments, plots, strict=True):
        for block, quantity in by_treatment.get(treatment.id, {}).items():
            if complete and block not in everywhere:
                continue
            value = quantity.value
            if value is None or quantity.above or (described.scale == "log" and value <= 0):
                return None
            rows.append((math.log(value) if described.scale == "log" else value, block, plot, treatment))
    y = np.array([row[0] for row in rows], dtype=np.float64)
    if not rows or np.ptp(y) == 0:
        return None
    codes = {
        factor: np.unique([str(row[3].levels.get(factor)) for row in rows], return_inverse=True)[1].astype(
            np.int64
        )
        for factor in factors
    }
    blocks, deployments = (np.array([row[i] for row in rows], dtype=np.int64) for i in (1, 2))
    return _Runs(y, codes, blocks, deployments)


def _readable(row: Row) -> str:
    return " × ".join(row.factors) or "rest"
