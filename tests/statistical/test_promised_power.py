"""What `plan --power` promises, what *not worse* risks, and how often an analysis of variance sees what is not there.

Seeded and bounded as `test_error_rates`; limits are the promise plus 3.3 Monte Carlo standard errors.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.plans import make_plan
from support.simulation import error, series, times
from towtank.analysis.comparison import compare
from towtank.analysis.power import blocks_to_resolve
from towtank.analysis.variance_terms import analyse_terms

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize(("sd", "claims"), [(0.1, 1), (0.1, 4)])
def test_an_effect_is_found_with_the_power_that_was_promised(sd, claims):
    """At the number of blocks that `plan --power 10%` names for this scatter, verdicts included."""
    target = math.log(1.1)
    level = 1 - 0.05 / claims
    blocks = blocks_to_resolve(sd, difference=target, confidence=level)
    names = ["one", *(f"t{i}" for i in range(claims))]
    plan = make_plan(names, blocks=blocks, matters=0.001)
    n = times(150, 4000)
    found = 0
    for seed in range(n):
        rng = np.random.default_rng([11, claims, seed])
        base = rng.normal(0, 0.3, blocks)
        values = {"p95": {"one": series(np.exp(base))}}
        for name in names[1:]:
            values["p95"][name] = series(np.exp(base - target + rng.normal(0, sd, blocks)))
        verdicts = [c.verdict for c in compare(plan, values) if c.confirmatory]
        assert "worse" not in verdicts
        found += verdicts[0] == "better"
    # Holm's adjustment cannot cost power here: a verdict also needs p ≤ α/m, which is stricter.
    assert 0.8 - error(0.8, n) <= found / n <= 0.83 + error(0.8, n)


def test_not_worse_at_the_margin_is_claimed_in_at_most_half_the_level():
    """The treatment is worse by exactly `matters`: to call it not worse is an error, and one end of a 95 % interval."""
    plan = make_plan(("one", "two"), claim="not-worse", matters=0.05)
    n = times(500, 4000)
    false = 0
    for seed in range(n):
        rng = np.random.default_rng([12, seed])
        base = rng.normal(0, 0.3, 8)
        other = base + math.log(1.05) + rng.normal(0, 0.05, 8)
        values = {"p95": {"one": series(np.exp(base)), "two": series(np.exp(other))}}
        false += compare(plan, values)[0].verdict in ("not worse", "equivalent", "better")
    assert false / n <= 0.025 + error(0.025, n)


def skewed(rng, size):
    return rng.gamma(2, 1, size)


def test_a_factorial_null_finds_each_term_as_rarely_as_promised():
    """Right-skewed runs, strong blocks, 2 × 3 factors, 8 blocks: F and its permutation."""
    n = times(80, 600)
    block, x, z = (a.ravel() for a in np.meshgrid(np.arange(8), np.arange(2), np.arange(3), indexing="ij"))
    terms = [("x",), ("z",), ("x", "z")]
    hits = np.zeros((2, 3))
    for seed in range(n):
        rng = np.random.default_rng([13, seed])
        y = skewed(rng, block.size) + 3 * rng.normal(size=8)[block]
        rows = analyse_terms(y, {"x": x, "z": z}, terms, nuisance=block, rng=rng, permutations=199)
        for i in range(3):
            hits[:, i] += (rows[i].p <= 0.05, rows[i].p_permutation <= 0.05)
    assert np.all(hits / n <= 0.05 + error(0.05, n))


def test_a_split_plot_null_keeps_its_level_where_one_stratum_would_not():
    """Deployments differ although the factor between them does nothing: only their own stratum sees through it."""
    n = times(150, 600)
    block, v, u = (a.ravel() for a in np.meshgrid(np.arange(8), np.arange(2), np.arange(4), indexing="ij"))
    plot = block * 2 + v
    first = np.arange(0, block.size, 4)
    right = naive = within = 0
    for seed in range(n):
        rng = np.random.default_rng([14, seed])
        y = skewed(rng, block.size) + 2 * rng.normal(size=16)[plot]
        means = y.reshape(-1, 4).mean(axis=1)
        quiet = {"rng": rng, "permutations": 0}
        upper = analyse_terms(means, {"v": v[first]}, [("v",)], nuisance=block[first], **quiet)
        right += upper[0].p <= 0.05
        one = analyse_terms(y, {"v": v, "u": u}, [("v",), ("u",), ("v", "u")], nuisance=block, **quiet)
        naive += one[0].p <= 0.05
        lower = analyse_terms(y, {"v": v, "u": u}, [("u",), ("v", "u")], nuisance=plot, **quiet)
        within += lower[0].p <= 0.05
    assert right / n <= 0.05 + error(0.05, n)
    assert within / n <= 0.05 + error(0.05, n)
    assert naive / n > 0.2
