"""Contrasts, Stein's rule and rough block numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.plans import make_plan
from towtank.analysis import contrasts, final_blocks
from towtank.analysis.multiplicity import false_discovery, holm
from towtank.analysis.power import blocks_to_resolve, power_of_t, upper_sd

FACTORIAL = {
    f"{d}-{u}": {"deployment": d, "users": u} for d in ("nfs", "ceph") for u in (25, 50)
}  # fmt: skip


def pairs(plan):
    return [c.key for c in contrasts(plan)]


def test_every_treatment_against_the_baseline():
    assert pairs(make_plan(("a", "b", "c"), baseline="b")) == [("a", "b"), ("c", "b")]


def test_a_level_as_baseline_compares_what_differs_in_nothing_else():
    assert pairs(make_plan(FACTORIAL, baseline="nfs")) == [("ceph-25", "nfs-25"), ("ceph-50", "nfs-50")]
    assert pairs(make_plan(FACTORIAL, baseline="25")) == [("nfs-50", "nfs-25"), ("ceph-50", "ceph-25")]


def test_all_pairs():
    assert pairs(make_plan(("a", "b", "c"), contrasts="all-pairs")) == [("b", "a"), ("c", "a"), ("c", "b")]


def test_without_an_answer_the_first_is_the_baseline():
    assert pairs(make_plan(("a", "b"), answered=False)) == [("b", "a")]
    assert pairs(make_plan(("a", "b"), baseline="gone")) == []


def test_final_blocks_by_hand():
    """s = 1, t(0.975; 7) = 2.3646, h = 0.5: n = ⌈(2.3646 / 0.5)²⌉ = ⌈22.37⌉ = 23."""
    pilot = np.arange(8.0)
    pilot = (pilot - pilot.mean()) / pilot.std(ddof=1)
    assert stats.t.ppf(0.975, 7) == pytest.approx(2.3646, abs=1e-4)
    assert final_blocks(pilot, 0.5, 0.95, 8, 50, relative=False) == 23
    assert final_blocks(pilot, np.expm1(0.5), 0.95, 8, 50) == 23
    assert final_blocks(pilot, 0.5, 0.95, 8, 20, relative=False) == 20
    assert final_blocks(pilot * 0, 0.5, 0.95, 8, 20, relative=False) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], 0, 0.95, 8, 9), "half-width"),
        (([1, 2], 0.1, 0.95, 8, 7), "at_least"),
        (([1], 0.1, 0.95, 8, 9), "no variance"),
        (([1, np.inf], 0.1, 0.95, 8, 9), "not finite"),
        (([1, 2], 0.1, 95, 8, 9), "between 0 and 1"),
    ],
)
def test_final_blocks_refuses_nonsense(arguments, message):
    with pytest.raises(ValueError, match=message):
        final_blocks(*arguments)


def test_power_is_that_of_published_tables():
    """Cohen's d = 0.5 at 5 %: 34 pairs, or 64 runs a side, reach 80 % (Cohen 1988; R: 33.4, 63.8)."""
    assert blocks_to_resolve(1.0, difference=0.5, confidence=0.95) == 34
    # Of two samples with s = 1 each a difference has sd √2.
    assert blocks_to_resolve(2**0.5, difference=0.5, confidence=0.95, samples=2) == 64
    assert power_of_t(20, shift=0.5 / 2**0.5, confidence=0.95, samples=2) == pytest.approx(0.337939, abs=1e-5)
    assert power_of_t(20, shift=0.5, confidence=0.95) == pytest.approx(0.5645044, abs=1e-6)


def test_power_at_its_ends():
    assert power_of_t(8, shift=0.0, confidence=0.95) == pytest.approx(0.05)
    assert power_of_t(8, shift=1e6, confidence=0.95) == 1.0
    assert power_of_t(1, shift=1.0, confidence=0.95) == 0.0
    assert blocks_to_resolve(0.0, difference=0.1, confidence=0.95) == 2


def test_the_safe_deviation_is_above_the_true_one_as_often_as_promised():
    assert upper_sd(1.0, 7, assurance=0.8) == pytest.approx((7 / stats.chi2.ppf(0.2, 7)) ** 0.5)
    found = np.random.default_rng(1).normal(size=(4000, 8)).std(axis=1, ddof=1)
    over = np.mean([upper_sd(s, 7, assurance=0.8) > 1 for s in found])
    assert over == pytest.approx(0.8, abs=0.025)


def test_blocks_to_resolve_is_the_exact_power():
    """Exact power of the t test by the non-central t."""
    n = blocks_to_resolve(0.1, difference=0.05, confidence=0.95)
    shift = 0.05 / 0.1 * np.sqrt(n)
    critical = stats.t.ppf(0.975, n - 1)
    power = stats.nct.sf(critical, n - 1, shift) + stats.nct.cdf(-critical, n - 1, shift)
    assert 0.8 <= power < 0.82
    assert blocks_to_resolve(100.0, difference=0.05, confidence=0.95) is None
    with pytest.raises(ValueError, match="cannot be planned"):
        blocks_to_resolve(1.0, difference=0.0, confidence=0.95)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_statsmodels(ps):
    from statsmodels.stats.multitest import multipletests

    assert holm(ps) == pytest.approx(list(multipletests(ps, method="holm")[1]))


def test_adjusting_nothing_and_nonsense():
    assert holm([]) == []
    assert false_discovery([None, None]) == [None, None]
    assert false_discovery([0.01, None, 0.02]) == [0.02, None, 0.02]
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.5, float("nan")])
