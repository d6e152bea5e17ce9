"""The controller against a fake of the ingress and of the guard: what is started, drained, ended and written down."""

from __future__ import annotations

import time

import pytest

from towtank.errors import PlatformError
from towtank.platforms.guard_messages import Exited
from towtank.platforms.scaling import controller as controllers
from towtank.platforms.scaling.controller import Controller, Made
from towtank.platforms.scaling.journal import Journal
from towtank.platforms.scaling.policy import Policy, Wanted

S = 1_000_000_000


class Told:
    """Stands for the ingress: keeps what it is told."""

    def __init__(self):
        self.commands = []

    def send(self, **command):
        self.commands.append(command)

    def of(self, name):
        return [command for command in self.commands if command["cmd"] == name]


class Processes:
    """Stands for the guard: starts and ends nothing."""

    def __init__(self):
        self.made, self.ended, self.failing = [], [], False

    def name_of(self, number):
        return f"app-{number}"

    def make(self, number):
        if self.failing:
            raise PlatformError("no such program")
        self.made.append(self.name_of(number))
        return Made(f"127.0.0.1:{4000 + number}", 100 + number, time.monotonic_ns())

    def end(self, name):
        self.ended.append(name)


class Script(Policy):
    """Wants what it is told to want."""

    def __init__(self, at_start):
        super().__init__(at_start)
        self.next, self.at_once, self.lost = Wanted(at_start), None, []

    def look(self, seen):
        self.seen = seen
        return self.next

    def short(self, shortage):
        self.shortage = shortage
        return self.at_once

    def gone(self, name):
        self.lost.append(name)


class Bench:
    """A controller whose thread is not started: events are handed over one by one."""

    def __init__(self, at_start=1, most=10):
        self.ingress, self.processes, self.journal = Told(), Processes(), Journal()
        self.policy = Script(at_start)
        self.controller = Controller(
            "app",
            self.policy,
            self.ingress,
            self.processes,
            self.journal,
            concurrency=3,
            probe={"path": "/"},
            most=most,
        )
        self.controller._apply(Wanted(at_start), 0)
        self.t = 0

    def event(self, name, **fields):
        self.t += 1
        self.controller._on_event({"event": name, "t_ns": self.t * S, **fields})

    def ready(self, *names):
        for name in names:
            self.event("instance_ready", instance=name, added_ns=0, probes=2)

    def second(self, wanted, **fields):
        self.policy.next = wanted
        self.t += 1
        stats = {
            "from_ns": (self.t - 1) * S, "to_ns": self.t * S, "arrivals": 5, "held": 0, "in_flight": 1, "ready": 1,
            "concurrency": 1.5, "held_concurrency": 0.5, "answered": {"200": 4}, "made": {"pending": 1},
            "left": {"held": 1, "in_flight": 0}, "instances": {},
        }  # fmt: skip
        self.controller._on_event({"event": "stats", **stats, **fields})

    def exit(self, name, *, expected=True, code=0):
        self.controller._on_exit(
            Exited(name, 1, code, None, oom_killed=False, t_ns=self.t * S, log_bytes=0, log_kept_bytes=0,
                   descendants_killed=0, expected=expected)
        )  # fmt: skip

    def steps(self, instance=None):
        return [step.name for step in self.journal.steps_after(0) if instance in (None, step.instance)]

    def counts(self):
        return self.journal.counts_now()["app"]


def test_a_life_is_written_down_step_by_step():
    bench = Bench()
    (added,) = bench.ingress.of("add")
    assert added == {
        "cmd": "add", "instance": "app-0", "address": "127.0.0.1:4000", "concurrency": 3, "probe": {"path": "/"}
    }  # fmt: skip
    bench.ready("app-0")
    bench.event("first_request", instance="app-0", held_ns=5)
    bench.second(Wanted(0))
    bench.event("drained", instance="app-0")
    bench.exit("app-0")
    assert bench.steps("app-0") == ["created", "started", "ready", "first_request", "terminating", "gone"]
    times = [step.t_ns for step in bench.journal.steps_after(0) if step.name in ("ready", "first_request")]
    assert times == [S, 2 * S]


