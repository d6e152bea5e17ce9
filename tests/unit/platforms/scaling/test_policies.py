"""Policies: what the emulated autoscalers make of what the ingress tells them."""

from __future__ import annotations

import pytest

from towtank.autoscaling.hpa.settings import HpaSettings
from towtank.autoscaling.kpa.settings import KpaSettings
from towtank.autoscaling.openwhisk.settings import OpenWhiskSettings
from towtank.platforms.scaling.hpa import HpaPolicy, cpu_of_tree
from towtank.platforms.scaling.kpa import KpaPolicy
from towtank.platforms.scaling.lives import Life
from towtank.platforms.scaling.openwhisk import OpenWhiskPolicy
from towtank.platforms.scaling.policy import Policy, Seen, Shortage
from towtank.platforms.scaling.seam import InstanceStats, Stats

S = 1_000_000_000


def second(t, *, lives=(), arrivals=0, concurrency=0.0, held=0, instances=None):
    ready = sum(life.answers for life in lives)
    stats = Stats((t - 1) * S, t * S, arrivals, held, 0, ready, concurrency, 0.0, instances=instances or {})
    return Seen(stats, lives)


def living(count, *, pid=None, ready=True):
    return [
        Life(
            f"app-{n}",
            n,
            0,
            pid=pid,
            started_ns=0,
            ready_ns=0 if ready else None,
            changed_ns=0,
            answers=ready,
        )
        for n in range(count)
    ]


def test_fixed_is_fixed():
    policy = Policy(3)
    assert policy.look(second(1, arrivals=1000, concurrency=99)).replicas == 3
    assert policy.short(Shortage(0, 5, 0, 0)) is None


# --- KPA -------------------------------------------------------------------------------------------------------


def kpa(**fields):
    return KpaPolicy(
        KpaSettings(**{"target": 10, "target_utilization_percentage": 100, "window": "6s"} | fields), 0.0
    )


def test_kpa_decides_every_other_second():
    policy, lives = kpa(), living(1)
    found = [policy.look(second(t, lives=lives, concurrency=35, arrivals=35)) for t in (1, 2, 3)]
    assert [one.replicas for one in found] == [1, 4, 4]
    assert found[1].values["autoscaler_stable"] == 35
    assert found[1].values["autoscaler_panic_mode"] == 1  # 4 wanted of 1 is over 200 %
    assert found[1].values["autoscaler_target"] == 10


def test_kpa_from_zero_at_once_and_once():
    policy = kpa(initial_scale=0)
    assert policy.at_start == 0
    assert policy.look(second(1)).replicas == 0
    assert policy.short(Shortage(1.2, 1, 0, 0)).replicas == 1
    assert policy.short(Shortage(1.3, 2, 0, 1)) is None
    assert policy.short(Shortage(1.4, 2, 1, 0)) is None  # an instance is there, but full: the next tick


def test_kpa_bounds_queues_only_when_the_activator_is_out_of_the_path():
    policy = kpa(container_concurrency=5, target_burst_capacity=0, target=5)
    assert policy.look(second(1, lives=living(1), concurrency=2, arrivals=2)).limits == {
        "pending_per_instance": None
    }
    assert policy.look(second(2, lives=living(1), concurrency=2, arrivals=2)).limits == {
        "pending_per_instance": 50
    }
    assert policy.look(second(3, lives=living(1), concurrency=2, arrivals=2)).limits == {}
    assert (
        policy.look(second(4, lives=living(1), concurrency=2, arrivals=2)).values["autoscaler_activators"]
        == 0
    )


# --- HPA -------------------------------------------------------------------------------------------------------


def hpa(spent, **fields):
    defaults = {"cpu": "50%", "max_replicas": 10, "metrics_resolution": "2s", "sync_period": "4s"}
    defaults |= {"cpu_initialization_period": "0s", "initial_readiness_delay": "0s"}
    settings = HpaSettings(**defaults | fields)
    return HpaPolicy(settings, cpu_request=1.0, t_s=0.0, cpu_of=spent.get)


