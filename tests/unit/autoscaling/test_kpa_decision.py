"""Single decisions: the cases of Knative's own pkg/autoscaler/scaling/autoscaler_test.go, and what must always hold."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.autoscaling.kpa.decision import Memory, activators, decide
from towtank.autoscaling.kpa.settings import Decider, KpaSettings

UTILISATION = 0.75
NOW = 1000.0


def decider(target, burst=100.0, **more):
    values = {
        "max_scale_up_rate": 10.0,
        "max_scale_down_rate": 10.0,
        "panic_threshold": 2.0,
        "target_burst_capacity": burst,
        "activator_capacity": 150.0,
    }
    return Decider(target, target / UTILISATION, **values | more)


def burst_left(target, burst, panic, ready):
    return math.floor(target / UTILISATION * ready - burst - panic)


CASES = {
    "no load": (decider(10), 0, 0, 1, 0),
    "unlimited burst": (decider(181, -1), 21, 26, 1, 1),
    "no burst": (decider(10, 0), 50, 49, 1, 5),
    "from one": (decider(10), 50, 50, 1, 5),
    "no change": (decider(10), 50, 50, 5, 5),
    "small rate upwards": (decider(1, 1982, max_scale_up_rate=1.1), 3, 3.1, 2, 3),
    "small rate downwards": (decider(10, 1982, max_scale_down_rate=1.1), 1, 1, 100, 90),
    "unreachable": (decider(10, 1982, max_scale_down_rate=1.1, reachable=False), 1, 1, 100, 1),
    "panic doubles": (decider(10, 84), 50, 100, 1, 10),
    "ten times at most": (decider(10, 61), 1000, 1001, 1, 10),
    "and again": (decider(10, 61), 1000, 1001, 10, 100),
    "a tenth at least": (decider(10, 61), 1, 1, 100, 10),
    "none ready counts as one": (decider(10, 81), 1000, 888, 0, 10),
    "activation scale without load": (decider(10, 75, activation_scale=2), 0, 0, 1, 0),
    "activation scale": (decider(10, 75, activation_scale=2), 1, 0, 1, 2),
}


@pytest.mark.parametrize(("spec", "stable", "panic", "ready", "expected"), CASES.values(), ids=CASES)
def test_one_decision(spec, stable, panic, ready, expected):
    found, _ = decide(spec, Memory(), t_s=NOW, stable=stable, panic=panic, ready=ready)
    assert found.desired == expected
    if spec.target_burst_capacity > 0:
        burst = burst_left(spec.target, spec.target_burst_capacity, panic, ready)
        assert abs(found.excess_burst_capacity - burst) <= 1  # as Knative's own test allows
    else:
        assert found.excess_burst_capacity == spec.target_burst_capacity


@pytest.mark.parametrize(("stable", "panic", "expected"), [(50, 30, 50), (20, 30, 30)])
def test_panic_takes_the_larger_window(stable, panic, expected):
    panicking = Memory(panic_since_s=NOW - 5, most_in_panic=5)
    found, _ = decide(decider(1), panicking, t_s=NOW, stable=stable, panic=panic, ready=5)
    assert found.desired == expected


def test_panic_ends_a_stable_window_after_a_slow_increase():
    spec = decider(1, 98)
    first, memory = decide(spec, Memory(), t_s=NOW, stable=11, panic=25, ready=10)
    assert (first.desired, first.panicking, memory.panic_since_s) == (25, True, NOW)
    second, memory = decide(spec, memory, t_s=NOW + 30, stable=30, panic=41, ready=40)
    assert (second.desired, memory.panic_since_s) == (41, NOW)
    third, memory = decide(spec, memory, t_s=NOW + 62, stable=50, panic=56, ready=55)
    assert (third.desired, third.panicking, memory.panic_since_s) == (50, False, None)


def test_a_surge_that_goes_on_prolongs_the_panic():
    spec = decider(1, 98)
    _, memory = decide(spec, Memory(), t_s=NOW, stable=11, panic=25, ready=10)
    found, memory = decide(spec, memory, t_s=NOW + 30, stable=30, panic=80, ready=40)
    assert (found.desired, memory.panic_since_s) == (80, NOW + 30)


def test_panic_never_shrinks_until_it_ends():
    spec = decider(10, 93)
    _, memory = decide(spec, Memory(), t_s=NOW, stable=100, panic=100, ready=1)
    high, memory = decide(spec, memory, t_s=NOW, stable=100, panic=1000, ready=10)
    held, memory = decide(spec, memory, t_s=NOW + 30, stable=1, panic=1, ready=10)
    after, memory = decide(spec, memory, t_s=NOW + 61, stable=1, panic=1, ready=10)
    assert (high.desired, held.desired, after.desired) == (100, 100, 1)


def test_exponential_surge():
    """Each scaling brings load to the target, and it grows on, until it stays at 1296."""
    spec, memory, ready = decider(1, 101), Memory(), 1
    for at, load in enumerate((6, 36, 216, 1296, 1296)):
        found, memory = decide(spec, memory, t_s=NOW + at, stable=load, panic=load, ready=ready)
        assert found.desired == load
        ready = found.desired


DELAYED = decider(10, panic_threshold=100.0, scale_down_delay_s=300.0)


def delayed(moments):
    memory, found = Memory(), []
    for at, load in moments:
        decision, memory = decide(DELAYED, memory, t_s=at, stable=load, panic=load, ready=1)
        found.append(decision.desired)
    return found


def test_scale_down_is_delayed():
    assert delayed([(2, 40), (300, 0), (302, 0)]) == [4, 4, 0]


def test_scale_down_is_delayed_step_by_step():
    assert delayed([(540, 40), (600, 30), (660, 0), (840, 0), (900, 0)]) == [4, 4, 4, 3, 0]


def test_what_no_route_leads_to_is_not_delayed():
    memory = Memory()
    _, memory = decide(DELAYED, memory, t_s=2, stable=40, panic=40, ready=1)
    found, _ = decide(replace(DELAYED, reachable=False), memory, t_s=4, stable=0, panic=0, ready=4)
    assert found.desired == 0


@pytest.mark.parametrize(("ready", "panicking"), [(0, False), (1, False), (2, True)])
def test_several_instances_at_the_beginning_are_kept_by_panic(ready, panicking):
    memory = Memory.beginning(NOW, ready)
    assert (memory.panic_since_s is not None, memory.most_in_panic) == (panicking, ready)


def test_worked_example_of_pull_request_8106():
    spec = Decider(10.0, 10.0, stable_window_s=6.0)
    found, _ = decide(spec, Memory(), t_s=5, stable=333.33, panic=200, ready=100)
    assert found.desired == 50  # half of the 100 at least, in one tick
    found, _ = decide(spec, Memory(), t_s=5, stable=333.33, panic=200, ready=1)
    assert found.desired == 34


@pytest.mark.parametrize(("burst", "ready", "expected"), [(0, 50, 2), (-1, 50, 50), (200, 0, 2), (200, 5, 7)])
def test_activators(burst, ready, expected):
    assert activators(Decider(70, 100, target_burst_capacity=burst), ready=ready) == expected


TARGETS = [
    ({}, 70, 100),
    ({"container_concurrency": 10}, 7, 10),
    ({"container_concurrency": 10, "target": 5}, 3.5, 5),
    ({"container_concurrency": 1, "target": 50}, 0.7, 1),
    ({"metric": "rps"}, 140, 200),
    ({"metric": "rps", "target": 10, "container_concurrency": 1}, 7, 10),
    ({"target": 0.01}, 0.01, 0.01),
]


@pytest.mark.parametrize(("fields", "target", "total"), TARGETS)
def test_target_of_an_instance(fields, target, total):
    assert KpaSettings(**fields).resolved_target() == pytest.approx((target, total))


loads = st.floats(0, 1e5)


@given(loads, loads, st.integers(0, 500))
def test_one_tick_stays_within_its_rates(stable, panic, ready):
    spec = decider(7.0)
    found, _ = decide(spec, Memory(), t_s=NOW, stable=stable, panic=panic, ready=ready)
    now = max(1, ready)
    assert math.floor(now / 10) <= found.desired <= 10 * now


@given(st.lists(st.tuples(loads, loads), min_size=1, max_size=30))
def test_in_panic_there_are_never_fewer(seconds):
    spec, memory, last = decider(7.0), Memory(), None
    for at, (stable, panic) in enumerate(seconds):
        found, memory = decide(spec, memory, t_s=2.0 * at, stable=stable, panic=panic, ready=5)
        if last is not None and last.panicking and found.panicking:
            assert found.desired >= last.desired
        last = found


@given(loads, loads, st.integers(0, 100))
def test_more_load_never_asks_for_fewer(stable, more, ready):
    spec = decider(7.0)
    one, _ = decide(spec, Memory(), t_s=NOW, stable=stable, panic=stable, ready=ready)
    other, _ = decide(spec, Memory(), t_s=NOW, stable=stable + more, panic=stable + more, ready=ready)
    assert other.desired >= one.desired
