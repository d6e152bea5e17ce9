"""Thinned ECDFs and percentile lines, SLOs, analysis of variance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.plans import make_plan
from towtank.analysis import Distribution, Quantity
from towtank.analysis.ecdf import ecdf, percentile_line
from towtank.analysis.factorial import factorial_table
from towtank.analysis.slo import all_held, holds
from towtank.variables import variable


@given(st.integers(1, 5000), st.integers(0, 50), st.integers(0, 2**32))
def test_ecdf_is_thin_exact_and_keeps_the_ends(n, failures, seed):
    values = np.exp(np.random.default_rng(seed).normal(9, 1.5, n)).astype(np.int64)
    latency = Distribution.of(values, failures=failures)
    line = ecdf(latency)
    assert 1 <= len(line) <= 400
    assert line["latency_s"].is_monotonic_increasing
    assert line["share"].is_monotonic_increasing
    assert line["latency_s"].iloc[0] == pytest.approx(values.min() * 1e-6)
    assert line["latency_s"].iloc[-1] == pytest.approx(values.max() * 1e-6)
    assert line["share"].iloc[-1] == pytest.approx(n / (n + failures))
    at = np.rint(line["latency_s"].to_numpy() * 1e6).astype(np.int64)
    within = np.searchsorted(np.sort(values), at, side="right")
    assert line["share"].to_numpy() == pytest.approx(within / (n + failures))


def test_ecdf_keeps_the_tail():
    values = np.concatenate((np.arange(1, 100_000), [10**6, 10**7, 10**8]))
    line = ecdf(Distribution.of(values))
    assert {1.0, 10.0, 100.0} <= set(np.round(line["latency_s"], 6))


def test_ecdf_of_nothing_is_empty():
    assert ecdf(Distribution.of([], failures=3)).empty
    with pytest.raises(ValueError, match="10 or more"):
        ecdf(Distribution.of([1]), most_points=3)


def test_percentile_line_stops_where_requests_end():
    line = percentile_line(Distribution.of(np.arange(1, 1001), failures=20)).set_index("percentile")[
        "latency_s"
    ]
    assert 99.9 in line.index
    assert 99.99 not in line.index  # 1020 requests: fewer than one beyond
    assert np.isnan(line[99.0])
    assert line[50.0] == pytest.approx(510.5e-6)


@pytest.mark.parametrize(
    ("name", "quantity", "bound", "held"),
    [
        ("p95", Quantity(0.3), 0.3, True),
        ("p95", Quantity(0.31), 0.3, False),
        ("p95", Quantity(5.0, above=True), 30.0, False),
        ("goodput", Quantity(0.999), 0.999, True),
        ("goodput", Quantity(0.9), 0.999, False),
        ("p95", Quantity(None), 0.3, None),
    ],
)
def test_bounds(name, quantity, bound, held):
    assert holds(variable(name), quantity, bound) is held


def test_no_slo_is_not_held():
    import pandas as pd

    assert all_held(pd.DataFrame({"held": []})) is None
    assert all_held(pd.DataFrame({"held": [True, True]})) is True
    assert all_held(pd.DataFrame({"held": [True, None]})) is None, (
        "what is not known was neither held nor missed"
    )
    assert all_held(pd.DataFrame({"held": [None, False]})) is False


def test_anova_finds_the_factor_that_was_planted():
    levels = {f"{d}{u}": {"deployment": d, "users": u} for d in "ab" for u in (1, 2, 3)}
    plan = make_plan(levels, baseline="a")
    rng = np.random.default_rng(1)
    block = rng.normal(0, 0.3, 9)
    values = {
        "p95": {
            name: {
                i: Quantity(float(np.exp(0.4 * (of["deployment"] == "b") + block[i] + rng.normal(0, 0.05))))
                for i in range(1, 9)
            }
            for name, of in levels.items()
        }
    }
    table = factorial_table(plan, values, names=("p95", "throughput")).set_index("term")
    assert table.loc["deployment", "p"] < 1e-10
    assert table.loc["users", "p"] > 0.01
    assert table.loc["block", "share"] > table.loc["users", "share"]
    assert set(table.index) == {"block", "deployment", "users", "deployment × users", "rest"}
    assert table["share"].sum() == pytest.approx(1)
    assert table.loc["deployment", "df"] == 1


def test_anova_needs_two_factors_and_numbers():
    assert factorial_table(make_plan(), {}, names=("p95",)).empty
    levels = {f"{d}{u}": {"deployment": d, "users": u} for d in "ab" for u in (1, 2)}
    above = {"p95": {name: {1: Quantity(5.0, above=True)} for name in levels}}
    assert factorial_table(make_plan(levels, baseline="a"), above, names=("p95",)).empty
    single = {"p95": {name: {1: Quantity(float(i + 1))} for i, name in enumerate(levels)}}
    assert factorial_table(make_plan(levels, baseline="a"), single, names=("p95",)).empty  # no rest left
