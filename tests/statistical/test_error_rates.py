"""Whole simulated experiments: how often the statistics claim what is not there, and find what is.

`make test` runs a bounded set; `TOWTANK_STATISTICAL=full` (what `make test-stat` sets) runs ten times as many, seeded
either way. Limits are the promise plus Monte Carlo error (3.3 standard errors: a false alarm in 1,000).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from support.plans import make_plan
from support.simulation import FULL, error, series, times
from towtank.analysis import Quantity, final_blocks
from towtank.analysis.comparison import compare
from towtank.analysis.differences import between_blocks, between_samples
from towtank.analysis.independent import welch
from towtank.analysis.intervals import bootstrap_interval, median_interval
from towtank.design.model import Adaptive
from towtank.variables import variable

pytestmark = pytest.mark.statistical

P95, COLLAPSED = variable("p95"), variable("collapsed")


def skewed_runs(rng, blocks: int, treatments: int, *, run_sd: float = 0.15):
    """Per-run p95s of one system: a block's own weather times a right-skewed factor of each run.

    A run's factor is exp of a gamma variable (shape 2): p95s of short runs have such tails.
    """
    weather = np.exp(rng.normal(0, 0.3, (blocks, 1)))
    return weather * np.exp(run_sd / math.sqrt(2) * rng.gamma(2, 1, (blocks, treatments)))


def claims(plan, tables) -> list:
    values = {
        name: {t.id: series(table[:, t.index]) for t in plan.treatments} for name, table in tables.items()
    }
    return [c for c in compare(plan, values) if c.confirmatory]


@pytest.mark.timeout(400)
def test_null_experiments_make_false_claims_in_at_most_five_percent():
    """1,000 experiments in which all treatments are the same: any better or worse is false."""
    plan = make_plan(("one", "two", "three"), primary=["p95", "throughput"])
    n = times(150, 1000)
    false = 0
    for seed in range(n):
        rng = np.random.default_rng([1, seed])
        # The second variable moves with the first, as throughput does with latency.
        p95 = skewed_runs(rng, 8, 3)
        tables = {"p95": p95, "throughput": 100 / p95**0.5 * np.exp(rng.normal(0, 0.05, p95.shape))}
        false += any(c.verdict in ("better", "worse") for c in claims(plan, tables))
    assert false / n <= 0.05 + error(0.05, n), f"{false} of {n} null experiments made a claim"


@pytest.mark.timeout(400)
def test_null_experiments_with_failures_and_collapses_keep_the_level():
    """Some runs fall among failures at random: signs decide, and may not claim more often."""
    plan = make_plan(("one", "two"), blocks=8)
    n = times(300, 2000)
    false = 0
    for seed in range(n):
        rng = np.random.default_rng([2, seed])
        table = skewed_runs(rng, 8, 2)
        failed = rng.random(table.shape) < 0.2
        values = {
            "p95": {
                t.id: {
                    b + 1: Quantity(5.0, above=True) if failed[b, t.index] else Quantity(table[b, t.index])
                    for b in range(8)
                }
                for t in plan.treatments
            }
        }
        false += compare(plan, values)[0].verdict in ("better", "worse")
    assert false / n <= 0.05 + error(0.05, n)


@pytest.mark.parametrize("blocks", [5, 8, 10, 20, 30])
def test_blocked_intervals_cover_95_percent(blocks):
    """95 ± 1.5 %, whatever the shape of a run's own variation, because differences of like runs are symmetric."""
    n = times(2000, 20_000)
    true = math.log(0.8)
    hit = 0
    for seed in range(n):
        rng = np.random.default_rng([3, blocks, seed])
        table = skewed_runs(rng, blocks, 2)
        d = np.log(table[:, 0] * 0.8 / table[:, 1])
        half = stats.t.ppf(0.975, blocks - 1) * d.std(ddof=1) / math.sqrt(blocks)
        hit += abs(d.mean() - true) <= half
        if seed < 50:  # the shortcut above is the interval of the code
            found = between_blocks(
                P95, series(table[:, 0] * 0.8), series(table[:, 1]), confidence=0.95, rng=rng
            )
            assert (found.interval.low, found.interval.high) == pytest.approx(
                (d.mean() - half, d.mean() + half)
            )
    assert abs(hit / n - 0.95) <= 0.015 + (0 if FULL else error(0.95, n) - 0.005)


def test_planted_effects_are_found():
    """A p95 that is a quarter lower, with 10 % variation between runs: found in 8 blocks nearly always."""
    plan = make_plan(("one", "two", "three"), primary=["p95"])
    n = times(60, 400)
    found = wrong = 0
    for seed in range(n):
        rng = np.random.default_rng([4, seed])
        table = skewed_runs(rng, 8, 3, run_sd=0.1) * np.array([1.0, 0.75, 1 / 0.75])
        two, three = claims(plan, {"p95": table})
        found += (two.verdict == "better") + (three.verdict == "worse")
        wrong += (two.verdict == "worse") + (three.verdict == "better")
    assert found / (2 * n) >= 0.9
    assert wrong == 0


