"""A whole revision over time: from zero, in panic, and the careful way back to zero."""

import pytest

from towtank.autoscaling.kpa.activation import Status, apply, observed
from towtank.autoscaling.kpa.revision import Revision
from towtank.autoscaling.kpa.settings import KpaSettings

FAST = {
    "window": "6s",
    "scale_to_zero_grace_period": "4s",
    "target": 10,
    "target_utilization_percentage": 100,
}


class Drill:
    """A revision whose instances are ready one second after they were asked for."""

    def __init__(self, **fields):
        self.settings = KpaSettings(**FAST | fields)
        self.revision = Revision(self.settings, 0.0)
        self.t, self.ready, self.asked, self.held = 0, 0, self.settings.initial_scale, True
        self.seen = []

    def run(self, seconds, load):
        for _ in range(seconds):
            self.t += 1
            self.ready = self.asked
            self.revision.record(self.t, concurrency=load, requests=load, ready=self.ready)
            step = self.revision.tick if self.t % 2 == 0 else self.revision.reconcile
            out = step(self.t, self.ready)
            self.asked, self.held = out.replicas, out.held
            self.seen.append(out)
        return [out.replicas for out in self.seen[-seconds:]]


def test_idle_for_a_window_then_graced_then_gone():
    drill = Drill()
    counts = drill.run(20, load=0)
    gone = counts.index(0) + 1
    # ready after 1 s, active for the window of 6 s; held meanwhile, as an instance of 10 is no burst of 211
    assert 7 <= gone <= 9
    assert drill.held


def test_retention_keeps_the_last_instance():
    assert Drill(scale_to_zero_pod_retention_period="10s").run(20, load=0).index(0) + 1 >= 17


def test_grace_counts_from_when_requests_are_held():
    """Without a burst to protect, requests take the direct way until the revision is idle: then the grace begins."""
    gone = Drill(target_burst_capacity=0).run(30, load=0).index(0) + 1
    assert 11 <= gone <= 13


def test_scale_to_zero_can_be_switched_off():
    assert Drill(enable_scale_to_zero=False).run(40, load=0)[-1] == 1


def test_min_scale_stays():
    assert Drill(min_scale=2, initial_scale=2).run(40, load=0)[-1] == 2


def test_load_is_followed_up_and_down_within_max_scale():
    drill = Drill(max_scale=4)
    assert drill.run(10, load=25)[-1] == 3
    assert drill.run(10, load=90)[-1] == 4
    assert drill.seen[-1].desired == 9
    assert drill.run(30, load=0)[-1] == 0


def test_a_first_request_at_zero_is_decided_at_once():
    drill = Drill()
    drill.run(20, load=0)
    assert drill.asked == 0
    found = drill.revision.wanted(20.4, 0)
    assert found is not None
    assert found.replicas == 1
    assert drill.revision.wanted(20.5, 0) is None  # one report in a period
    # what was reported early is not counted twice
    drill.revision.record(21, concurrency=1.0, requests=1, ready=0)
    assert drill.revision.tick(22, 0).stable == pytest.approx(0.5)


def test_more_requests_while_starting_are_waited_for_by_the_tick():
    drill = Drill()
    drill.run(20, load=0)
    drill.revision.wanted(20.4, 0)
    drill.revision.record(21, concurrency=40.0, requests=40, ready=0)
    assert drill.revision.tick(22, 0).replicas == 2  # (1 + 39) over two seconds, 10 each
    drill.revision.record(24, concurrency=40.0, requests=0, ready=0)
    assert drill.revision.tick(24, 0).panicking


def test_nothing_is_known_of_a_second_without_instances_and_load():
    """Nobody reports it: zeros would hold back the first decision after a pause."""
    drill = Drill()
    drill.run(30, load=0)
    drill.revision.record(40, concurrency=30, requests=30, ready=0)
    assert drill.revision.tick(40, 0).stable == 30


def test_requests_per_second_as_metric():
    drill = Drill(metric="rps", target=100)
    assert drill.run(12, load=250)[-1] == 3


def test_excess_burst_capacity_decides_who_holds():
    drill = Drill(container_concurrency=10, target_burst_capacity=15)
    drill.run(10, load=5)
    assert drill.held  # 10 − 15 − 5 < 0
    drill.run(10, load=30)
    assert drill.held
    relaxed = Drill(target=100, target_burst_capacity=15)
    relaxed.run(10, load=5)
    assert not relaxed.held  # 100 − 15 − 5 ≥ 0


def test_an_instance_that_never_gets_ready_is_given_up():
    settings = KpaSettings(progress_deadline="20s")
    status = Status("activating", 0.0)
    assert apply(settings, status, -1, 25.0).replicas is None
    assert apply(settings, status, -1, 30.0).replicas == 0


def test_initial_scale_counts_until_it_was_reached_once():
    settings = KpaSettings(initial_scale=3)
    status = Status("activating", 0.0)
    assert apply(settings, status, 1, 1.0).replicas == 3
    status = observed(settings, status, want=3, ready=2, excess_burst_capacity=0, t_s=2.0)
    assert (status.phase, status.initialised) == ("activating", False)
    status = observed(settings, status, want=3, ready=3, excess_burst_capacity=0, t_s=3.0)
    assert (status.phase, status.initialised, status.since_s) == ("active", True, 3.0)
    assert apply(settings, status, 1, 4.0).replicas == 1


def test_initial_scale_zero_begins_inactive():
    drill = Drill(initial_scale=0)
    assert drill.run(5, load=0) == [0] * 5
    assert drill.seen[-1].desired == -1
    assert drill.revision.wanted(5.5, 0).replicas == 1