def test_counts_are_written_down_when_they_change():
    bench = Bench()
    bench.ready("app-0")
    bench.second(Wanted(1))
    bench.second(Wanted(0))
    of_all = [one for one in bench.journal.numbers_after(0) if one.component == ""]
    assert [(one.t_ns, one.values["replicas_ready"]) for one in of_all] == [(0, 0), (S, 1), (3 * S, 0)]
    assert bench.journal.counts_now()[""] == bench.counts()


def test_up_and_down_in_the_order_of_a_replica_set():
    bench = Bench(2)
    bench.ready("app-1", "app-0")
    bench.second(Wanted(4))
    assert bench.processes.made == ["app-0", "app-1", "app-2", "app-3"]
    bench.ready("app-2")
    assert bench.counts() == {
        "replicas_desired": 4, "replicas_current": 4, "replicas_ready": 3, "replicas_pending": 1,
        "replicas_terminating": 0,
    }  # fmt: skip
    bench.second(Wanted(1))
    # not ready first, and at once; then those that became ready last
    assert bench.processes.ended == ["app-3"]
    assert [one["instance"] for one in bench.ingress.of("drain")] == ["app-3", "app-2", "app-0"]
    bench.event("drained", instance="app-0")
    bench.event("drained", instance="app-0")
    assert bench.processes.ended == ["app-3", "app-0"]
    bench.exit("app-3")
    assert bench.ingress.of("remove") == [{"cmd": "remove", "instance": "app-3"}]


def test_a_shortage_is_handled_at_once():
    bench = Bench(0)
    bench.policy.at_once = Wanted(2, {"autoscaler_desired": 2.0})
    bench.event("wanted", reason="arrival", held=4, in_flight=0, ready=0)
    assert bench.processes.made == ["app-0", "app-1"]
    assert (bench.policy.shortage.held, bench.policy.shortage.starting) == (4, 0)
    bench.policy.at_once = None
    bench.event("wanted", reason="arrival", held=4, in_flight=0, ready=0)
    assert bench.policy.shortage.starting == 2
    (step,) = [step for step in bench.journal.steps_after(0) if step.name == "scaled"]
    assert (step.detail["before"], step.detail["now"], step.t_ns) == (0, 2, S)


def test_each_second_is_written_down_with_what_was_decided():
    bench = Bench()
    bench.second(Wanted(1, {"autoscaler_stable": 2.5}))
    counted, decided = [one for one in bench.journal.numbers_after(0) if "replicas_ready" not in one.values]
    assert counted.values["ingress_requests_per_s"] == 5
    assert counted.values["ingress_made_pending"] == 1
    assert counted.values["instances_answered_200"] == 4
    assert decided.values == {"autoscaler_stable": 2.5}
    assert counted.t_ns == decided.t_ns == S


def test_limits_are_told_when_a_policy_changes_them():
    bench = Bench()
    bench.second(Wanted(1, limits={"pending_per_instance": 10}))
    assert bench.ingress.of("limits") == [{"cmd": "limits", "pending_per_instance": 10}]


def test_an_instance_that_ends_by_itself_is_replaced_at_once_then_later(monkeypatch):
    bench = Bench()
    bench.exit("app-0", expected=False, code=3)
    assert bench.processes.made == ["app-0", "app-1"]
    assert bench.policy.lost == ["app-0"]
    bench.exit("app-1", expected=False, code=3)
    assert bench.processes.made == ["app-0", "app-1"]  # now it waits, as a kubelet does
    later = time.monotonic() + controllers.FIRST_BACKOFF_S
    monkeypatch.setattr(controllers.time, "monotonic", lambda: later)
    bench.second(Wanted(1))
    assert bench.processes.made[-1] == "app-2"


