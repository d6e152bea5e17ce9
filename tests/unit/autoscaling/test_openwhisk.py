"""OpenWhisk's scheduling: cases of its own balancer's and pool's tests, and what must always hold."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.autoscaling.openwhisk.balancer import Slots, hash_of, java_hash, place, step_sizes
from towtank.autoscaling.openwhisk.pool import Activation, ContainerPool
from towtank.autoscaling.openwhisk.settings import OpenWhiskSettings
from towtank.autoscaling.openwhisk.throttle import Throttle

# --- balancer --------------------------------------------------------------------------------------------------

STEPS = {0: (), 1: (1,), 2: (1,), 3: (1, 2), 4: (1, 3), 5: (1, 2, 3), 9: (1, 2, 5, 7), 10: (1, 3, 7)}


@pytest.mark.parametrize(("count", "expected"), STEPS.items())
def test_step_sizes(count, expected):
    assert step_sizes(count) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31))]
)
def test_hash_of_java(text, expected):
    assert java_hash(text) == expected


def test_hash_is_the_same_for_everybody():
    assert hash_of("guest", "guest/hello") == abs(java_hash("guest") ^ java_hash("guest/hello"))


def places(slots, count, hashed, *, concurrency=1, memory=1, usable=None, seed=1):
    chance = random.Random(seed)
    return [
        place("a", slots, hashed=hashed, concurrency=concurrency, memory=memory, chance=chance, usable=usable)
        for _ in range(count)
    ]


def test_the_published_example():
    """10 invokers and hash 13: home 3, step 3."""
    slots = [Slots(1) for _ in range(10)]
    assert [one.invoker for one in places(slots, 10, 13)] == [3, 6, 9, 2, 5, 8, 1, 4, 7, 0]


def test_from_home_in_steps_then_by_chance():
    """Three invokers with three slots, home 0, step 2."""
    slots = [Slots(3) for _ in range(3)]
    found = places(slots, 9 + 100, 3)  # 3 % 3 = 0; 3 % 2 = 1 → step 2
    assert [one.invoker for one in found[:9]] == [0, 0, 0, 2, 2, 2, 1, 1, 1]
    assert {one.invoker for one in found[9:]} == {0, 1, 2}
    assert {one.overloaded for one in found[9:]} == {True}


def test_only_healthy_invokers():
    slots = [Slots(3) for _ in range(4)]
    found = places(slots, 6 + 50, 0, usable=[True, False, False, True])
    assert [one.invoker for one in found[:6]] == [0, 0, 0, 3, 3, 3]
    assert {one.invoker for one in found[6:]} == {0, 3}
    assert places(slots, 1, 0, usable=[False] * 4) == [None]


def test_only_invokers_with_enough_memory():
    slots = [Slots(4) for _ in range(3)]
    found = [places(slots, 1, 6, memory=memory)[0].invoker for memory in (3, 2, 1, 4, 2)]  # home 0, step 1
    assert found == [0, 1, 0, 2, 1]
    assert [one.permits for one in slots] == [0, 0, 0]


def test_concurrency_within_a_container_takes_no_more_memory():
    slots = [Slots(2) for _ in range(3)]
    found = places(slots, 3 * 2 * 3, 6, concurrency=3)
    assert [one.invoker for one in found] == [0] * 6 + [1] * 6 + [2] * 6
    assert not any(one.overloaded for one in found)


@given(st.integers(1, 6), st.integers(1, 5), st.lists(st.integers(0, 9), max_size=60))
def test_what_was_taken_can_be_given_back(concurrency, memory, order):
    slots, running = Slots(12), 0
    for number in order:
        if number < 6 or not running:
            running += slots.take("a", concurrency=concurrency, memory=memory)
        else:
            slots.release("a", concurrency=concurrency, memory=memory)
            running -= 1
        assert 0 <= slots.permits <= 12
    for _ in range(running):
        slots.release("a", concurrency=concurrency, memory=memory)
    assert slots.permits == 12


# --- pool ------------------------------------------------------------------------------------------------------


def activations(action="ns/a", memory=256, **more):
    number = 0
    while True:
        number += 1
        yield Activation(f"{action}#{number}", action, memory, **more)


def test_a_warm_container_is_used_again():
    pool, of = ContainerPool(1024), activations()
    (cold,) = pool.offer(next(of), 0)
    assert cold.state == "cold"
    assert pool.finished(cold.container, 1) == []
    (warm,) = pool.offer(next(of), 2)
    assert (warm.state, warm.container) == ("warm", cold.container)


def test_memory_bounds_the_pool_and_the_rest_waits_in_order():
    pool, of = ContainerPool(512), activations()
    _, second = pool.offer(next(of), 0) + pool.offer(next(of), 0)
    assert pool.offer(next(of), 0) == pool.offer(next(of), 0) == []
    assert pool.waiting == 2
    (third,) = pool.finished(second.container, 1)
    assert (third.activation, third.container, third.state) == ("ns/a#3", second.container, "warm")
    assert pool.waiting == 1


def test_a_small_action_does_not_overtake_a_large_one():
    pool = ContainerPool(512)
    large, small = activations("ns/large", 512), activations("ns/small", 128)
    (running,) = pool.offer(next(small), 0)
    assert pool.offer(next(large), 0) == []
    assert pool.offer(next(small), 0) == []
    (now,) = pool.finished(running.container, 1)
    assert (now.activation, now.state, now.removed) == ("ns/large#1", "recreated", (running.container,))


def test_the_longest_idle_ones_go_first_and_no_more_than_needed():
    pool = ContainerPool(768)
    names = []
    for at, action in enumerate(("ns/a", "ns/b", "ns/c")):
        (run,) = pool.offer(next(activations(action)), at)
        names.append(run.container)
    for at, name in ((10, names[1]), (11, names[0]), (12, names[2])):
        pool.finished(name, at)
    (run,) = pool.offer(next(activations("ns/d")), 20)
    assert (run.state, run.removed) == ("recreated", (names[1],))
    (run,) = pool.offer(next(activations("ns/e", 512)), 21)
    assert run.removed == (names[0], names[2])


def test_a_busy_container_never_goes():
    pool = ContainerPool(256)
    pool.offer(next(activations("ns/a")), 0)
    assert pool.offer(next(activations("ns/b")), 1) == []


def test_a_container_takes_as_many_at_a_time_as_allowed():
    pool, of = ContainerPool(512), activations(concurrency=3)
    runs = [run for _ in range(7) for run in pool.offer(next(of), 0)]
    assert [run.state for run in runs] == ["cold", "warming", "warming", "cold", "warming", "warming"]
    assert len({run.container for run in runs}) == 2
    assert pool.waiting == 1


def test_prewarmed_containers_are_outside_of_the_pool_and_replaced():
    pool = ContainerPool(512, prewarm=(("python:3", 256, 1),))
    assert (len(pool.prewarmed), pool.containers) == (1, ())
    (run,) = pool.offer(next(activations(kind="python:3")), 0)
    assert run.state == "prewarmed"
    assert (len(pool.prewarmed), len(pool.containers)) == (1, 1)
    (other,) = pool.offer(next(activations("ns/b", 256, kind="nodejs:20")), 0)
    assert other.state == "cold"


def test_idle_containers_go_after_their_time():
    pool, of = ContainerPool(512), activations()
    (run,) = pool.offer(next(of), 0)
    assert pool.unused(1000, 600) == []  # busy
    pool.finished(run.container, 10)
    assert pool.unused(609.9, 600) == []
    assert pool.unused(610, 600) == [run.container]
    assert pool.containers == ()


def test_a_lost_container_makes_room():
    pool, of = ContainerPool(256), activations()
    (run,) = pool.offer(next(of), 0)
    pool.offer(next(of), 1)
    (next_run,) = pool.lost(run.container, 2)
    assert (next_run.activation, next_run.state) == ("ns/a#2", "cold")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=80), st.integers(1, 3))
def test_a_pool_never_exceeds_its_memory_and_loses_nothing(steps, concurrency):
    sizes = {"a": 128, "b": 256, "c": 512}
    pool, running, offered, done = ContainerPool(1024), [], 0, 0
    for at, (action, come) in enumerate(steps):
        if come or not running:
            offered += 1
            runs = pool.offer(Activation(str(at), action, sizes[action], concurrency=concurrency), at)
        else:
            done += 1
            runs = pool.finished(running.pop(0), at)
        running += [run.container for run in runs]
        assert sum(c.memory for c in pool.containers) <= 1024
        assert all(0 <= c.active <= c.concurrency for c in pool.containers)
        assert offered == done + len(running) + pool.waiting


# --- limits ----------------------------------------------------------------------------------------------------


def test_limits_in_openwhisks_words():
    throttle = Throttle(2, 5)
    assert [throttle.refused(at, 0) for at in (1, 2)] == ["", ""]
    assert throttle.refused(3, 0) == "Too many requests in the last minute (count: 3, allowed: 2)."
    assert throttle.refused(59.9, 0).startswith("Too many requests in the last minute (count: 4")
    assert throttle.refused(60, 4) == ""
    assert throttle.refused(61, 5) == "Too many concurrent requests in flight (count: 5, allowed: 5)."


def test_no_limits():
    throttle = Throttle(None, None)
    assert {throttle.refused(0, 10**6) for _ in range(1000)} == {""}


def test_an_action_must_fit_into_a_pool():
    with pytest.raises(ValueError, match="an action of 512 MiB fits into no invoker's pool of 256 MiB"):
        OpenWhiskSettings(pool_memory="256MiB", action_memory="512MiB")
