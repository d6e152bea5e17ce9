"""What a plan takes and decides: requests in closed form, time, contrasts and the smallest p-value."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.design import contrasts, forecast, power
from towtank.design.journey_shape import (
    connections_held,
    longest_timeout_s,
    step_timeouts_s,
    steps_per_iteration,
)
from towtank.design.load_shape import duration_s, expected_requests, pieces
from towtank.design.model import Journey, Workload
from towtank.errors import DesignError

ONE = {"steps": [{"name": "a"}]}


def workload(load, journey=ONE, timeout="10s"):
    return Workload.model_validate({"load": load, "journey": journey, "timeout": timeout})


@pytest.mark.parametrize(
    ("load", "seconds", "requests"),
    [
        ({"model": "open", "rate": "10/s", "duration": "60s"}, 60, 600),
        ({"model": "open", "rate": "6/min", "duration": "10m"}, 600, 60),
        # 0 → 20/s over 10 s is 100; 20/s for 5 s is 100; 20 → 10/s over 4 s is 60
        (
            {
                "model": "open",
                "stages": [{"rate": 20, "ramp": "10s", "hold": "5s"}, {"rate": 10, "ramp": "4s"}],
            },
            19,
            260,
        ),
        ({"model": "open", "rate": 10, "duration": "60s", "max_arrivals": 50}, 60, 50),
        ({"model": "open", "rate": 10, "max_arrivals": 50}, 3600, 50),
    ],
)
def test_open_load_in_closed_form(load, seconds, requests):
    asked = workload(load)
    assert duration_s(asked.load) == seconds
    expected = expected_requests(asked)
    assert (expected.low, expected.high, expected.exact) == (requests, requests, True)


@pytest.mark.parametrize(
    ("extra", "open_held", "closed_held"),
    [
        ({}, 1, 2),  # the pool of open load lends one at a time
        ({"connections": "per-user"}, 2, 2),
        ({"connections": "new"}, 1, 1),
        ({"rotate": ["a", "b", "c", "a"]}, 1, 3),
        ({"rotate": ["a", "b", "c"], "connections": "per-user"}, 1, 3),
    ],
)
def test_connections_are_counted_by_target_where_they_are_kept(extra, open_held, closed_held):
    steps = [{"name": "x", "target": "a"}, {"name": "y", "target": "b"}, {"name": "z", "target": "a"}]
    options = {"journey": {"steps": steps}, **extra}
    closed = {"model": "closed", "users": 1, "duration": "1s"}
    assert (
        connections_held(
            Workload.model_validate({"load": {"model": "open", "rate": 1, "duration": "1s"}, **options})
        )
        == open_held
    )
    assert connections_held(Workload.model_validate({"load": closed, **options})) == closed_held
    if "rotate" in extra:
        each = Workload.model_validate({"load": {**closed, "session": "iteration"}, **options})
        assert connections_held(each) == 1


def test_poisson_and_choices_make_a_mean_of_it():
    choice = {
        "choose": [
            {"weight": 3, "steps": ONE["steps"]},
            {"weight": 1, "steps": [{"name": "b"}, {"name": "c"}]},
        ]
    }
    journey = {"steps": [{"name": "first"}, choice]}
    assert steps_per_iteration(Journey.model_validate(journey)) == (2, 2.25, 3)
    expected = expected_requests(workload({"model": "open", "rate": 4, "duration": "10s"}, journey))
    assert (expected.low, expected.exact) == (90, False)
    assert not expected_requests(
        workload({"model": "open", "rate": 4, "duration": "10s", "arrivals": "poisson"})
    ).exact


@pytest.mark.parametrize(
    ("load", "low", "high"),
    [
        # 10 users for 60 s are 600 user-seconds; an iteration takes at most its timeout of 10 s
        ({"users": 10, "duration": "60s"}, 60, None),
        ({"users": 10, "duration": "60s", "max_rate_per_user": 2}, 60, 1210),
        ({"users": 10, "duration": "60s", "pacing": "5s"}, 40, 130),
        ({"users": 10, "duration": "60s", "iterations": 25}, 25, 25),
        ({"users": 10, "duration": "60s", "iterations_per_user": 3}, 30, 30),
        # 0 → 10 users over 10 s are 50 user-seconds, then 500
        ({"users": 10, "duration": "60s", "spawn_per_s": 1}, 55, None),
    ],
)
def test_closed_load_has_bounds(load, low, high):
    expected = expected_requests(workload({"model": "closed", **load}))
    assert (expected.low, expected.high, expected.exact) == (low, high, False)


def test_spawning_longer_than_the_load_never_reaches_all_users():
    load = workload({"model": "closed", "users": 100, "spawn_per_s": 1, "duration": "10s"}).load
    (piece,) = pieces(load)
    assert (piece.start, piece.end, piece.duration_s) == (0, 10, 10)


stages = st.lists(
    st.fixed_dictionaries({"rate": st.integers(0, 500), "ramp": st.integers(0, 20), "hold": st.integers(0, 20)}),
    min_size=1, max_size=5,
)  # fmt: skip


@given(stages)
def test_the_closed_form_is_the_sum_of_small_steps(rows):
    load = workload(
        {"model": "open", "stages": [{**r, "ramp": f"{r['ramp']}s", "hold": f"{r['hold']}s"} for r in rows]}
    ).load
    total, level = 0.0, 0.0
    for row in rows:
        steps = row["ramp"] * 100
        total += sum(level + (row["rate"] - level) * (i + 0.5) / steps for i in range(steps)) * 0.01
        total += row["rate"] * row["hold"]
        level = row["rate"]
    assert math.isclose(math.fsum(p.area for p in pieces(load)), total, rel_tol=1e-9, abs_tol=1e-6)
    assert duration_s(load) == sum(r["ramp"] + r["hold"] for r in rows)


def test_the_forecast_adds_up(small):
    takes = forecast(small())
    assert (takes.runs, takes.deployments) == (6, 6)
    assert takes.load_s == 60
    assert (takes.requests.low, takes.requests.exact) == (600, True)
    assert takes.load_s < takes.estimate_s < takes.most_s


@pytest.mark.parametrize(("deploy", "deployments"), [("per-run", 12), ("per-block", 6), ("once", 2)])
def test_deployments_are_counted_by_their_lifetime(small, deploy, deployments):
    plan = small(
        ("factors: {deployment: [a, b]}", "factors: {deployment: [a, b], x: [1, 2]}\nreset: none"),
        (':1"}', f':1", deploy: {deploy}}}'),
        (':2"}', f':2", deploy: {deploy}}}'),
    )
    assert forecast(plan).deployments == deployments


def test_contrasts_with_a_treatment_a_level_and_all_pairs(small):
    two = ("factors: {deployment: [a, b]}", "factors: {deployment: [a, b], x: [1, 2]}")
    level = small(two)
    assert contrasts(level.experiment.answer, level.treatments) == (("b-x-1", "a-x-1"), ("b-x-2", "a-x-2"))
    number = small(two, ("baseline: a", "baseline: 1"))
    assert contrasts(number.experiment.answer, number.treatments) == (("a-x-2", "a-x-1"), ("b-x-2", "b-x-1"))
    treatment = small(two, ("baseline: a", "baseline: b-x-1"))
    assert contrasts(treatment.experiment.answer, treatment.treatments) == (
        ("a-x-1", "b-x-1"), ("a-x-2", "b-x-1"), ("b-x-2", "b-x-1"),
    )  # fmt: skip
    pairs = small(two, ("baseline: a", "contrasts: all-pairs"))
    assert len(contrasts(pairs.experiment.answer, pairs.treatments)) == 6
    missing = small(two, ("seed: 1", "seed: 1\nexclude: [{deployment: a, x: 2}]"))
    assert contrasts(missing.experiment.answer, missing.treatments) == (("b-x-1", "a-x-1"),)


def test_the_smallest_p_value_of_the_check(small):
    plan = small(("repetitions: 3", "repetitions: 8"), ("primary: [p95]", "primary: [p95, goodput]"))
    can = power(plan)
    assert (len(can.claims), can.blocks) == (2, 8)
    assert can.claims[0].smallest_check_p == 2 * 2 / 2**8
    assert can.claims[0].check_can_confirm
    assert power(small()).claims[0].smallest_check_p is None, "no permutation check below 8 blocks"
    listed = power(small(("seed: 1", "order: listed")))
    assert listed.claims[0].smallest_check_p == 2 / math.comb(6, 3)
    assert not listed.claims[0].check_can_confirm
    adaptive = power(small(("repetitions: 3", "repetitions: {at_least: 9, at_most: 30, until: {p95: 10%}}")))
    assert adaptive.blocks == 9
    assert power(small(("answer: {primary: [p95], baseline: a}\n", ""))) is None


def test_all_pairs_of_very_many_treatments_are_refused(small):
    levels = ", ".join(map(str, range(200)))
    with pytest.raises(Exception, match="all pairs of 200 treatments are 19,900 comparisons"):
        small(
            ("baseline: a", "contrasts: all-pairs"),
            ("factors: {deployment: [a, b]}", f"factors: {{deployment: [a], x: [{levels}]}}"),
        )


def test_the_longest_timeout_is_of_any_step_however_deep():
    deep = {"choose": [{"steps": [{"choose": [{"steps": [{"name": "slow", "timeout": "5s"}]}]}]}]}
    load = {"model": "open", "rate": 10, "duration": "10s"}
    one = workload(load, {"steps": [{"name": "fast", "timeout": "100ms"}, deep, {"name": "plain"}]}, "200ms")
    assert step_timeouts_s(one) == {"fast": 0.1, "plain": 0.2, "slow": 5.0}
    assert longest_timeout_s(one) == 5.0
    own = workload(load, {"steps": [{"name": "fast", "timeout": "100ms"}]}, "30s")
    assert longest_timeout_s(own) == 0.1, "no step is left to the workload's timeout"


LOAD = "load: {model: open, rate: 10/s, duration: 10s, warmup: 1s}"


@pytest.mark.parametrize(
    ("load", "noted"),
    [
        ("model: closed, users: 2, duration: 10s, warmup: 1s", False),
        ("model: closed, users: 2, duration: 10s, iterations: 5", False),
        ("model: closed, users: 2, duration: 10s, iterations: 5, warmup: 1s", True),
        ("model: closed, users: 2, iterations_per_user: 5, warmup: 1s", True),
        ("model: open, rate: 10/s, max_arrivals: 11, warmup: 1s", False),
        ("model: open, rate: 10/s, max_arrivals: 100, arrivals: poisson, warmup: 1s", True),
    ],
)
def test_a_count_that_may_end_in_the_warmup_is_noted(small, load, noted):
    plan = small((LOAD, f"load: {{{load}}}"))
    text = "workload 'w' stops by count, perhaps within its warm-up of 1 s: then the measured window is empty"
    assert (text in plan.notes) == noted


@pytest.mark.parametrize(
    "load",
    [
        "model: open, rate: 10/s, max_arrivals: 10, warmup: 1s",
        "model: open, stages: [{rate: 20/s, ramp: 2s}, {rate: 20/s, hold: 9s}], max_arrivals: 39, warmup: 3s",
    ],
)
def test_a_count_that_ends_in_the_warmup_for_certain_is_refused(small, load):
    with pytest.raises(DesignError, match="are due within a warm-up of") as caught:
        small((LOAD, f"load: {{{load}}}"))
    assert caught.value.problems[0].path == "workloads.w.load.warmup"
