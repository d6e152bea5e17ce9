"""Windows, policies and bounds: tables of Kubernetes' own horizontal_test.go, and what must always hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.autoscaling.hpa.behavior import (
    Change,
    Memory,
    Recommendation,
    bounded_by_controller,
    bounded_by_rules,
    down_limit,
    stabilise,
    stabilise_down,
    up_limit,
)
from towtank.autoscaling.hpa.controller import CONCURRENCY, CPU, Hpa
from towtank.autoscaling.hpa.installed import installed_settings
from towtank.autoscaling.hpa.metrics import Pod, Sample
from towtank.autoscaling.hpa.settings import DEFAULT_DOWN, DEFAULT_UP, HpaSettings, Policy, ResolvedRules
from towtank.errors import PlatformError

NOW = 100_000.0


def rules(*, pods=0, pods_period=60, percent=0, percent_period=60, select="Max", default=DEFAULT_UP):
    policies = ()
    if pods:
        policies += (Policy(type="Pods", value=pods, period=f"{pods_period}s"),)
    if percent:
        policies += (Policy(type="Percent", value=percent, period=f"{percent_period}s"),)
    return ResolvedRules(0.0, select, policies or default, 0.1)


def spread(changes, period=120):
    """Changes in the middles of equal parts of the last seconds, the oldest first."""
    part = period / len(changes)
    return tuple(Change(NOW - (period - part * (i + 0.5)), n) for i, n in enumerate(changes))


# current, wanted, least, most, rules up, rules down, ups, downs → replicas
POLICIES = {
    "within": (5, 7, 3, 8, {}, {}, 7),
    "below the least": (3, 1, 2, 8, {}, {}, 2),
    "to zero": (1, 0, 0, 10, {}, {}, 0),
    "above the most, which is below now": (20, 1000, 1, 10, {}, {}, 10),
    "above the most": (100, 1000, 100, 150, {}, {}, 150),
    "1 % of few": (3, 1000, 1, 2000, {"percent": 1}, {}, 4),
    "20 pods down": (1000, 3, 3, 2000, {}, {"pods": 20}, 980),
    "default up": (10, 50, 1, 1000, {}, {}, 20),
    "pods above percent": (10, 500, 1, 1000, {"pods": 100, "percent": 100}, {}, 110),
    "percent above pods": (10, 500, 1, 1000, {"pods": 2, "percent": 100}, {}, 20),
    "30 pods": (10, 50, 1, 1000, {"pods": 30}, {}, 40),
    "200 %": (10, 50, 1, 1000, {"percent": 200}, {}, 30),
    "down, pods above percent": (100, 2, 1, 1000, {}, {"pods": 20, "percent": 1}, 80),
    "down, percent below pods": (100, 2, 1, 1000, {}, {"pods": 2, "percent": 1}, 98),
    "down, all but the least": (10, 0, 1, 1000, {}, {"pods": 100}, 1),
    "down 5 pods": (10, 2, 1, 1000, {}, {"pods": 5}, 5),
    "down half": (10, 5, 1, 1000, {}, {"percent": 50}, 5),
}


@pytest.mark.parametrize(
    ("current", "wanted", "least", "most", "up", "down", "expected"), POLICIES.values(), ids=POLICIES
)
def test_policies(*, current, wanted, least, most, up, down, expected):
    assert bounded(current, wanted, (least, most), (up, down)) == expected


PAST = {
    "up, most": (100, 500, 1, 200, {"pods": 300}, {}, (1, 5, 9), (), 200),
    "up, nothing left": (100, 500, 1, 1000, {"pods": 5, "pods_period": 120}, {}, (1, 5, 9), (), 100),
    "up, pods": (100, 500, 1, 1000, {"pods": 150, "pods_period": 120}, {}, (1, 5, 9), (), 235),
    "up, percent": (100, 500, 1, 1000, {"percent": 200, "percent_period": 120}, {}, (1, 5, 9), (), 255),
    "up, after both": (6, 24, 1, 1000, {"percent": 300, "percent_period": 300}, {}, (4,), (2,), 16),
    "down, default": (10, 5, 1, 1000, {}, {}, (), (1, 5, 9), 5),
    "down, pods": (100, 2, 1, 1000, {}, {"pods": 5, "pods_period": 120}, (), (1, 5, 9), 100),
    "down, least": (100, 0, 5, 1000, {}, {"pods": 130, "pods_period": 120}, (), (1, 5, 9), 5),
    "down, percent": (100, 0, 1, 1000, {}, {"percent": 50, "percent_period": 120}, (), (2, 4, 6), 56),
    "down, after both": (10, 1, 1, 1000, {}, {"percent": 50, "percent_period": 180}, (2,), (4,), 6),
    "down, nothing left": (
        100,
        0,
        1,
        1000,
        {},
        {"percent": 10, "percent_period": 120},
        (),
        (10, 10, 10),
        100,
    ),
    "down, below zero": (10, 5, 1, 1000, {}, {"percent": 1000, "percent_period": 120}, (), (10, 10, 10), 5),
    "up, only the period counts": (
        100,
        200,
        1,
        1000,
        {"pods": 1000, "pods_period": 30},
        {},
        (8, 12, 9, 11),
        (),
        200,
    ),
}


@pytest.mark.parametrize(
    ("current", "wanted", "least", "most", "up", "down", "ups", "downs", "expected"), PAST.values(), ids=PAST
)
def test_policies_count_what_was_changed_before(
    *, current, wanted, least, most, up, down, ups, downs, expected
):
    assert bounded(current, wanted, (least, most), (up, down), (ups, downs)) == expected


def bounded(current, wanted, bounds, rates, past=((), ())):
    (least, most), (ups, downs) = bounds, past
    memory = Memory(ups=spread(ups) if ups else (), downs=spread(downs) if downs else ())
    return bounded_by_rules(
        memory,
        wanted,
        current=current,
        t_s=NOW,
        least=least,
        most=most,
        up=rules(**rates[0]),
        down=rules(**rates[1], default=DEFAULT_DOWN),
    )


def test_the_smallest_change_and_none():
    two = {"pods": 2, "percent": 50}
    assert up_limit(Memory(), 1, NOW, rules(**two, select="Min")) == 2
    assert down_limit(Memory(), 5, NOW, rules(**two, select="Min")) == 3
    assert up_limit(Memory(), 5, NOW, rules(**two, select="Disabled")) == 5
    assert down_limit(Memory(), 5, NOW, rules(**two, select="Disabled")) == 5


MIN = 60
# past recommendations (replicas, minutes ago), wanted → stabilised, length of what is remembered
WITHOUT_RULES = {
    "nothing yet": ((), 5, 5, 1),
    "held": (((4, 2), (5, 1)), 3, 5, 3),
    "not held": (((1, 2), (2, 1)), 3, 3, 3),
    "too old": (((10, 10), (9, 9)), 3, 3, 1),
    "some too old": (((10, 10), (4, 1), (5, 2), (9, 9)), 3, 5, 3),
}


def memory_of(past):
    return Memory(tuple(Recommendation(NOW - minutes * MIN, n) for n, minutes in past))


@pytest.mark.parametrize(("past", "wanted", "expected", "kept"), WITHOUT_RULES.values(), ids=WITHOUT_RULES)
def test_without_rules_the_highest_of_five_minutes(past, wanted, expected, kept):
    found, memory = stabilise_down(memory_of(past), wanted, NOW, 300)
    assert (found, len(memory.recommendations)) == (expected, kept)


# past, current, wanted, window up, window down → stabilised
WITH_RULES = {
    "nothing yet": ((), 100, 5, 0, 0, 5),
    "down": (((4, 2), (5, 1)), 100, 3, 0, 180, 5),
    "up": (((4, 2), (5, 1)), 1, 7, 300, 0, 4),
    "down, not held": (((1, 2), (2, 1)), 100, 3, 300, 0, 3),
    "up, not held": (((4, 2), (5, 1)), 1, 3, 0, 300, 3),
    "too old, down": (((10, 10), (9, 9)), 100, 3, 0, 0, 3),
    "too old, up": (((10, 10), (9, 9)), 1, 100, 0, 0, 100),
    "some too old, down": (((10, 10), (4, 1), (5, 2), (9, 9)), 100, 3, 0, 180, 5),
    "some too old, up": (((10, 100), (6, 1), (5, 2), (9, 3)), 1, 100, 300, 0, 5),
    "both, wanted falls": (((2, 100), (3, 3)), 2, 1, 300, 300, 2),
    "both, wanted rises": (((2, 100), (1, 3)), 2, 3, 300, 300, 2),
}


@pytest.mark.parametrize(
    ("past", "current", "wanted", "up", "down", "expected"), WITH_RULES.values(), ids=WITH_RULES
)
def test_with_rules_both_windows_hold_back(*, past, current, wanted, up, down, expected):
    found, _ = stabilise(memory_of(past), wanted, current=current, t_s=NOW, up_s=up, down_s=down)
    assert found == expected


# current, wanted, least, most → replicas (TestConvertDesiredReplicasWithRules)
CONTROLLER = [
    (0, 0, 1, 8, 1),
    (2, 3, 3, 8, 3),
    (10, 1000, 3, 8, 8),
    (3, 1000, 3, 8, 6),
    (2, 1000, 3, 2000, 4),
]


@pytest.mark.parametrize(("current", "wanted", "least", "most", "expected"), CONTROLLER)
def test_bounds_without_rules(current, wanted, least, most, expected):
    assert bounded_by_controller(wanted, current=current, least=least, most=most) == expected


@given(
    current=st.integers(1, 100),
    wanted=st.integers(0, 500),
    least=st.integers(1, 20),
    beyond=st.integers(0, 80),
    pods=st.integers(1, 50),
    percent=st.integers(1, 200),
)
def test_rules_keep_bounds_and_direction(*, current, wanted, least, beyond, pods, percent):
    most = least + beyond
    current = min(max(current, least), most)
    found = bounded(current, wanted, (least, most), ({"pods": pods}, {"percent": percent}))
    assert least <= found <= most
    assert found <= current + pods
    assert (found - current) * (wanted - current) >= 0


# --- the whole controller --------------------------------------------------------------------------------------


def settings(**fields):
    return HpaSettings(**{"cpu": "50%", "max_replicas": 10, "cpu_initialization_period": "0s"} | fields)


def load(count, milli):
    pods = [
        Pod(f"p{i}", started_s=0.0, ready=True, ready_changed_s=0.0, request_milli=1000) for i in range(count)
    ]
    return pods, {CPU: {pod.name: Sample(milli, t_s=NOW) for pod in pods}}


def followed(hpa, moments, current=1):
    found = []
    for at, milli in moments:
        pods, metrics = load(current, milli)
        current = hpa.decide(NOW + at, current=current, pods=pods, metrics=metrics).replicas
        found.append(current)
    return found


def test_up_at_once_down_after_the_window():
    hpa = Hpa(settings(downscale_stabilization="60s"))
    assert followed(hpa, [(0, 1000), (15, 1000), (30, 100), (60, 100), (75, 100), (91, 100)]) == [
        2,
        4,
        4,
        4,
        4,
        1,
    ]


def test_rules_bound_the_rate():
    hpa = Hpa(
        settings(
            behavior={
                "scale_up": {"policies": [{"type": "Pods", "value": 1, "period": "60s"}]},
                "scale_down": {
                    "stabilization_window": "0s",
                    "policies": [{"type": "Pods", "value": 1, "period": "30s"}],
                },
            }
        )
    )
    moments = [(0, 1000), (15, 1000), (61, 1000), (95, 10), (110, 10), (126, 10)]
    assert followed(hpa, moments) == [2, 2, 3, 2, 2, 1]


def test_a_metric_that_says_nothing_never_takes_instances_away():
    hpa = Hpa(settings(concurrency=10, downscale_stabilization="0s"))
    pods, metrics = load(4, 10)
    assert hpa.decide(NOW, current=4, pods=pods, metrics=metrics).replicas == 4
    metrics[CONCURRENCY] = {pod.name: Sample(1000, t_s=NOW) for pod in pods}
    assert hpa.decide(NOW + 15, current=4, pods=pods, metrics=metrics).replicas == 1


def test_the_largest_of_several_metrics():
    pods, metrics = load(2, 500)
    metrics[CONCURRENCY] = {pod.name: Sample(30_000, t_s=NOW) for pod in pods}
    assert Hpa(settings(concurrency=10)).decide(NOW, current=2, pods=pods, metrics=metrics).replicas == 4


def test_zero_instances_switch_it_off():
    found = Hpa(settings()).decide(NOW, current=0, pods=[], metrics={})
    assert found.replicas == 0
    assert "switches the HPA off" in found.reason


def test_bounds_of_the_object_come_first():
    hpa = Hpa(settings(min_replicas=2, max_replicas=4))
    assert hpa.decide(NOW, current=1, pods=[], metrics={}).replicas == 2
    assert hpa.decide(NOW, current=7, pods=[], metrics={}).replicas == 4


# --- settings --------------------------------------------------------------------------------------------------


def test_an_object_of_an_api_server():
    found = installed_settings(
        {
            "metadata": {"name": "web"},
            "spec": {
                "maxReplicas": 7,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 150},
                        },
                    }
                ],
                "behavior": {
                    "scaleDown": {
                        "stabilizationWindowSeconds": 30,
                        "selectPolicy": "Min",
                        "tolerance": "50m",
                        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 20}],
                    }
                },
            },
        },
        sync_period="5s",
    )
    assert (found.cpu, found.min_replicas, found.max_replicas, found.sync_period) == (150, 1, 7, 5)
    down = found.rules("down")
    assert (down.window_s, down.select, down.tolerance, down.policies[0].period) == (30, "Min", 0.05, 20)
    assert found.rules("up").policies == DEFAULT_UP


def test_an_object_without_metrics_goes_by_cpu():
    assert installed_settings({"spec": {"maxReplicas": 2}}).cpu == 80


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "max_replicas"),
        ({"maxReplicas": 2, "minReplicas": 3}, "min_replicas 3 is above"),
        ({"maxReplicas": 2, "metrics": [{"type": "External"}]}, "scales by External"),
    ],
)
def test_what_is_not_known_of_an_object_is_named(spec, words):
    with pytest.raises(PlatformError, match=words):
        installed_settings({"metadata": {"name": "web"}, "spec": spec})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cpu": "0.5"}, "whole percentage"),
        ({"cpu": None}, "no metric"),
        ({"min_replicas": 0}, "greater than or equal to 1"),
        ({"min_replicas": 11}, "above max_replicas"),
    ],
)
def test_settings_that_cannot_work(fields, words):
    with pytest.raises(ValueError, match=words):
        settings(**fields)
