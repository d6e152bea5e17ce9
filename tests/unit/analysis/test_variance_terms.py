"""Sums of squares against statsmodels and published values; permutation; strata of shared deployments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

from support.plans import make_plan
from towtank.analysis import Quantity
from towtank.analysis.factorial import BETWEEN, WITHIN, factorial_table, whole_plot_factors
from towtank.analysis.variance_terms import analyse_terms

OATS = """
111 130 157 174 117 114 161 141 105 140 118 156 61 91 97 100 70 108 126 149 96 124 121 144
68 64 112 86 60 102 89 96 89 129 132 124 74 89 81 122 64 103 132 133 70 89 104 117
62 90 100 116 80 82 94 126 63 70 109 99 53 74 118 113 89 82 86 104 97 99 119 121
"""
"""Yates (1935): yield of oats, 6 blocks × 3 varieties (whole plots) × 4 amounts of nitrogen; R's MASS::oats, in
order of block, variety (Victory, Golden rain, Marvellous), nitrogen."""


def row_of(rows, *factors):
    return next(row for row in rows if row.factors == factors)


@pytest.mark.parametrize("missing", [0, 5])
def test_type_ii_sums_are_those_of_statsmodels(missing):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        [(b, x, z) for b in range(6) for x in range(2) for z in range(3)], columns=["b", "x", "z"]
    )
    frame["y"] = (
        rng.normal(size=len(frame)) + 0.7 * frame["x"] + 0.4 * frame["x"] * (frame["z"] == 2) + frame["b"]
    )
    frame = frame.drop(index=frame.index[[3, 11, 17, 25, 30][:missing]]).reset_index(drop=True)
    rows = analyse_terms(
        frame["y"].to_numpy(), {"x": frame["x"].to_numpy(), "z": frame["z"].to_numpy()}, [("x",), ("z",), ("x", "z")],
        nuisance=frame["b"].to_numpy(), rng=rng, permutations=0,
    )  # fmt: skip
    table = anova_lm(smf.ols("y ~ C(b) + C(x) + C(z) + C(x):C(z)", data=frame).fit(), typ=2)
    for factors, name in (
        (("x",), "C(x)"), (("z",), "C(z)"), (("x", "z"), "C(x):C(z)"), ((), "Residual"),
    ):  # fmt: skip
        row = row_of(rows, *factors)
        assert (row.df, row.sum_sq) == pytest.approx((table.loc[name, "df"], table.loc[name, "sum_sq"]))
        if factors:
            assert (row.f, row.p) == pytest.approx((table.loc[name, "F"], table.loc[name, "PR(>F)"]))


def test_permutation_agrees_with_f_on_normal_data_and_finds_what_is_there():
    rng = np.random.default_rng(8)
    block, x = np.repeat(np.arange(10), 4), np.tile([0, 0, 1, 1], 10)
    z = np.tile([0, 1, 0, 1], 10)
    y = rng.normal(size=40) + block + 0.6 * x
    rows = analyse_terms(y, {"x": x, "z": z}, [("x",), ("z",), ("x", "z")], nuisance=block, rng=rng)
    for factors in (("x",), ("z",), ("x", "z")):
        row = row_of(rows, *factors)
        assert row.p_permutation == pytest.approx(row.p, abs=0.04)
        assert row.p_permutation >= 1 / 2000
    strong = analyse_terms(y + 5 * x, {"x": x, "z": z}, [("x",), ("z",)], nuisance=block, rng=rng)
    assert row_of(strong, "x").p_permutation == pytest.approx(1 / 2000)


def test_nothing_left_over_or_no_variation_is_none():
    rng = np.random.default_rng(1)
    x, z = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    codes = {"x": x, "z": z}
    terms = [("x",), ("z",), ("x", "z")]
    assert analyse_terms(np.array([1.0, 2, 3, 5]), codes, terms, nuisance=None, rng=rng) is None
    assert analyse_terms(np.ones(8), {"x": np.tile(x, 2)}, [("x",)], nuisance=None, rng=rng) is None
    confounded = {"x": np.tile(x, 2), "z": np.tile(x, 2)}
    assert analyse_terms(rng.normal(size=8), confounded, [("x",), ("z",)], nuisance=None, rng=rng) is None


def split_plot(deploy="per-block"):
    """3 deployments, each with 4 levels of load on it: the shape of Yates' oats."""
    levels = {
        f"{v}{n}": {"deployment": v, "users": n}
        for v in ("victory", "golden", "marvellous")
        for n in range(4)
    }
    plan = make_plan(levels, blocks=6, baseline="victory0")
    first = {t.levels["deployment"]: t.spec.deployment for t in reversed(plan.treatments)}
    shared = tuple(
        replace(
            t, spec=t.spec.model_copy(update={"deployment": first[t.levels["deployment"]], "deploy": deploy})
        )
        for t in plan.treatments
    )
    return replace(plan, treatments=shared)


