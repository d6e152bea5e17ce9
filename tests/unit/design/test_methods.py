"""What a plan says it will decide by is what the analysis decides by; what cannot decide is refused."""

from __future__ import annotations

import pytest

from support.plans import make_plan
from towtank.analysis import Quantity
from towtank.analysis.comparison import compare
from towtank.design import power
from towtank.errors import DesignError

COLLAPSED = ("primary: [p95]", "primary: [collapsed]")


def claims(plan):
    return {claim.variable: claim for claim in power(plan).claims}


def test_the_method_follows_variable_order_and_lifetime(small):
    found = claims(small(("repetitions: 3", "repetitions: 8"), ("[p95]", "[p95, goodput, collapsed]")))
    assert found["p95"].method == "t-test on log ratios within blocks"
    assert found["goodput"].method == "t-test on plain differences within blocks"
    assert found["collapsed"].method == "exact McNemar test of pairs in blocks"
    assert found["collapsed"].check == ""
    assert found["p95"].unit == "blocks"
    adaptive = claims(small(("repetitions: 3", "repetitions: {at_least: 9, at_most: 30, until: {p95: 10%}}")))
    assert adaptive["p95"].method.startswith("Stein")
    once = claims(
        small(
            ('1"}', '1", deploy: once}'), ('2"}', '2", deploy: once}'), ("seed: 1", "seed: 1\nreset: none"),
            ("[p95]", "[p95, goodput]"),
        )
    )  # fmt: skip
    assert once["p95"].method == "Welch's t-test of two samples on logs (a ratio)"
    assert once["goodput"].method == "Welch's t-test of two samples on plain values (a difference)"
    assert once["p95"].check == "Mann–Whitney"
    assert once["p95"].unit == "runs a side"


@pytest.mark.parametrize(
    "options", [{}, {"order": "listed"}, {"deploy": "once"}], ids=["blocks", "listed", "once"]
)
@pytest.mark.parametrize("name", ["p95", "goodput", "collapsed"])
def test_the_analysis_chooses_the_same(options, name):
    plan = make_plan(primary=[name], **options)
    first, second = ([1, 1, 1, 1, 1, 1, 0, 1], [0, 0, 0, 1, 0, 0, 0, 0])
    if name != "collapsed":
        first, second = ([0.9 - 0.001 * i**2 for i in range(8)], [0.5 + 0.002 * i for i in range(8)])
    values = {name: {"two": series(first), "one": series(second)}}
    method = next(c for c in compare(plan, values) if c.confirmatory).method
    (said,) = power(plan).claims
    begins = {
        "t over blocks": "t-test",
        "Welch": "Welch's t-test",
        "exact McNemar test": "exact McNemar test",
    }
    (word,) = [word for start, word in begins.items() if method.startswith(start)]
    assert said.method.startswith(word)


def series(values):
    return {block: Quantity(float(value)) for block, value in enumerate(values, start=1)}


@pytest.mark.parametrize(
    ("options", "confidence"),
    [({}, 0.95), ({}, 0.99), ({"order": "listed"}, 0.95), ({"deploy": "once"}, 0.99)],
)
def test_least_is_the_first_number_that_can_confirm(options, confidence):
    """Always against never, the most that runs can say, is decided from so many on and not before."""
    plan = make_plan(primary=["collapsed"], confidence=confidence, **options)
    (claim,) = power(plan).claims
    for n, verdict in ((claim.least - 1, "undecided"), (claim.least, "worse")):
        values = {"collapsed": {"two": series([1] * n), "one": series([0] * n)}}
        assert next(c for c in compare(plan, values) if c.confirmatory).verdict == verdict, n


def test_too_few_blocks_for_a_variable_of_0_and_1_are_refused(small):
    with pytest.raises(DesignError) as caught:
        small(COLLAPSED)
    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (4, "repetitions")
    assert "3 repetitions cannot decide 'collapsed' at 0.95 confidence" in problem.message
    assert "smallest adjusted p-value 0.25" in problem.message
    assert "needs at least 7 blocks" in problem.message
    assert "repetitions: 7" in problem.hint
    small(COLLAPSED, ("repetitions: 3", "repetitions: 7"))
    with pytest.raises(DesignError, match="needs at least 4 runs a side"):
        small(COLLAPSED, ("seed: 1", "order: listed"))
    with pytest.raises(DesignError, match="needs at least 8 blocks"):  # two claims share the error
        small(("primary: [p95]", "primary: [collapsed, p95]"), ("repetitions: 3", "repetitions: 7"))


def test_an_adaptive_design_may_still_reach_it(small):
    small(
        ("primary: [p95]", "primary: [collapsed, p95, p99, goodput]"),
        ("repetitions: 3", "repetitions: {at_least: 8, at_most: 30, until: {p95: 10%}}"),
    )