def test_hpa_by_cpu_of_process_trees():
    spent: dict[int, float] = {}
    policy, lives, found = hpa(spent), living(1, pid=7), []
    for t in range(1, 13):
        spent[7] = 0.9 * t  # 90 % of a core, of which half is wanted
        found.append(policy.look(second(t, lives=lives)))
    assert found[-1].replicas == 2
    assert found[-1].values["autoscaler_seen_cpu"] == pytest.approx(90, abs=1)
    assert found[-1].values["autoscaler_target_cpu"] == 50
    assert [one.replicas for one in found][:3] == [1, 1, 1]


def test_hpa_by_requests_at_a_time():
    policy, lives = hpa({}, cpu=None, concurrency=4), living(1)
    per = {"app-0": InstanceStats(9, 9.0, 20)}
    found = [policy.look(second(t, lives=lives, instances=per)).replicas for t in range(1, 6)]
    assert found[-1] == 3


def test_hpa_says_when_nothing_can_be_said():
    policy = hpa({})
    notes = [policy.look(second(t, lives=living(1, pid=7))).note for t in range(1, 6)]
    assert any("nothing was measured" in note for note in notes)


def test_hpa_forgets_an_instance_that_is_gone():
    policy = hpa({7: 1.0})
    policy.look(second(2, lives=living(1, pid=7)))
    policy.gone("app-0")
    assert policy._spent == {}


def test_cpu_of_a_tree_is_that_of_its_root_at_least():
    import os

    assert cpu_of_tree(os.getpid()) > 0
    assert cpu_of_tree(2**22 + 1) is None


# --- OpenWhisk -------------------------------------------------------------------------------------------------


def openwhisk(**fields):
    defaults = {"pool_memory": "512MiB", "action_memory": "256MiB", "idle_timeout": "10s"}
    return OpenWhiskPolicy(OpenWhiskSettings(**defaults | fields), "hello")


def test_openwhisk_makes_a_container_for_every_request_that_waits():
    policy = openwhisk(invokers=3)
    assert policy.at_start == 0
    wanted = policy.short(Shortage(0.1, held=3, ready=0, starting=0))
    assert wanted.replicas == 3
    assert wanted.values["pool_memory_used_bytes"] == 3 * 256 * 2**20
    notes = [policy.made(f"app-{n}") for n in range(3)]
    # the home invoker first, then the next in steps
    assert [note["invoker"] == notes[0]["invoker"] for note in notes] == [True, True, False]
    assert {note["state"] for note in notes} == {"cold"}
    assert policy.short(Shortage(0.2, held=3, ready=0, starting=3)) is None


def test_openwhisk_counts_requests_that_fit_into_a_container():
    assert openwhisk(concurrency=4).short(Shortage(0, held=5, ready=0, starting=0)).replicas == 2


def test_openwhisk_stops_where_memory_ends():
    policy = openwhisk(invokers=2)
    assert policy.short(Shortage(0, held=99, ready=0, starting=0)).replicas == 4
    assert policy.short(Shortage(0, held=99, ready=4, starting=0)) is None


def test_openwhisk_lets_idle_containers_go():
    policy = openwhisk()
    policy.short(Shortage(0.0, held=2, ready=0, starting=0))
    for n in range(2):
        policy.made(f"app-{n}")
    lives = living(2)
    busy = {"app-0": InstanceStats(1, 1.0, 1), "app-1": InstanceStats(0, 0.0, 0)}
    found = policy.look(second(5, lives=lives, instances=busy))
    assert found.remove == ()
    found = policy.look(second(11, lives=lives, instances=busy))
    assert (found.remove, found.replicas) == (("app-1",), 1)
    assert policy.short(Shortage(12.0, held=1, ready=1, starting=0)).replicas == 2


def test_openwhisk_makes_up_for_a_container_that_was_lost():
    policy = openwhisk()
    policy.short(Shortage(0.0, held=1, ready=0, starting=0))
    policy.made("app-0")
    policy.gone("app-0")
    found = policy.look(second(2, lives=(), held=1))
    assert found.replicas == 1


def test_openwhisk_places_an_action_where_it_always_does():
    first, second_ = openwhisk(invokers=7), openwhisk(invokers=7)
    for policy in (first, second_):
        policy.short(Shortage(0, held=1, ready=0, starting=0))
    assert first.made("a")["invoker"] == second_.made("b")["invoker"]
