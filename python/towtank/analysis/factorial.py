"""Several factors: analysis of variance on logs with a block term. Exploratory.

It says which factors and interactions move a variable most; claims about single contrasts stay with the
confirmatory family.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping

import numpy as np
import pandas as pd

from towtank.analysis.model import Quantity
from towtank.design.plan import Plan
from towtank.variables import variable

COLUMNS = ("variable", "term", "df", "sum_sq", "f", "p", "share")


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
        variable, term, df, sum_sq, f, p, share (of the sum of squares). Empty with fewer than two factors. A
        variable with censored values, zeros under a log, or too few runs for its terms is left out.

    Notes
    -----
    Model: log value ~ block + all main effects and two-way interactions; type II sums of squares (Langsrud 2003) do
    not depend on the order of the factors.
    """
    factors = [f for f, levels in _levels(plan).items() if len(levels) > 1]
    if len(factors) < 2:
        return pd.DataFrame(columns=list(COLUMNS))
    tables = [_anova(plan, name, values.get(name, {}), factors) for name in names]
    found = [table for table in tables if table is not None]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=list(COLUMNS))


def _levels(plan: Plan) -> dict[str, set[str]]:
    levels: dict[str, set[str]] = {}
    for treatment in plan.treatments:
        for factor, level in treatment.levels.items():
            levels.setdefault(factor, set()).add(str(level))
    return levels


def _anova(
    plan: Plan, name: str, by_treatment: Mapping[str, Mapping[int, Quantity]], factors: list[str]
) -> pd.DataFrame | None:
    # A second to import, and most experiments have one factor.
    import statsmodels.formula.api as smf  # noqa: PLC0415
    from statsmodels.stats.anova import anova_lm  # noqa: PLC0415

    data = _responses(plan, name, by_treatment, factors)
    if data is None:
        return None
    columns = [f"f{i}" for i in range(len(factors))]
    terms = [f"C({c})" for c in columns]
    pairs = [f"{a}:{b}" for i, a in enumerate(terms) for b in terms[i + 1 :]]
    block = ["C(block)"] if plan.experiment.order != "listed" and data["block"].nunique() > 1 else []
    formula = "y ~ " + " + ".join((*block, *terms, *pairs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rank deficiency is looked at below
        fitted = smf.ols(formula, data=data).fit()
        if fitted.df_resid < 1 or fitted.model.rank < fitted.model.exog.shape[1]:
            return None
        table = anova_lm(fitted, typ=2)
    total = float(table["sum_sq"].sum())
    if not total > 0:
        return None
    renamed = {term: _readable(term, columns, factors) for term in table.index}
    return pd.DataFrame(
        {
            "variable": name,
            "term": [renamed[term] for term in table.index],
            "df": table["df"].to_numpy(dtype=float),
            "sum_sq": table["sum_sq"].to_numpy(dtype=float),
            "f": table["F"].to_numpy(dtype=float),
            "p": table["PR(>F)"].to_numpy(dtype=float),
            "share": table["sum_sq"].to_numpy(dtype=float) / total,
        }
    )


def _responses(
    plan: Plan, name: str, by_treatment: Mapping[str, Mapping[int, Quantity]], factors: list[str]
) -> pd.DataFrame | None:
    """Long table of responses on the scale of comparison; None when some cannot be reckoned with."""
    described = variable(name)
    rows = []
    for treatment in plan.treatments:
        for block, quantity in by_treatment.get(treatment.id, {}).items():
            value = quantity.value
            if value is None or quantity.above or (described.scale == "log" and value <= 0):
                return None
            y = math.log(value) if described.scale == "log" else value
            levels = {f"f{i}": str(treatment.levels[f]) for i, f in enumerate(factors)}
            rows.append({"y": y, "block": block, **levels})
    if not rows or np.ptp([row["y"] for row in rows]) == 0:
        return None
    return pd.DataFrame(rows)


def _readable(term: str, columns: list[str], factors: list[str]) -> str:
    if term == "Residual":
        return "rest"
    parts = [part.removeprefix("C(").removesuffix(")") for part in term.split(":")]
    return " × ".join("block" if p == "block" else factors[columns.index(p)] for p in parts)
