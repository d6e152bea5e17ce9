"""The agenda of a run: faults come at their times, hit what they should, and are always undone."""

from __future__ import annotations

import time

import pytest

from towtank.errors import PlatformError
from towtank.faults import registry
from towtank.faults.agenda import BEGAN, FAILED, UNDONE, Agenda
from towtank.faults.model import Fault
from towtank.platforms.base import FaultMissed, Instance, Target

LATE_S = 1.0
"""A busy machine wakes threads late."""


class Patient:
    """A deployment that writes down what is done to it."""

    def __init__(self, count=3):
        self.count = count
        self.done = []
        self.broken = ""

    @property
    def targets(self):
        return {
            "app": Target("app", tuple(Instance(name, "http://127.0.0.1:9") for name in self.victims("app")))
        }

    def victims(self, target):
        return [f"{target}-{number}" for number in range(self.count)]

    def _do(self, what, name):
        if self.broken == f"{what} {name}":
            raise PlatformError(f"{what} does not work on {name}")
        self.done.append((what, name, time.monotonic()))

    def kill_instance(self, name, *, grace_s):
        self._do("kill" if grace_s == 0 else "end", name)

    def restart_instance(self, name):
        self._do("restart", name)

    def stop_instance(self, name, *, lasts_s=None):
        self._do("stop", name)
        return lambda: self._do("resume", name)

    @property
    def words(self):
        return [f"{what} {name}" for what, name, _ in self.done]


def fault(kind="stop", **keys):
    return Fault.model_validate({"kind": kind, "at": "100ms", "for": "200ms", **keys})


def carry_out(faults, patient, wait_s=0.6, seed=1):
    agenda = Agenda(faults, patient, target="app", seed=seed)
    zero_ns = time.monotonic_ns()
    agenda.start(zero_ns)
    time.sleep(wait_s)
    return agenda.close(), zero_ns


def test_a_fault_comes_and_goes_at_its_time():
    patient = Patient()
    made, zero_ns = carry_out([fault()], patient)
    assert patient.words == ["stop app-0", "resume app-0"]
    (stroke,) = made.strokes
    assert 0.1e9 <= stroke.began_ns - zero_ns < (0.1 + LATE_S) * 1e9
    assert 0.3e9 <= stroke.undone_ns - zero_ns < (0.3 + LATE_S) * 1e9
    assert [event.kind for event in made.events] == [BEGAN, UNDONE]
    assert made.events[0].instance == "app-0"
    assert made.events[0].detail["planned_us"] == 100_000
    assert made.problems == ()
    assert made.latest_s < LATE_S


def test_what_is_still_on_is_undone_at_the_end():
    patient = Patient()
    made, _ = carry_out([fault(**{"for": "60s"})], patient)
    assert patient.words == ["stop app-0", "resume app-0"]
    assert "at the end of the load" in made.events[-1].message


def test_what_had_not_come_when_the_load_was_over_is_told():
    patient = Patient()
    made, _ = carry_out([fault(at="60s")], patient, wait_s=0.05)
    assert patient.words == []
    assert made.strokes[0].began_ns is None
    assert made.problems == ("stop was due at 60 s, and the load was over before",)


def test_an_unforeseen_error_of_one_fault_leaves_the_others():
    patient = Patient()
    patient.stop_instance = lambda name, **_: 1 / 0
    made, _ = carry_out([fault(), fault("kill", at="200ms", **{"for": "100ms"})], patient)
    assert patient.words == ["kill app-0", "restart app-0"]
    assert [("ZeroDivisionError" in problem) for problem in made.problems] == [True]


def test_an_unforeseen_error_when_undoing_leaves_the_others():
    patient = Patient()
    patient.restart_instance = lambda name: 1 / 0
    made, _ = carry_out([fault("kill", **{"for": "60s"}), fault(instance="app-1", **{"for": "60s"})], patient)
    assert sorted(patient.words) == ["kill app-0", "resume app-1", "stop app-1"]
    assert "could not be undone" in made.problems[0]


@pytest.mark.parametrize(("instance", "hit"), [("one", [0]), ("all", [0, 1, 2]), ("app-2", [2])])
def test_which_instances_are_hit(instance, hit):
    patient = Patient()
    made, _ = carry_out([fault(instance=instance)], patient)
    assert patient.words[: len(hit)] == [f"stop app-{number}" for number in hit]
    assert sorted(patient.words[len(hit) :]) == [f"resume app-{number}" for number in hit]
    assert made.strokes[0].instances == tuple(f"app-{number}" for number in hit)


def test_random_is_drawn_from_the_seed_of_the_run():
    def drawn(seed):
        keys = {"for": "10ms", "at": "0s", "every": "20ms", "times": 12, "instance": "random"}
        made, _ = carry_out([fault(**keys)], Patient(), seed=seed)
        return [stroke.instances for stroke in made.strokes]

    assert drawn(5) == drawn(5)
    assert len(set(drawn(5))) > 1
    assert drawn(5) != drawn(6)