def test_equivalence_is_wrong_in_at_most_five_percent():
    """At a true difference exactly at the margin, "equivalent" is an error; far inside, it is found."""
    plan = make_plan(matters=0.05)
    n = times(400, 3000)
    wrong = right = 0
    for seed in range(n):
        rng = np.random.default_rng([5, seed])
        table = skewed_runs(rng, 8, 2, run_sd=0.03)
        at_margin = table * np.array([1.0, 1.05])
        wrong += claims(plan, {"p95": at_margin})[0].verdict == "equivalent"
        right += claims(plan, {"p95": table**0.5})[0].verdict == "equivalent"
    assert wrong / n <= 0.05 + error(0.05, n)
    assert right / n >= 0.8


def test_two_stage_experiments_keep_their_level_and_reach_their_width():
    """Stein: the number of blocks follows the pilot's variance, yet 95 % of the intervals cover."""
    n = times(1500, 10_000)
    adaptive = Adaptive(at_least=8, at_most=400, until={"p95": "5%"})
    covered = narrow = 0
    blocks = []
    for seed in range(n):
        rng = np.random.default_rng([6, seed])
        d = rng.normal(math.log(0.9), 0.12, 400)
        final = final_blocks(d[:8], 0.05, 0.95, 8, 400)
        blocks.append(final)
        sides = series(np.exp(d[:final])), series(np.ones(final))
        quick = stats.t.ppf(0.975, 7) * d[:8].std(ddof=1) / math.sqrt(final)
        covered += abs(d[:final].mean() - math.log(0.9)) <= quick
        narrow += quick <= math.log(1.05) * (1 + 1e-9) or final == 400
        if seed < 20:
            found = between_blocks(P95, *sides, confidence=0.95, rng=rng, pilot_blocks=adaptive.at_least)
            assert found.interval.high - found.estimate == pytest.approx(quick)
    assert abs(covered / n - 0.95) <= error(0.95, n)
    assert narrow == n
    assert len(set(blocks)) > 20


def test_the_naive_interval_after_a_pilot_would_not_keep_its_level():
    """The test above can fail: with the variance of the final sample and n − 1 degrees, coverage drops."""
    n = 1500
    covered = 0
    for seed in range(n):
        d = np.random.default_rng([7, seed]).normal(0, 0.12, 400)
        used = d[: final_blocks(d[:2], 0.05, 0.95, 2, 400)]
        half = stats.t.ppf(0.975, used.size - 1) * used.std(ddof=1) / math.sqrt(used.size)
        covered += abs(used.mean()) <= half
    assert covered / n < 0.95 - error(0.95, n)


@pytest.mark.parametrize("n_runs", [6, 8, 20])
def test_median_intervals_cover_at_least_95_percent(n_runs):
    n = times(1000, 5000)
    rng = np.random.default_rng([8, n_runs])
    hit = 0
    for _ in range(n):
        found = median_interval(rng.lognormal(0, 1, n_runs), confidence=0.95)
        hit += found.low <= 1 <= found.high
    assert hit / n >= 0.95 - error(0.95, n)


def test_listed_designs_keep_their_level():
    """Welch on logs, with unequal variation on the two sides."""
    n, few = times(800, 5000), times(60, 500)
    false = {"welch": 0, "brunner_munzel": 0}
    for seed in range(n):
        rng = np.random.default_rng([9, seed])
        a, b = np.exp(rng.normal(0, 0.1, 8)), np.exp(rng.normal(0, 0.3, 8))
        false["welch"] += welch(np.log(a), np.log(b), confidence=0.95)[0] <= 0.05
        if seed < few:
            found = between_samples(P95, series(a), series(b), confidence=0.95, rng=rng)
            assert found.p_value == pytest.approx(welch(np.log(a), np.log(b), confidence=0.95)[0])
            false["brunner_munzel"] += found.checks["brunner_munzel"] <= 0.05
    assert false["welch"] / n <= 0.05 + error(0.05, n) + 0.005  # Welch's own approximation
    assert false["brunner_munzel"] / few <= 0.05 + error(0.05, few) + 0.01


def test_collapse_intervals_are_conservative():
    n = times(400, 2000)
    hit = 0
    for seed in range(n):
        rng = np.random.default_rng([10, seed])
        weather = rng.random(8)
        a, b = (weather < 0.5).astype(float), (rng.random(8) < 0.2).astype(float)
        found = between_blocks(COLLAPSED, series(a), series(b), confidence=0.95, rng=rng)
        hit += found.interval.low <= 0.3 <= found.interval.high
    assert hit / n >= 0.95 - error(0.95, n)


def test_bootstrap_covers_skewed_means_from_twenty_runs():
    """The check interval comes as near to 95 % as 25 skewed runs allow."""
    n = times(250, 1500)
    rng = np.random.default_rng(11)
    hit = 0
    for _ in range(n):
        found = bootstrap_interval(rng.lognormal(0, 0.5, 25), confidence=0.95, rng=rng, resamples=999)
        hit += found.low <= math.exp(0.125) <= found.high
    assert 0.91 - error(0.93, n) <= hit / n <= 0.98 + error(0.96, n)
