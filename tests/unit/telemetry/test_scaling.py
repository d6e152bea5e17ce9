"""The source `scaling`: what a journal holds becomes samples and events at their own instants, once."""

from __future__ import annotations

import json

import pytest

from towtank.clock import RunClock
from towtank.errors import TelemetryError
from towtank.platforms.scaling.journal import Journal
from towtank.telemetry.base import ObserveContext
from towtank.telemetry.scaling import ScalingSource

S = 1_000_000_000


class Deployment:
    def __init__(self, journal):
        self._journal = journal

    def scaling_journal(self):
        return self._journal


def started(journal):
    source = ScalingSource()
    source.start(ObserveContext(RunClock(10 * S), 1.0, (), deployment=Deployment(journal)))
    return source


def test_what_was_before_is_told_of_instances_that_are_there():
    journal = Journal()
    for instance, steps in (
        ("app-0", ("created", "started", "ready", "gone")),
        ("app-1", ("created", "ready")),
    ):
        for number, step in enumerate(steps):
            journal.step((5 + number) * S, "app", instance, step)
    events = list(started(journal).events())
    assert [(event.kind, event.instance, event.t_us) for event in events] == [
        ("pod_created", "app-1", -5_000_000),
        ("pod_ready", "app-1", -4_000_000),
    ]
    assert json.loads(events[0].detail)["workload"] == "app"


def test_counts_are_read_live_and_what_has_its_own_time_comes_at_the_end():
    journal = Journal()
    source = started(journal)
    journal.counts(12 * S, "app", {"replicas_ready": 1})
    journal.counts(12 * S, "db", {"replicas_ready": 2})
    journal.numbers(13 * S, "app", {"autoscaler_stable": 2.5})
    live = {(s.instance, s.metric): (s.t_us, s.value) for s in source.sample(7)}
    assert live == {
        ("app", "replicas_ready"): (7, 1),
        ("db", "replicas_ready"): (7, 2),
        ("", "replicas_ready"): (7, 3),
    }
    told = [(s.t_us, s.instance, s.metric, s.value) for s in source.close()]
    assert (2_000_000, "", "replicas_ready", 3) in told
    assert (3_000_000, "app", "autoscaler_stable", 2.5) in told
    assert list(source.close()) == []


def test_what_there_was_at_the_beginning_is_known():
    """The first reading is up to an interval late, and the load may have begun."""
    journal = Journal()
    journal.counts(0, "app", {"replicas_ready": 2})
    source = started(journal)
    list(source.sample(10**12))
    (first,) = {s.t_us for s in source.close()}
    assert first < 10**12


def test_a_decision_that_changes_the_number_is_an_event():
    journal = Journal()
    source = started(journal)
    journal.step(11 * S, "app", "", "scaled", before=0, now=1, note="")
    (event,) = source.events()
    assert (event.kind, event.instance, event.t_us) == ("scaled", "app", 1_000_000)
    assert event.message == "app is to have 1 instance, before 0"
    assert list(source.events()) == []


def test_answers_of_the_ingress_are_findings_with_their_number():
    journal = Journal()
    source = started(journal)
    for t, made in (
        (11, {"ingress_made_pending": 3.0}),
        (12, {"ingress_made_pending": 2.0, "instances_answered_200": 7.0}),
    ):
        journal.numbers(t * S, "app", made)
    list(source.close())
    (event,) = source.events()
    assert event.kind == "ingress_answered_pending"
    assert event.message.startswith(
        "the ingress, not an instance, answered 5 requests with 503: more were held"
    )
    assert json.loads(event.detail)["advice"]
    assert source.facts() == {"answered_by_instances": {"200": 7}, "answered_by_ingress": {"pending": 5}}


@pytest.mark.parametrize("deployment", [None, Deployment(None)])
def test_where_nothing_is_scaled_it_says_so(deployment):
    source = ScalingSource()
    source.start(ObserveContext(RunClock(0), 1.0, (), deployment=deployment))
    assert list(source.sample(0)) == []
    assert [event.kind for event in source.events()] == ["not_observable"]


def test_it_has_no_options():
    with pytest.raises(TelemetryError, match="no_such"):
        ScalingSource().start(ObserveContext(RunClock(0), 1.0, (), options={"no_such": 1}))
