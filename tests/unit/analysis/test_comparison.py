"""Families, verdicts and the words for them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.plans import make_plan
from towtank.analysis import Quantity
from towtank.analysis.comparison import compare

ABOVE = Quantity(5.0, above=True)


def series(values):
    return {i: v if isinstance(v, Quantity) else Quantity(float(v)) for i, v in enumerate(values, start=1)}


def noise(seed, sd, n=8):
    return np.exp(np.random.default_rng(seed).normal(0, sd, n))


def one_verdict(plan, first, second, *, name="p95", goodput=None):
    values = {name: {"one": series(second), "two": series(first)}}
    if goodput is not None:
        values["goodput"] = {
            "two": series([goodput[0]] * len(first)),
            "one": series([goodput[1]] * len(second)),
        }
    return next(c for c in compare(plan, values) if c.confirmatory)


def test_better_worse_and_the_sentence():
    base = noise(1, 0.05)
    better = one_verdict(make_plan(), base * 0.6 * noise(2, 0.03), base)
    assert better.verdict == "better"
    assert better.estimate == pytest.approx(0.6, abs=0.03)
    assert better.low < better.estimate < better.high < 1
    assert better.p_permutation == 2 / 256
    assert better.sentence.startswith("two has a p95 latency of 0.")
    assert "× that of one" in better.sentence
    assert "% lower; 95 % interval" in better.sentence
    assert better.sentence.endswith("8 blocks; Holm p < 0.001): better.")
    worse = one_verdict(make_plan(), base / 0.6 * noise(2, 0.03), base)
    assert worse.verdict == "worse"
    higher = one_verdict(
        make_plan(primary=["throughput"]), base / 0.6 * noise(2, 0.03), base, name="throughput"
    )
    assert higher.verdict == "better"


def test_equivalent_within_matters():
    base = noise(1, 0.2)
    found = one_verdict(make_plan(), base * noise(3, 0.01), base)
    assert found.verdict == "equivalent"
    assert found.sentence.endswith("equivalent within 5 %.")
    strict = one_verdict(make_plan(matters=0.001), base * noise(3, 0.01), base)
    assert strict.verdict == "undecided"


def test_certain_but_too_small_to_matter():
    base = noise(1, 0.2)
    found = one_verdict(make_plan(), base * 1.01 * noise(3, 0.001), base)
    assert found.verdict == "equivalent"
    assert found.low > 1
    assert "a certain difference but smaller than what matters" in found.sentence


def test_undecided_says_what_it_would_take():
    base = noise(1, 0.2)
    found = one_verdict(make_plan(), base * noise(5, 0.2), base)
    assert found.verdict == "undecided"
    blocks = int(found.sentence.split("about ")[1].split()[0])
    # (z(0.975) + z(0.8))² · s² / log(1.05)²
    sd = np.std(np.log(noise(5, 0.2)), ddof=1)
    assert blocks == pytest.approx((1.96 + 0.8416) ** 2 * sd**2 / math.log(1.05) ** 2, rel=0.05)


def test_holm_and_interval_agree_always():
    """Holm alone would claim the second; its simultaneous interval includes 1, so it stays undecided."""
    plan = make_plan(("one", "two", "three"))
    base = np.ones(8)
    logs = np.array([0.3, -0.1, 0.2, 0.15, -0.05, 0.25, 0.1, 0.2])

    def scaled(p):  # differences whose t test has p-value p
        from scipy import stats

        centred = logs - logs.mean()
        wanted = stats.t.isf(p / 2, 7) * np.std(logs, ddof=1) / math.sqrt(8)
        return np.exp(centred + wanted)

    values = {"p95": {"one": series(base), "two": series(scaled(0.001)), "three": series(scaled(0.04))}}
    two, three = [c for c in compare(plan, values) if c.confirmatory]
    assert (two.p_adjusted, three.p_adjusted) == pytest.approx((0.002, 0.04))
    assert two.verdict == "worse"
    assert three.verdict == "undecided"
    assert three.low < 1 < three.high


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(2, 12), st.floats(0.001, 0.5), st.floats(-0.3, 0.3), st.integers(1, 3)
)
def test_no_verdict_contradicts_its_p_or_its_interval(seed, n, sd, shift, others):
    names = ["one", *[f"t{i}" for i in range(others)]]
    plan = make_plan(names, primary=["p95", "throughput"], blocks=n)
    rng = np.random.default_rng(seed)
    values = {
        name: {t: series(np.exp(rng.normal(shift * i, sd, n))) for i, t in enumerate(names)}
        for name in ("p95", "throughput")
    }
    for found in compare(plan, values):
        assert found.confirmatory
        assert found.p_adjusted >= found.p_value
        excludes = not found.low <= 1 <= found.high
        if found.verdict in ("better", "worse"):
            assert excludes
            assert found.p_adjusted <= 0.05
            lower_is_better = found.variable == "p95"
            assert (found.estimate < 1) == (lower_is_better == (found.verdict == "better"))
        elif found.verdict == "equivalent":
            assert 1 / 1.05 <= found.low <= found.high <= 1.05
        else:
            assert not excludes or found.p_adjusted > 0.05


def test_swapping_sides_mirrors_the_verdict():
    base, other = noise(1, 0.05), noise(2, 0.05) * 0.7
    assert one_verdict(make_plan(), other, base).verdict == "better"
    assert one_verdict(make_plan(), base, other).verdict == "worse"
    ab, ba = one_verdict(make_plan(), other, base), one_verdict(make_plan(), base, other)
    assert ab.estimate == pytest.approx(1 / ba.estimate)


def test_not_worse_is_claimed_only_where_it_is_declared():
    """An interval from −20 % to +3 %: nothing is certain of the difference, but it is not 5 % worse."""
    base = np.ones(8)
    other = np.exp(np.array([0.1, -0.12, -0.3, 0.01, -0.25, 0.08, -0.1, -0.2]) - 0.01)
    found = one_verdict(make_plan(), other, base)
    assert found.verdict == "undecided"
    assert found.high < 1.05
    shown = one_verdict(make_plan(claim="not-worse"), other, base)
    assert shown.verdict == "not worse"
    assert shown.sentence.endswith(": not worse by 5 % or more.")
    assert (shown.low, shown.high) == (found.low, found.high)
    assert one_verdict(make_plan(claim="not-worse"), base, other).verdict == "undecided"
    # For a variable of which more is better it is the other end.
    higher = make_plan(claim="not-worse", primary=["throughput"])
    assert one_verdict(higher, base, other, name="throughput").verdict == "not worse"
    assert one_verdict(higher, other, base, name="throughput").verdict == "undecided"


def test_a_declared_direction_changes_no_other_verdict():
    base = noise(1, 0.05)
    for other in (noise(2, 0.05) * 0.7, noise(2, 0.05) * 1.4, base * noise(3, 0.001)):
        plain = one_verdict(make_plan(), other, base)
        assert plain.verdict != "undecided"
        assert one_verdict(make_plan(claim="not-worse"), other, base).verdict == plain.verdict


def test_failures_are_never_called_not_worse():
    plan = make_plan(claim="not-worse")
    values = {"p95": {"one": series(np.ones(8)), "two": series(np.ones(8))}}
    values["p95"]["two"][3] = Quantity(5.0, above=True)
    assert compare(plan, values)[0].verdict == "undecided"


def test_goodput_guard_refuses_to_rank_by_successes():
    base = noise(1, 0.05)
    plan = make_plan(primary=["p95_ok"])
    found = one_verdict(plan, base * 0.5 * noise(2, 0.02), base, name="p95_ok", goodput=(0.95, 1.0))
    assert found.verdict == "undecided"
    assert "do not rank" in found.reason
    assert "95 % against 100 %" in found.sentence
    fair = one_verdict(plan, base * 0.5 * noise(2, 0.02), base, name="p95_ok", goodput=(0.995, 1.0))
    assert fair.verdict == "better"
    over_all = one_verdict(make_plan(), base * 0.5 * noise(2, 0.02), base, goodput=(0.95, 1.0))
    assert over_all.verdict == "better"  # p95 over all requests has failures in it already


def test_failures_decide_by_signs_with_a_sentence_without_a_ratio():
    found = one_verdict(make_plan(), noise(1, 0.1), [ABOVE] * 8)
    assert found.verdict == "better"
    assert found.estimate is None
    assert (
        found.sentence
        == "P95 latency of two is below that of one in 8 of 8 blocks (Holm p = 0.0078): better."
    )
    assert "8 of 8 of the baseline" in found.reason


def test_failures_everywhere_decide_nothing():
    found = one_verdict(make_plan(), [ABOVE] * 8, [ABOVE] * 8)
    assert found.verdict == "undecided"
    assert found.p_value == 1.0
    assert "cannot be told from" in found.sentence


def test_the_same_goodput_everywhere_is_equivalent_from_six_blocks():
    plan = make_plan(primary=["goodput"])
    assert one_verdict(plan, [1.0] * 8, [1.0] * 8, name="goodput").verdict == "equivalent"
    few = one_verdict(plan, [1.0] * 5, [1.0] * 5, name="goodput")
    assert few.verdict == "undecided"
    assert "6 complete blocks are needed to call it equivalent" in few.reason


def test_shares_matter_by_one_point_at_most():
    plan = make_plan(primary=["goodput"], matters=0.5)
    drop = one_verdict(plan, 0.97 + 0.001 * np.arange(8), [1.0] * 8, name="goodput")
    assert drop.verdict == "worse"
    assert "points lower than one" in drop.sentence


def test_nothing_measured_is_undecided_with_a_reason():
    found = compare(make_plan(primary=["p95"]), {})
    assert [c.verdict for c in found] == ["undecided"]
    assert found[0].reason == "no block has a value on both sides"
    assert found[0].p_adjusted is None


def test_a_lost_contrast_stays_in_the_family():
    plan = make_plan(("one", "two", "three"))
    base = noise(1, 0.05)
    values = {"p95": {"one": series(base), "two": series(base * 0.9 * noise(2, 0.03))}}
    two = next(c for c in compare(plan, values) if c.treatment_id == "two")
    assert two.p_adjusted == pytest.approx(2 * two.p_value)


def test_one_run_each():
    found = one_verdict(make_plan(), [0.5], [1.0])
    assert found.verdict == "undecided"
    assert found.estimate == pytest.approx(0.5)
    assert "1 block)" in found.sentence


def test_exploratory_comparisons_carry_no_verdict_word():
    rng = np.random.default_rng(3)
    values = {
        name: {t: series(np.exp(rng.normal(0, 0.1, 8))) for t in ("one", "two")}
        for name in ("p95", "throughput", "cpu_cores", "p99")
    }
    found = [c for c in compare(make_plan(), values) if not c.confirmatory]
    assert [c.variable for c in found] == ["throughput", "cpu_cores", "p99"]
    for c in found:
        assert c.verdict is None
        assert "exploratory" in c.sentence
        assert not {"better", "worse", "equivalent", "undecided"} & set(c.sentence.replace(":", " ").split())
    from scipy.stats import false_discovery_control

    assert [c.p_adjusted for c in found] == pytest.approx(false_discovery_control([c.p_value for c in found]))


def test_without_an_answer_everything_is_exploratory():
    values = {"p95": {t: series(noise(i, 0.1)) for i, t in enumerate(("one", "two"))}}
    assert [c.confirmatory for c in compare(make_plan(answered=False), values)] == [False]


def test_one_treatment_has_no_comparison():
    assert compare(make_plan(("one",)), {"p95": {"one": series([1, 2, 3])}}) == ()


def test_deployments_that_live_once_are_not_paired_and_say_so():
    base = noise(1, 0.05)
    found = one_verdict(make_plan(deploy="once"), noise(2, 0.05) * 0.6, base)
    assert found.method == "Welch; each was deployed once by plan"
    assert "about these deployments only: each was deployed once by plan" in found.sentence
    assert "8 runs a side" in found.sentence


def test_how_often_was_deployed_is_told_as_it_happened():
    """After an interruption the deployment is a second one, whatever the plan meant."""
    values = {"p95": {"one": series(noise(1, 0.05)), "two": series(noise(2, 0.05) * 0.6)}}
    found = compare(make_plan(deploy="once"), values, deployments={"one": 1, "two": 2})[0]
    assert "two was deployed twice, one once" in found.sentence
    assert "each was deployed once" not in found.sentence
    assert found.method == "Welch; two was deployed twice, one once"


def test_checks_are_repeatable():
    rng = np.random.default_rng(8)
    values = {"p95": {t: series(np.exp(rng.normal(0, 0.1, 30))) for t in ("one", "two")}}
    first, second = (compare(make_plan(blocks=30), values)[0] for _ in range(2))
    assert first == second
    assert 0 < first.p_permutation <= 1
