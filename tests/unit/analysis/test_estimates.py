"""A treatment's estimate over its runs."""

import numpy as np
import pytest

from towtank.analysis import Quantity
from towtank.analysis.estimates import bootstrap_check, estimate, median_estimate
from towtank.variables import variable

P95 = variable("p95")


def quantities(*values):
    return [v if isinstance(v, Quantity) else Quantity(v) for v in values]


def found(*values, name="p95"):
    return estimate(variable(name), quantities(*values), confidence=0.95)


def test_mean_and_t_interval():
    got = found(1.0, 2.0, 3.0)
    assert (got.mean, got.n, got.method) == (2.0, 3, "t")
    assert (got.low, got.high) == (0.0, pytest.approx(2 + 4.302653 / np.sqrt(3)))  # −0.48 is no latency
    assert found(0.99, 1.0, 0.98, name="goodput").high == 1.0


def test_one_run_none_and_no_variation_are_named():
    assert (found(1.0).mean, found(1.0).low) == (1.0, None)
    assert "one run" in found(1.0).reason
    assert found().mean is None
    assert found().reason == "no valid runs"
    constant = found(1.0, 1.0, 1.0)
    assert (constant.method, constant.low) == ("constant", None)
    assert "no variation" in constant.reason


def test_a_count_is_told_with_its_range_and_no_interval():
    got = found(4.0, 4.0, 40.0, name="requests")  # of 40 at most: t would say 0 to 67.6
    assert (got.mean, got.low, got.high, got.method) == (16.0, None, None, "range")
    assert got.reason.startswith("4 to 40 in 3 runs")
    assert found(40.0, 40.0, name="requests").method == "constant"


def test_a_censored_run_makes_the_mean_a_lower_bound():
    got = found(1.0, 2.0, Quantity(5.0, above=True))
    assert got.above
    assert got.mean == pytest.approx(8 / 3)
    assert (got.low, got.high) == (None, None)
    assert "1 of 3 runs" in got.reason


def test_lost_values_are_told():
    got = found(1.0, 2.0, Quantity(None, reason="no samples"))
    assert got.n == 2
    assert "1 of 3 runs have no value" in got.reason


def test_collapse_share_has_the_exact_interval():
    got = found(1.0, 0.0, 0.0, 0.0, 0.0, name="collapsed")
    assert got.mean == 0.2
    assert (got.low, got.high) == (pytest.approx(1 - 0.975**0.2), pytest.approx(0.7164, abs=1e-4))


def test_median_over_runs_copes_with_censoring():
    values = quantities(*range(1, 8), Quantity(9.0, above=True))
    got = median_estimate(P95, values, confidence=0.95)
    assert (got.mean, got.low, got.high) == (4.5, 1, None)
    assert "failures" in got.reason
    most = median_estimate(P95, quantities(1.0, *[Quantity(9.0, above=True)] * 5), confidence=0.95)
    assert (most.above, most.mean) == (True, 9.0)
    few = median_estimate(P95, quantities(1.0, 2.0, 3.0), confidence=0.95)
    assert "too few" in few.reason
    assert median_estimate(P95, [], confidence=0.95).mean is None


def test_bootstrap_from_twenty_uncensored_runs(rng):
    values = quantities(*np.exp(rng.normal(0, 0.1, 20)))
    assert bootstrap_check(values[:19], confidence=0.95, rng=rng) is None
    low, high = bootstrap_check(values, confidence=0.95, rng=rng)
    assert low < np.mean([q.value for q in values]) < high
    assert bootstrap_check([*values, Quantity(9.0, above=True)], confidence=0.95, rng=rng) is None