def oats(plan):
    numbers = np.array(OATS.split(), dtype=float)
    values = {t.id: {} for t in plan.treatments}
    order = [(b, v, n) for b in range(1, 7) for v in ("victory", "golden", "marvellous") for n in range(4)]
    for (block, variety, nitrogen), y in zip(order, numbers, strict=True):
        values[f"{variety}{nitrogen}"][block] = Quantity(y / 1000)
    return {"goodput": values}  # a share is compared by plain differences, as the yield was


def test_split_plot_is_yates_analysis():
    """Published (Yates 1935; R: aov(Y ~ N*V + Error(B/V))): varieties F(2, 10) = 1.49, nitrogen F(3, 45) = 37.69."""
    plan = split_plot()
    assert whole_plot_factors(plan) == ("deployment",)
    table = factorial_table(plan, oats(plan), names=("goodput",)).set_index(["stratum", "term"])
    variety = table.loc[(BETWEEN, "deployment")]
    assert (variety["df"], variety["f"], variety["p"]) == pytest.approx((2, 1.485, 0.272), abs=0.001)
    assert table.loc[(BETWEEN, "rest"), "df"] == 10
    assert table.loc[(BETWEEN, "rest"), "sum_sq"] * 1e6 == pytest.approx(6013, abs=1)
    nitrogen = table.loc[(WITHIN, "users")]
    assert (nitrogen["df"], nitrogen["f"]) == pytest.approx((3, 37.686), abs=0.001)
    both = table.loc[(WITHIN, "deployment × users")]
    assert (both["df"], both["f"], both["p"]) == pytest.approx((6, 0.3028, 0.932), abs=0.001)
    assert table.loc[(WITHIN, "rest"), "df"] == 45
    assert table.loc[(WITHIN, "rest"), "sum_sq"] * 1e6 == pytest.approx(7968.75, abs=1)
    assert table["share"].sum() == pytest.approx(1)
    assert nitrogen["p_permutation"] == pytest.approx(1 / 2000)
    assert variety["p_permutation"] == pytest.approx(variety["p"], abs=0.05)


def test_a_single_deployment_of_each_level_tests_nothing_between_them():
    plan = split_plot("once")
    table = factorial_table(plan, oats(plan), names=("goodput",)).set_index(["stratum", "term"])
    assert pd.isna(table.loc[(BETWEEN, "deployment"), "p"])
    assert "one deployment of each level" in table.loc[(BETWEEN, "deployment"), "reason"]
    assert table.loc[(WITHIN, "users"), "f"] == pytest.approx(37.686, abs=0.001)


def test_a_lost_run_costs_its_block_in_a_split_plot():
    plan = split_plot()
    values = oats(plan)
    del values["goodput"]["golden2"][4]
    table = factorial_table(plan, values, names=("goodput",)).set_index(["stratum", "term"])
    assert table.loc[(BETWEEN, "rest"), "df"] == 8


def test_runs_with_deployments_of_their_own_are_one_stratum():
    plan = split_plot("per-run")
    assert whole_plot_factors(plan) == ()
    table = factorial_table(plan, oats(plan), names=("goodput",))
    assert set(table["stratum"]) == {""}
