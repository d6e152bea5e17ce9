"""The search for a capacity against systems whose capacity is known."""

import itertools
import math
import random

import pytest

from towtank.analysis.load_line import LoadLine, Search, Trial, ladder, ratio, rung_of

RUNGS = ladder(10, 10_000)


def carry_out(search, probability, rng, *, generator=None):
    """Run a search against a system that holds a rung with some probability."""
    trials = []
    while not isinstance(found := search.next(trials), LoadLine):
        assert len(trials) < 1000
        if generator is not None and found.rung >= generator:
            outcome = "generator"
        else:
            outcome = "held" if rng.random() < probability(found.rung) else "failed"
        trials.append(Trial(found.rung, found.purpose, outcome, "p95" if outcome == "failed" else ""))
    return found, trials


def sharp(capacity):
    return lambda rung: float(rung <= capacity)


def test_a_ladder_has_even_relative_steps_and_whole_users():
    assert RUNGS[:3] == (10, 10.5, 11.03)
    assert all(b / a == pytest.approx(1.05, rel=1e-3) for a, b in itertools.pairwise(RUNGS))
    users = ladder(3, 100, whole=True)
    assert users[:4] == (3, 4, 5, 6)
    assert all(b > a and b == int(b) for a, b in itertools.pairwise(users))
    assert RUNGS[rung_of(RUNGS, 500)] <= 500 < RUNGS[rung_of(RUNGS, 500) + 1]
    assert rung_of(RUNGS, 1) == 0


@pytest.mark.parametrize(("low", "high", "step"), [(0, 5, 0.05), (5, 4, 0.05), (1, 2, 0), (1, 1e9, 0.001)])
def test_a_ladder_that_is_none_is_refused(low, high, step):
    with pytest.raises(ValueError):
        ladder(low, high, step=step)


@pytest.mark.parametrize("capacity", [0, 1, 40, 73, 100, len(RUNGS) - 2])
@pytest.mark.parametrize("start", [0, 50, len(RUNGS) - 1])
def test_without_noise_the_capacity_is_found_exactly(capacity, start):
    found, trials = carry_out(Search(len(RUNGS), start=start), sharp(capacity), random.Random(1))
    assert (found.end, found.holds, found.fails) == ("found", capacity, capacity + 1)
    assert found.why == (("p95", 5),)
    assert found.against == () == found.undecided
    assert sum(one.purpose == "confirm" for one in trials) == 10
    assert len(trials) <= 10 + 2 * math.ceil(math.log2(len(RUNGS))) + 2


def test_what_ends_a_search_besides_the_system():
    rng = random.Random(1)
    assert carry_out(Search(20, start=3), sharp(99), rng)[0].end == "top"
    bottom = carry_out(Search(20, start=3), sharp(-1), rng)[0]
    assert (bottom.end, bottom.holds, bottom.fails) == ("bottom", None, 0)
    ended = carry_out(Search(100, start=3), sharp(80), rng, generator=40)[0]
    assert (ended.end, ended.holds, ended.fails) == ("generator", 39, None)
    assert carry_out(Search(100, start=90), sharp(80), rng, generator=40)[0].holds == 39
    never = carry_out(Search(100, start=3), sharp(80), rng, generator=0)[0]
    assert (never.end, never.holds) == ("generator", None)
    short = carry_out(Search(100, start=3, most_trials=6), sharp(80), rng)[0]
    assert (short.end, short.trials) == ("budget", 6)


def test_the_search_goes_on_from_its_trials_alone():
    _, trials = carry_out(Search(len(RUNGS), start=10), sharp(73), random.Random(3))
    for until in range(len(trials)):
        wanted = Search(len(RUNGS), start=10).next(trials[:until])
        assert (wanted.rung, wanted.purpose) == (trials[until].rung, trials[until].purpose)


def test_results_that_are_not_monotone_are_told():
    trials = [
        Trial(60, "seek", "held"),
        Trial(61, "seek", "failed"),
        *[Trial(60, "confirm", "failed")] * 5,
        *[Trial(59, "confirm", "held")] * 5,
        Trial(70, "seek", "held"),
    ]
    told = Search(100, start=60).next(trials)
    assert (told.holds, told.fails) == (59, 60)
    assert told.against == ((70, 1, 1),)


@pytest.mark.parametrize("width", [0.0, 0.5, 1.0, 2.0])
def test_a_noisy_system_is_bracketed_as_often_as_promised(width):
    """Width: rungs over which the probability of holding falls from 73 % to 27 %, halved."""
    rng = random.Random(7)
    right, lengths = 0, []
    for _ in range(300):
        capacity = rng.uniform(20, 120)

        def holds(rung, capacity=capacity):
            distance = (capacity - rung) / max(width, 1e-9)
            return 1 / (1 + math.exp(-max(-500.0, min(500.0, distance))))

        found, trials = carry_out(Search(len(RUNGS), start=rng.randrange(len(RUNGS))), holds, rng)
        assert found.end == "found"
        right += found.holds <= math.floor(capacity) and found.fails > math.floor(capacity)
        lengths.append(len(trials))
    assert right / 300 >= 0.90
    assert sum(lengths) / 300 < 60


def test_five_of_five_at_one_half_is_one_in_thirty_two():
    """At a probability of exactly ½ on every rung, a rung is wrongly confirmed in 1/32 of all cases."""
    rng = random.Random(11)
    confirmed = 0
    for _ in range(4000):
        trials = [Trial(5, "seek", "held"), Trial(6, "seek", "failed")]
        search = Search(10, start=5)
        while (wanted := search.next(trials)) and not isinstance(wanted, LoadLine) and wanted.rung == 5:
            trials.append(Trial(5, "confirm", "held" if rng.random() < 0.5 else "failed"))
        confirmed += sum(one.purpose == "confirm" and one.outcome == "held" for one in trials) == 5
    assert confirmed / 4000 == pytest.approx(1 / 32, abs=3.5 * math.sqrt(1 / 32 * 31 / 32 / 4000))


def test_capacity_as_a_factor_carries_both_intervals():
    assert ratio((410, 430), (205, 215)) == (2.0, 410 / 215, 430 / 205)
    assert ratio((410, None), (205, None)) == (2.0, 0.0, None)