def test_killed_for_good_stays_dead_and_killed_for_a_time_is_started_again():
    patient = Patient()
    dead = Fault.model_validate({"kind": "kill", "at": "0s"})
    back = Fault.model_validate(
        {"kind": "kill", "at": "50ms", "for": "50ms", "instance": "app-1", "options": {"grace": "2s"}}
    )
    made, _ = carry_out([dead, back], patient)
    assert patient.words == ["kill app-0", "end app-1", "restart app-1"]
    assert [stroke.undone_ns is None for stroke in made.strokes] == [True, False]
    assert [event.kind for event in made.events] == [BEGAN, BEGAN, UNDONE]


def test_a_fault_that_cannot_be_made_lets_go_what_it_had_and_is_told():
    patient = Patient()
    patient.broken = "stop app-1"
    made, _ = carry_out([fault(instance="all")], patient)
    assert patient.words == ["stop app-0", "resume app-0"]
    assert made.problems == ("stop could not be done: stop does not work on app-1",)
    assert [event.kind for event in made.events] == [FAILED]


def test_a_fault_that_cannot_be_undone_is_told_and_the_others_are_undone():
    patient = Patient()
    patient.broken = "resume app-1"
    made, _ = carry_out([fault(instance="all")], patient)
    assert sorted(patient.words) == ["resume app-0", "resume app-2", "stop app-0", "stop app-1", "stop app-2"]
    assert made.problems == ("stop could not be undone: resume does not work on app-1",)


def test_nothing_to_hit_is_told():
    made, _ = carry_out([fault()], Patient(count=0))
    assert "app has no instance 'one' that runs" in made.problems[0]


def test_a_deployment_without_the_power_is_told():
    made, _ = carry_out([fault("cpu", options={"cores": 0.5})], Patient())
    assert "a Patient cannot do that" in made.problems[0]


def test_none_only_marks_the_time():
    patient = Patient()
    made, _ = carry_out([fault("none")], patient, wait_s=0.4)
    assert patient.words == []
    assert [stroke.fault.kind for stroke in made.strokes] == ["none"]
    assert made.events == ()


def test_every_kind_can_be_loaded():
    for name in registry.names():
        assert callable(registry.create(name).begin)
        assert registry.kind(name).summary


def test_the_event_says_what_was_really_done(tmp_path):
    patient = Patient()
    patient.data_folder = tmp_path
    made, _ = carry_out([fault("disk", options={"size": "3MiB", "leave": "256MiB"})], patient)
    begun = made.events[0]
    assert (begun.kind, begun.detail["facts"]) == (BEGAN, {"written_bytes": 3 << 20}), made.problems
    assert begun.message == "disk of app (written 3 MiB)"


def test_who_undoes_a_fault_elsewhere_knows_how_long_it_lasts():
    patient, told = Patient(), []
    patient.fill_volume = lambda name, filling, *, lasts_s: (
        filling.size_bytes // 2,
        told.append(lasts_s) or list,
    )
    made, _ = carry_out([fault("disk", instance="all", options={"size": "2MiB", "folder": "/data"})], patient)
    assert told == [0.2, 0.2, 0.2]
    assert made.events[0].detail["facts"] == {"written_bytes": 3 << 20}


@pytest.mark.parametrize("what", ["instance", "node"])
def test_a_partition_of_an_instance_asks_for_that_power(what):
    patient, told = Patient(), []
    patient.cut_instance = lambda name, of, *, lasts_s: told.append((name, of, lasts_s)) or list
    made, _ = carry_out([fault("partition", options={"of": what})], patient)
    assert told == [("app-0", what, 0.2)]
    assert made.problems == ()


class Calling(Patient):
    """A deployment whose calls can be met, whichever instance they go to."""

    def disturb_whole_edge(self, edge, trouble, *, lasts_s=None):
        self._do(f"{trouble.kind} for {lasts_s:g} s", f"{edge.source} to {edge.target}")
        return lambda: self._do("undo", f"{edge.source} to {edge.target}")


def test_an_edge_is_hit_as_a_whole_where_no_instance_can_be_told():
    calling = Calling()
    made, _ = carry_out([fault("abort", options={"from": "front"}, instance="all")], calling)
    assert calling.words == ["abort for 0.2 s front to app", "undo front to app"]
    assert [event.message for event in made.events] == ["abort of app", "abort of app undone as planned"]
    assert (made.events[0].instance, made.events[0].detail["instances"]) == ("", [])


def test_a_fault_that_nobody_can_have_felt_is_undone_and_failed():
    class Unused(Calling):
        def disturb_whole_edge(self, edge, trouble, *, lasts_s=None):
            def undo():
                raise FaultMissed("no call went there")

            return undo

    made, _ = carry_out([fault("drop")], Unused())
    assert [event.kind for event in made.events] == [BEGAN, UNDONE, FAILED]
    assert made.problems == ("drop met nothing: no call went there",)
    assert made.strokes[0].undone_ns is not None
