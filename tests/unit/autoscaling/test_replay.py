"""Autoscalers decide anew from what was observed: as they did themselves, where nothing is hidden from them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towtank.autoscaling.hpa.replay import Look, Measured, replay
from towtank.autoscaling.hpa.settings import HpaSettings
from towtank.autoscaling.kpa.replay import Averages, Second, by_averages, by_load
from towtank.autoscaling.kpa.revision import Revision
from towtank.autoscaling.kpa.settings import KpaSettings

KPA = KpaSettings.model_validate({"target": 2, "target_utilization_percentage": 100, "window": "6s"})
HPA = HpaSettings.model_validate({"cpu": "50%", "max_replicas": 10, "cpu_initialization_period": "0s"})


def seconds(*loads, ready=1, told=None):
    return [Second(float(n), load, load, ready, told if n == 0 else None) for n, load in enumerate(loads)]


def test_every_other_second_ends_with_a_decision():
    assert list(by_load(KPA, seconds(*[4.0] * 6))) == [0, 2, 4]
    assert list(by_load(KPA, seconds(*[4.0] * 6), first_tick=1)) == [1, 3, 5]
    assert set(by_load(KPA, seconds(*[4.0] * 6)).values()) == {2}


def test_where_nothing_is_known_nothing_is_wanted():
    assert by_load(KPA, seconds(0.0, 0.0, 0.0, ready=0)) == {}
    assert by_load(KPA, []) == {}
    assert by_averages(KPA, []) == []
    assert replay(HPA, []) == []


def test_a_first_request_is_told_at_once():
    silent = by_load(KPA, seconds(0.0, 0.0, 0.0, ready=0))
    told = by_load(KPA, seconds(0.0, 0.0, 0.0, ready=0, told=-0.5))
    assert silent == {}
    assert told[0] == 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 50), st.integers(0, 9)), min_size=2, max_size=60))
def test_it_is_the_revision_itself_fed_second_by_second(observed):
    revision = Revision(KPA, -1.0)
    wanted = {}
    for n, (load, ready) in enumerate(observed):
        revision.record(float(n), concurrency=load, requests=load, ready=ready)
        outcome = revision.tick(float(n), ready) if n % 2 == 0 else revision.reconcile(float(n), ready)
        if n % 2 == 0 and outcome.desired >= 0:
            wanted[n] = outcome.desired
    found = by_load(KPA, [Second(float(n), load, load, ready) for n, (load, ready) in enumerate(observed)])
    assert found == wanted


def read(*told):
    return [Averages(float(t), stable, panic, 2, *mode) for t, stable, panic, *mode in told]


def test_averages_that_were_read_twice_are_one_decision():
    """Panic at 8 instances: while it lasts nothing shrinks, whatever the averages say."""
    seen = read((0, 3, 3), (1, 3, 3), (2, 6, 15.5), (3, 6, 15.5), (4, 1, 1), (8, 1, 1), (9, 1, 1), (11, 1, 1))
    assert by_averages(KPA, seen) == [2, 2, 8, 8, 8, 8, 8, 1], (
        "panic ends one window after 2 s, at the next decision"
    )
    assert by_averages(KPA, [Averages(0.0, 0.0, 0.0, 6)], panicking=True) == [6], "it was in panic at 6"


def test_one_decision_differs_where_panic_ended_sooner_or_later_than_predicted():
    ended = read((0, 6, 15.5, True), (2, 1, 1, True), (4, 1, 1, False), (6, 1, 1.1, False), (8, 1, 9.5, True))
    assert by_averages(KPA, ended) == [8, 8, 8, 1, 5], "of the 8 nothing is left in the next panic"
    lasting = read(
        (0, 6, 15.5, True), (6.5, 1, 1, True), (8.5, 1, 1, True), (10.5, 1, 1.1, False), (12.5, 1, 1, False)
    )
    assert by_averages(KPA, lasting) == [8, 1, 1, 1, 1], "predicted to be over at each"
    begun = read((0, 1, 1, True), (2, 1, 1.1, True), (4, 1, 1, False))
    assert by_averages(KPA, begun) == [1, 1, 1]


@pytest.mark.parametrize(
    ("ready", "starting", "mean", "instances", "wanted"),
    [
        (2, 0, 50.0, 2, 2),
        (2, 0, 100.0, 2, 4),
        (4, 0, 10.0, 4, 4),  # downscaling is stabilised for 5 minutes
        (2, 2, 100.0, 2, 4),  # those that start count as using nothing
        (4, 0, 80.0, 1, 4),  # and so do those without a measurement: 80 % of one are 20 % of four
        (2, 0, 500.0, 2, 4),  # at most doubled
    ],
)
def test_an_hpa_decides_from_means(ready, starting, mean, instances, wanted):
    look = Look(0.0, ready + starting, ready, starting, {"cpu": Measured(mean, instances)})
    (outcome,) = replay(HPA, [look])
    assert outcome.replicas == wanted


def test_an_hpa_that_measured_nothing_leaves_the_number():
    (outcome,) = replay(HPA, [Look(0.0, 3, 3, 0, {})])
    assert (outcome.replicas, outcome.recommended) == (3, None)
