"""Lives of pods told apart by uid: pods that come back, foreign pulls, and more steps than are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.fake_cluster import Json, meta
from towtank.clock import RunClock
from towtank.platforms.kubernetes import journal as of_journal
from towtank.platforms.kubernetes.journal import Journal
from towtank.platforms.kubernetes.view import ClusterView
from towtank.telemetry.pod_life import PodLives

S = 10**9
OWNER = {"kind": "StatefulSet", "name": "web", "uid": "s", "controller": True}


def web_0(uid: str) -> Json:
    pod = meta("v1", "Pod", "web-0", "ns")
    pod["metadata"] |= {"uid": uid, "ownerReferences": [OWNER]}
    return {**pod, "spec": {"nodeName": "n", "containers": []}, "status": {}}


def ready(pod: Json) -> Json:
    return {**pod, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def comes(journal: Journal, uid: str, t_s: int) -> None:
    pod = web_0(uid)
    journal.on_pod("ADDED", pod, None, t_s * S)
    journal.on_pod("MODIFIED", ready(pod), pod, (t_s + 2) * S)


def goes(journal: Journal, uid: str, t_s: int) -> None:
    pod = ready(web_0(uid))
    journal.on_pod("DELETED", pod, pod, t_s * S)


def pulled(journal: Journal, name: str, uid: str, t_s: int) -> None:
    about = {"kind": "Pod", "name": name, "uid": uid}
    journal.on_event("ADDED", {"reason": "Pulled", "involvedObject": about}, None, t_s * S)


def lives(journal: Journal, zero_s: int = 0) -> PodLives:
    return PodLives(ClusterView(None, "ns", "", (), {}, journal), RunClock(zero_s * S), "kubernetes")  # type: ignore[arg-type]


def told(of: PodLives) -> list[tuple[str, str, float]]:
    return [(json.loads(e.detail)["uid"], e.kind, e.t_us / 1e6) for e in of.events()]


def test_a_pod_that_comes_back_under_its_name_has_a_life_of_its_own() -> None:
    journal = Journal()
    comes(journal, "u1", 10)
    first = lives(journal, 50)
    goes(journal, "u1", 60)
    comes(journal, "u2", 61)
    assert told(first) == [
        ("u1", "pod_created", -40), ("u1", "pod_ready", -38), ("u1", "pod_gone", 10),
        ("u2", "pod_created", 11), ("u2", "pod_ready", 13),
    ]  # fmt: skip


def test_a_later_run_of_the_same_deployment_hears_of_the_pods_that_it_has() -> None:
    journal = Journal()
    comes(journal, "u1", 10)
    goes(journal, "u1", 60)
    comes(journal, "u2", 61)
    later = lives(journal, 100)
    goes(journal, "u2", 110)
    comes(journal, "u3", 111)
    assert [one[:2] for one in told(later)] == [
        ("u2", "pod_created"), ("u2", "pod_ready"), ("u2", "pod_gone"), ("u3", "pod_created"), ("u3", "pod_ready"),
    ]  # fmt: skip


def test_a_pull_that_is_told_before_its_pod_is_kept_and_those_of_others_are_not() -> None:
    journal = Journal()
    of = lives(journal)
    pulled(journal, "web-0", "u1", 5)
    for number in range(of_journal._MOST_WAITING - 1):
        pulled(journal, "stranger", f"x{number}", 5)
    comes(journal, "u1", 6)
    pulled(journal, "web-0", "u1", 7)
    assert told(of) == [
        ("u1", "pod_created", 6), ("u1", "pod_pulled", 5), ("u1", "pod_ready", 8), ("u1", "pod_pulled", 7),
    ]  # fmt: skip


def test_more_steps_than_are_kept_are_a_finding_and_foreign_pulls_take_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_journal, "MOST_STEPS", 3)
    journal = Journal()
    of = lives(journal)
    for number in range(10):
        pulled(journal, "stranger", f"x{number}", 1)
    comes(journal, "u1", 2)
    assert [one.kind for one in of.events()] == ["pod_created", "pod_ready"]
    comes(journal, "u2", 5)
    events: list[Any] = list(of.events())
    assert [one.kind for one in events] == ["pod_created", "pod_steps_left_out"]
    assert json.loads(events[1].detail)["advice"]
    assert list(of.events()) == []
