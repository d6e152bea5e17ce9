"""Who answered what was refused: parts on the way count each other's answers, and what nobody made is said so."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.run_tables import FakeRun, Req
from towtank.analysis import who_answered
from towtank.analysis.tables import Totals
from towtank.analysis.who_answered import ACTIVATOR, FUNCTION, INGRESS, QUEUE_PROXY, Answered, attribute
from towtank.store.schemas import EVENTS, SAMPLES

S_US = 1_000_000


def test_what_passed_a_part_and_came_from_nobody_behind_it_is_its_own():
    found = attribute(100, 18, {ACTIVATOR: 50, QUEUE_PROXY: 40, FUNCTION: 5})
    assert found == Answered(100, {INGRESS: 18, QUEUE_PROXY: 35, ACTIVATOR: 10, FUNCTION: 5}, 32, 0)


def test_on_this_machine_there_are_two_parts():
    assert attribute(7, 5, {FUNCTION: 2}) == Answered(7, {INGRESS: 5, FUNCTION: 2}, 0, 0)


def test_what_was_counted_beyond_the_load_is_told():
    assert attribute(3, 5, {FUNCTION: 1}).beyond == 3
    assert attribute(3, 5, {FUNCTION: 1}).unattributed == 0


def test_an_activator_that_was_out_of_the_way_is_given_nothing():
    assert attribute(40, 0, {ACTIVATOR: 10, QUEUE_PROXY: 40, FUNCTION: 0}).own[ACTIVATOR] == 0


counts = st.integers(0, 10**6)


@given(counts, counts, counts, counts, counts)
def test_counts_always_add_up(total, made, activator, queue_proxy, function):
    found = attribute(total, made, {ACTIVATOR: activator, QUEUE_PROXY: queue_proxy, FUNCTION: function})
    assert min(found.own.values()) >= 0
    assert sum(found.own.values()) + found.unattributed == total + found.beyond
    assert 0 in (found.unattributed, found.beyond)


def tables(samples, events):
    return (
        pa.Table.from_pylist([dict(zip(SAMPLES.names, row, strict=True)) for row in samples], schema=SAMPLES),
        pa.Table.from_pylist([dict(zip(EVENTS.names, row, strict=True)) for row in events], schema=EVENTS),
    )


def totals(**by_status):
    requests = [Req(i * 1000, 10, status=int(s[1:])) for s, n in by_status.items() for i in range(n)]
    return Totals.read(FakeRun(requests).totals())


def made(source, reason, status):
    return (
        5 * S_US,
        source,
        f"ingress_answered_{reason}",
        "",
        "",
        json.dumps({"status": status, "count": 99}),
    )


def of_run(samples, events, seen):
    found = who_answered.of_run("one", *tables(samples, events), seen)
    return {} if found is None else dict(found.by_status)


def test_a_run_on_this_machine_from_its_samples():
    samples = [
        (-S_US, "scaling", "app", "ingress_made_pending", 50.0),  # probing, before the load
        (1 * S_US, "scaling", "app", "ingress_made_pending", 2.0),
        (2 * S_US, "scaling", "app", "ingress_made_pending", 3.0),
        (2 * S_US, "scaling", "app", "ingress_made_held", 1.0),
        (2 * S_US, "scaling", "app", "instances_answered_503", 4.0),
        (2 * S_US, "scaling", "app", "instances_answered_200", 40.0),
    ]
    events = [made("scaling", "pending", 503), made("scaling", "held", 504)]
    found = of_run(samples, events, totals(s200=40, s503=10, s504=1))
    assert found == {
        "503": Answered(10, {INGRESS: 5, FUNCTION: 4}, 1, 0),
        "504": Answered(1, {INGRESS: 1, FUNCTION: 0}, 0, 0),
    }


def test_a_run_on_knative_from_its_samples():
    samples = [
        (S_US, "knative", "fn-1", metric, float(value))
        for metric, value in (
            ("ingress_made_pending", 18), ("ingress_answered_503", 30), ("activator_answered_503", 9),
            ("queue_proxy_answered_503", 7), ("instances_answered_503", 3),
        )
    ]  # fmt: skip
    found = of_run(samples, [made("knative", "pending", 503)], totals(s503=30))
    assert found["503"] == Answered(30, {INGRESS: 18, QUEUE_PROXY: 4, ACTIVATOR: 2, FUNCTION: 3}, 3, 0)


@pytest.mark.parametrize(
    ("samples", "seen"),
    [
        ([], {"s503": 4}),
        ([(S_US, "process", "app-0", "cpu_cores", 1.0)], {"s503": 4}),
        ([(S_US, "scaling", "app", "instances_answered_200", 4.0)], {"s200": 4}),
    ],
)
def test_where_nobody_was_observed_or_nothing_refused_there_is_nothing(samples, seen):
    assert of_run(samples, [], totals(**seen)) == {}


def test_runs_of_a_treatment_add_up_and_a_part_that_one_lacks_has_no_sum():
    runs = [
        who_answered.RunAnswers("one", {"503": attribute(9, 3, {FUNCTION: 2})}),
        who_answered.RunAnswers("one", {"503": attribute(4, 1, {QUEUE_PROXY: 2, FUNCTION: 2})}),
    ]
    (row,) = who_answered.table(runs).to_dict("records")
    assert (row["total"], row[INGRESS], row[FUNCTION], row["unattributed"], row["beyond"]) == (13, 4, 4, 5, 0)
    assert row[QUEUE_PROXY] is None or row[QUEUE_PROXY] != row[QUEUE_PROXY]
    assert who_answered.table([]).empty