def test_an_instance_that_is_killed_on_purpose_is_replaced_without_waiting():
    bench = Bench()
    for number in range(3):
        bench.exit(f"app-{number}", expected=True)
    assert bench.processes.made == ["app-0", "app-1", "app-2", "app-3"]


def test_an_instance_that_never_answers_is_ended_and_replaced():
    bench = Bench()
    bench.event("gave_up", instance="app-0", probes=9, reason="connection refused")
    assert bench.processes.ended == ["app-0"]
    assert bench.controller.never_answered.given_up == "connection refused"
    bench.exit("app-0")
    assert bench.processes.made == ["app-0", "app-1"]


def test_an_instance_that_drops_out_is_not_ready_and_comes_back():
    bench = Bench()
    bench.ready("app-0")
    bench.event("instance_unready", instance="app-0", reason="connection refused")
    assert bench.counts()["replicas_ready"] == 0
    bench.ready("app-0")
    assert bench.counts()["replicas_ready"] == 1
    assert bench.controller.lives[0].ready_ns == S  # the first time counts


def test_requests_that_never_end_do_not_keep_an_instance_for_ever():
    bench = Bench()
    bench.ready("app-0")
    bench.second(Wanted(0))
    bench.t += round(controllers.DRAIN_TIMEOUT_S)
    bench.second(Wanted(0))
    assert bench.processes.ended == ["app-0"]


def test_names_of_a_policy_go_first():
    bench = Bench(2)
    bench.ready("app-0", "app-1")
    bench.second(Wanted(1, remove=("app-0",)))
    assert [one["instance"] for one in bench.ingress.of("drain")] == ["app-0"]


def test_no_policy_starts_more_than_there_may_be():
    assert len(Bench(5, most=3).processes.made) == 3


def test_what_cannot_be_started_is_told_and_tried_again():
    bench = Bench(0)
    bench.processes.failing = True
    bench.second(Wanted(2))
    assert bench.controller.problem.message == "no such program"
    assert bench.controller.lives == []
    bench.processes.failing = False
    bench.second(Wanted(2))
    assert bench.processes.made == ["app-1", "app-2"]


def test_settled_is_as_many_ready_as_at_the_start_and_no_more_wanted():
    bench = Bench()
    assert "0 of 1 instances ready" in bench.controller.unsettled()
    bench.ready("app-0")
    assert bench.controller.unsettled() == ""
    bench.second(Wanted(3))
    assert "1 of 3 instances ready, and 3 are wanted" in bench.controller.unsettled()


def test_events_of_strangers_and_of_newer_ingresses_do_no_harm():
    bench = Bench()
    bench.ready("somebody")
    bench.event("stats")
    bench.event("something newer")
    bench.event("drained", instance="app-0")  # nobody asked for it
    assert bench.processes.ended == []


def test_its_thread_handles_what_it_hears_and_ends():
    bench = Bench(0)
    bench.controller.start({"pending": 5})
    try:
        bench.policy.at_once = Wanted(1)
        bench.controller.heard({"event": "wanted", "t_ns": time.monotonic_ns(), "reason": "arrival", "held": 1,
                                "in_flight": 0, "ready": 0})  # fmt: skip
        until = time.monotonic() + 10
        while not bench.processes.made and time.monotonic() < until:
            time.sleep(0.005)
        assert bench.processes.made == ["app-0"]
    finally:
        bench.controller.close()
    assert bench.ingress.of("limits") == [{"cmd": "limits", "pending": 5}]
    assert not bench.controller._thread.is_alive()


def test_a_first_instance_that_cannot_be_started_is_an_error_at_once():
    ingress, processes = Told(), Processes()
    processes.failing = True
    controller = Controller("app", Script(1), ingress, processes, Journal(), concurrency=0, probe={}, most=1)
    with pytest.raises(PlatformError, match="no such program"):
        controller.start({})
