"""One contrast on one variable, in every corner: the answer is defined, never nan, and says why."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.analysis import Quantity
from towtank.analysis.differences import between_blocks, between_samples
from towtank.variables import variable

P95, GOODPUT, THROUGHPUT, COLLAPSED = (variable(n) for n in ("p95", "goodput", "throughput", "collapsed"))
ABOVE = Quantity(5.0, above=True)


def blocks(*values):
    return {
        i: v if isinstance(v, Quantity) else Quantity(v)
        for i, v in enumerate(values, start=1)
        if v is not None
    }


def compared(first, second, *, described=P95, confidence=0.95, **extra):
    rng = np.random.default_rng(1)
    return between_blocks(described, first, second, confidence=confidence, rng=rng, **extra)


def test_log_ratio_by_hand():
    """log 2 and log 8: mean log 4, s = log 4 / √2, t(0.975; 1) = 12.7062."""
    found = compared(blocks(2.0, 8.0), blocks(1.0, 1.0))
    assert found.estimate == pytest.approx(math.log(4))
    half = 12.7062047 * math.log(4) / math.sqrt(2) / math.sqrt(2)
    assert found.interval.low == pytest.approx(math.log(4) - half, rel=1e-6)
    assert found.interval.high == pytest.approx(math.log(4) + half, rel=1e-6)
    assert found.n == 2
    assert "1 degree of freedom" in found.method
    assert found.checks == {}


def test_shares_are_plain_differences():
    found = compared(blocks(0.9, 0.8, 1.0), blocks(1.0, 1.0, 1.0), described=GOODPUT)
    assert found.estimate == pytest.approx(-0.1)


def test_only_complete_blocks_count():
    found = compared(blocks(1.0, None, 3.0, 4.0), blocks(1.1, 2.2, None, 4.1))
    assert found.n == 2
    missing = compared({1: Quantity(1.0)}, {2: Quantity(1.0)})
    assert (missing.n, missing.estimate, missing.p_value) == (0, None, None)
    assert "both sides" in missing.reason
    assert compared({1: Quantity(None, reason="x")}, {1: Quantity(1.0)}).n == 0


def test_one_block_has_a_size_but_no_certainty():
    found = compared(blocks(2.0), blocks(1.0))
    assert found.estimate == pytest.approx(math.log(2))
    assert found.interval is None
    assert found.p_value is None
    assert "one complete block" in found.reason


def test_sign_flip_check_from_eight_blocks():
    rng = np.random.default_rng(2)
    a, b = blocks(*rng.uniform(1, 2, 8)), blocks(*rng.uniform(3, 4, 8))
    assert compared(a, b).checks["sign_flip"] == 2 / 256
    assert compared({k: a[k] for k in range(1, 8)}, b).checks == {}


@pytest.mark.parametrize("n", [2, 5, 6, 8])
def test_the_same_everywhere_is_said_by_ranks(n):
    """No variance: t is undefined. The median difference is 0 with exact coverage, from 6 blocks."""
    found = compared(blocks(*[1.0] * n), blocks(*[1.0] * n), described=GOODPUT)
    assert found.estimate == 0
    assert found.p_value == 1.0
    assert (found.interval is not None) == (n >= 6)
    assert not found.ranks_only
    needed = "; 6 complete blocks are needed to call it equivalent" if n < 6 else ""
    assert found.reason == f"100 % in every run of both{needed}"
    if n >= 6:
        assert (found.interval.low, found.interval.high) == (0, 0)


def test_the_same_difference_everywhere_has_the_p_of_the_sign_test():
    found = compared(blocks(*[2.0] * 8), blocks(*[1.0] * 8))
    assert found.estimate == pytest.approx(math.log(2))
    assert found.p_value == 2 / 256
    assert found.interval.low == pytest.approx(math.log(2))


def test_rounding_is_not_variation():
    base = np.random.default_rng(0).uniform(1, 2, 8)
    found = compared(blocks(*(base * 3)), blocks(*base))
    assert found.method == "exact sign test"


def test_failures_on_one_side_are_decided_by_signs():
    found = compared(blocks(*[1.0] * 6, 1.1, 0.9), blocks(*[ABOVE] * 8))
    assert found.direction == -1
    assert found.p_value == 2 / 256
    assert found.estimate is None
    assert found.ranks_only
    assert found.interval.high == -math.inf  # every block: below anything
    assert "8 of 8 of the baseline" in found.reason


def test_a_few_failures_leave_a_bound_of_the_ratio():
    found = compared(blocks(2.0, 2.1, 1.9, 2.2, 2.0, 2.3, ABOVE, ABOVE), blocks(*[1.0] * 8))
    assert found.direction == 1
    assert found.estimate == pytest.approx(math.log((2.1 * 2.2) ** 0.5), abs=0.03)
    assert found.interval.low == pytest.approx(math.log(1.9))
    assert found.interval.high == math.inf


def test_failures_on_both_sides_say_nothing():
    found = compared(blocks(*[ABOVE] * 8), blocks(*[ABOVE] * 8))
    assert (found.direction, found.p_value, found.estimate) == (0, 1.0, None)
    assert (found.interval.low, found.interval.high) == (-math.inf, math.inf)


def test_no_throughput_has_no_logarithm():
    found = compared(blocks(0.0, 10.0, 10.0), blocks(10.0, 11.0, 12.0), described=THROUGHPUT)
    assert found.direction == -1
    assert "0 in some runs" in found.reason
    both = compared(blocks(*[0.0] * 6), blocks(*[0.0] * 6), described=THROUGHPUT)
    assert both.estimate == 0  # equal: nothing on both sides


def test_collapse_is_mcnemar_with_an_exact_interval():
    found = compared(blocks(*[1.0] * 8), blocks(*[0.0] * 8), described=COLLAPSED)
    assert found.estimate == 1.0
    assert found.p_value == 2 / 256
    assert 0 < found.interval.low < 1
    assert found.interval.high == 1.0
    never = compared(blocks(*[0.0] * 8), blocks(*[0.0] * 8), described=COLLAPSED)
    assert never.p_value == 1.0
    assert never.interval.low < 0 < never.interval.high


def test_stein_uses_the_pilots_variance():
    rng = np.random.default_rng(4)
    a = blocks(*np.exp(rng.normal(0, 0.1, 20)))
    b = blocks(*[1.0] * 20)
    found = compared(a, b, pilot_blocks=8)
    logs = np.log([q.value for q in a.values()])
    assert found.sd == pytest.approx(np.std(logs[:8], ddof=1))
    assert "7 degrees of freedom of the pilot" in found.method
    assert found.estimate == pytest.approx(logs.mean())
    del a[3]  # a pilot block that stayed incomplete is not replaced by a later one
    short = compared(a, b, pilot_blocks=8)
    assert "6 degrees of freedom of the pilot" in short.method
    assert short.sd == pytest.approx(np.std(np.delete(logs, 2)[:7], ddof=1))


QUANTITY = st.one_of(
    st.floats(0, 100).map(Quantity),
    st.just(ABOVE),
    st.just(Quantity(None, reason="lost")),
    st.just(Quantity(0.0)),
)
SIDE = st.lists(QUANTITY, max_size=10).map(lambda qs: dict(enumerate(qs)))


@given(SIDE, SIDE, st.sampled_from([P95, GOODPUT, THROUGHPUT]), st.booleans())
def test_never_nan_and_antisymmetric(first, second, described, listed):
    method = between_samples if listed else between_blocks

    def run(a, b):
        return method(described, a, b, confidence=0.95, rng=np.random.default_rng(1))

    found, swapped = run(first, second), run(second, first)
    numbers = [found.estimate, found.p_value, found.sd, *found.checks.values()]
    if found.interval is not None:
        numbers += [found.interval.low, found.interval.high]
    assert not any(n is not None and math.isnan(n) for n in numbers)
    assert found.p_value is None or 0 <= found.p_value <= 1
    assert found.p_value is not None or found.reason
    assert found.direction == -swapped.direction
    assert found.n == swapped.n
    if found.p_value is not None:
        # beyond a size the permutations of independent samples are drawn: 9,999 of them put 0.005 on a p of 0.5
        assert swapped.p_value == pytest.approx(found.p_value, abs=0.03 if listed else 1e-9)
    if found.interval is not None:
        assert (-swapped.interval.high, -swapped.interval.low) == pytest.approx(
            (found.interval.low, found.interval.high), rel=1e-9, abs=1e-12
        )


def test_listed_designs_use_welch_and_two_checks():
    rng = np.random.default_rng(6)
    a, b = blocks(*np.exp(rng.normal(0, 0.1, 8))), blocks(*np.exp(rng.normal(0.5, 0.2, 9)))
    found = between_samples(P95, a, b, confidence=0.95, rng=rng)
    assert found.method == "Welch"
    assert found.interval.high < 0
    assert set(found.checks) == {"mann_whitney", "brunner_munzel"}


def test_listed_designs_with_failures_use_ranks():
    found = between_samples(
        P95,
        blocks(*[1.0, 1.1, 1.2, 0.9] * 2),
        blocks(*[ABOVE] * 8),
        confidence=0.95,
        rng=np.random.default_rng(1),
    )
    assert found.direction == -1
    assert found.interval is None
    assert found.p_value == pytest.approx(2 / math.comb(16, 8))


def test_what_is_equal_everywhere_is_said_in_its_unit_with_what_is_missing():
    family = between_blocks(
        GOODPUT, blocks(*[1.0] * 7), blocks(*[1.0] * 7), confidence=0.9875, rng=np.random.default_rng(0)
    )
    assert family.reason == "100 % in every run of both; 8 complete blocks are needed to call it equivalent"
    apart = compared(blocks(*[2.0] * 3), blocks(*[1.0] * 3))
    assert apart.reason == "the same difference in every block; 6 complete blocks are needed for an interval"
    assert compared(blocks(*[0.012] * 6), blocks(*[0.012] * 6)).reason == "12 ms in every run of both"
