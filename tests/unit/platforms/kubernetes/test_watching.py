"""Watches go on where they were, begin anew when they must, and say what could not be seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.fake_cluster import FakeCluster, FakeServer, meta, ready_status
from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.journal import Journal
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.platforms.kubernetes.watching import Watcher

PODS = "/api/v1/namespaces/default/pods"


def eventually(holds: Callable[[], bool], within_s: float = 10.0) -> None:
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def pod(name: str, **status: Any) -> Json:
    thing = meta("v1", "Pod", name, "default")
    thing["spec"] = {"containers": [{"name": "app"}], "nodeName": "n1"}
    thing["status"] = {**ready_status(thing), **status}
    return thing


@pytest.fixture
def api(server: FakeServer, tmp_path: Path) -> Iterator[ApiClient]:
    client = ApiClient(find_context("fake", str(server.write_kubeconfig(tmp_path / "k"))))
    yield client
    client.close()


class Seen:
    """What a watch told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def __call__(self, change: str, thing: Json, before: Json | None, t_ns: int) -> None:
        self.told.append((change, thing["metadata"]["name"]))
        assert abs(time.monotonic_ns() - t_ns) < 5e9


@pytest.mark.alone
def test_changes_are_told_as_they_come(cluster: FakeCluster, api: ApiClient) -> None:
    cluster.put("pods", "default", pod("a"))
    seen = Seen()
    watcher = Watcher(api, PODS, seen)
    watcher.start()
    try:
        cluster.put("pods", "default", pod("b"))
        cluster.change("pods", "default", "a", lambda thing: thing["status"].update(phase="Failed"))
        cluster.drop("pods", "default", "b")
        eventually(lambda: len(seen.told) == 4)
        assert seen.told == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
        assert [thing["metadata"]["name"] for thing in watcher.things] == ["a"]
        assert watcher.gaps == []
    finally:
        begun = time.monotonic()
        watcher.close()
    assert time.monotonic() - begun < 1.0  # nobody waits for the server's next word
    assert threading.active_count() < 20


def test_what_need_not_be_kept_is_not(cluster: FakeCluster, api: ApiClient) -> None:
    one = pod("a")
    one["metadata"]["managedFields"] = [{"manager": "m"}]
    cluster.put("pods", "default", one)
    for keep in (True, False):
        watcher = Watcher(api, PODS, Seen(), keep=keep)
        watcher.start()
        (thing,) = watcher.things
        watcher.close()
        assert ("status" in thing) is keep
        assert "managedFields" not in thing["metadata"]


def test_a_broken_watch_goes_on_where_it_was(
    cluster: FakeCluster, server: FakeServer, api: ApiClient
) -> None:
    cluster.put("pods", "default", pod("a"))
    seen = Seen()
    watcher = Watcher(api, PODS, seen)
    watcher.start()
    try:
        eventually(lambda: any(line.endswith("watch") for line in cluster.log))
        reads = sum(line == f"GET {PODS}" for line in cluster.log)
        server.serving.clear()  # every watch ends
        time.sleep(0.2)
        cluster.put("pods", "default", pod("b"))
        server.serving.set()
        eventually(lambda: ("ADDED", "b") in seen.told)
        assert seen.told == [("ADDED", "a"), ("ADDED", "b")]
        assert sum(line == f"GET {PODS}" for line in cluster.log) == reads  # not read again as a whole
    finally:
        watcher.close()


def test_a_version_that_was_forgotten_begins_anew_and_tells_what_differs(
    cluster: FakeCluster, server: FakeServer, api: ApiClient
) -> None:
    for name in "ab":
        cluster.put("pods", "default", pod(name))
    seen = Seen()
    watcher = Watcher(api, PODS, seen)
    watcher.start()
    try:
        eventually(lambda: any(line.endswith("watch") for line in cluster.log))
        with cluster.lock:
            server.serving.clear()
            cluster.drop("pods", "default", "a")
            cluster.put("pods", "default", pod("c"))
            cluster.forgotten_before = cluster.version()
        time.sleep(0.2)
        server.serving.set()
        eventually(lambda: ("ADDED", "c") in seen.told)
        assert seen.told.count(("DELETED", "a")) == 1
        assert seen.told.count(("ADDED", "b")) == 1
        assert {thing["metadata"]["name"] for thing in watcher.things} == {"b", "c"}
    finally:
        watcher.close()


def test_an_api_server_that_was_away_is_a_gap(
    cluster: FakeCluster, server: FakeServer, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from towtank.platforms.kubernetes import client

    monkeypatch.setattr(client, "RETRY_FOR_S", 0.1)
    cluster.put("pods", "default", pod("a"))
    seen = Seen()
    watcher = Watcher(api, PODS, seen)
    watcher.start()
    try:
        eventually(lambda: any(line.endswith("watch") for line in cluster.log))
        server.stop()
        eventually(lambda: not watcher.connected())
        cluster.put("pods", "default", pod("b"))
        time.sleep(0.3)
        with FakeServer(cluster, port=server.server_address[1]):
            eventually(lambda: ("ADDED", "b") in seen.told)
            (gap,) = watcher.gaps
            assert 0.3e9 <= gap.to_ns - gap.from_ns < 10e9
            watcher.close()
    finally:
        watcher.close()


def test_credentials_that_expire_are_said(cluster: FakeCluster, server: FakeServer, api: ApiClient) -> None:
    watcher = Watcher(api, PODS, Seen())
    watcher.start()
    try:
        eventually(lambda: any(line.endswith("watch") for line in cluster.log))
        server.token = "another"
        server.serving.clear()
        eventually(lambda: bool(watcher.denied))
        assert "are not accepted: expired" in watcher.denied
    finally:
        watcher.close()


def test_what_may_not_be_watched_is_said(cluster: FakeCluster, api: ApiClient) -> None:
    cluster.denied = {("list", "pods")}
    watcher = Watcher(api, PODS, Seen())
    watcher.start()
    assert "cannot list resource" in watcher.denied
    watcher.close()


# --- journals ---------------------------------------------------------------------------------------------------


def ended(reason: str, code: int, *, restarts: int = 1, identity: str = "c1") -> dict[str, Any]:
    last = {"terminated": {"reason": reason, "exitCode": code, "containerID": identity}}
    one = {"name": "app", "ready": True, "started": True, "restartCount": restarts, "state": {"running": {}}}
    return {"containerStatuses": [{**one, "lastState": last}]}


def told(*changes: tuple[str, Json], armed_after: int = 1) -> Journal:
    """A journal that saw these changes; from the second on, it counts."""
    journal, known = Journal(), {}
    for number, (change, thing) in enumerate(changes):
        thing["metadata"].setdefault("uid", thing["metadata"]["name"])
        journal.on_pod(change, thing, known.get(thing["metadata"]["uid"]), 1000 + number)  # type: ignore[arg-type]
        known[thing["metadata"]["uid"]] = thing
        if number + 1 == armed_after:
            journal.arm()
    return journal


def test_an_out_of_memory_kill_is_told_once_and_as_a_share() -> None:
    killed = pod("a", **ended("OOMKilled", 137))
    journal = told(
        ("ADDED", pod("a")), ("ADDED", pod("b")), ("MODIFIED", killed), ("MODIFIED", killed), armed_after=2
    )
    (event,) = journal.events
    assert (event.kind, event.instance, event.t_ns) == ("oom_killed", "a", 1002)
    assert event.detail["of"] == 1  # bare pods have no siblings
    assert "for want of memory" in event.message


def test_a_container_that_ended_is_no_unready_pod_besides() -> None:
    """The kubelet tells the end first, and the restart a moment later."""
    ending = pod("a", conditions=[{"type": "Ready", "status": "False"}])
    ending["status"]["containerStatuses"][0] |= {
        "ready": False, "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "containerID": "c1"}},
    }  # fmt: skip
    again = pod("a", **ended("OOMKilled", 137))
    journal = told(("ADDED", pod("a")), ("MODIFIED", ending), ("MODIFIED", again))
    assert [event.kind for event in journal.events] == ["oom_killed"]


def test_siblings_make_the_share() -> None:
    def owned(thing: Json) -> Json:
        thing["metadata"]["ownerReferences"] = [{"uid": "rs", "kind": "ReplicaSet", "name": "rs"}]
        return thing

    killed = owned(pod("a", **ended("OOMKilled", 137)))
    journal = told(*(("ADDED", owned(pod(name))) for name in "abcd"), ("MODIFIED", killed), armed_after=4)
    assert journal.events[0].detail["of"] == 4


@pytest.mark.parametrize(
    ("reason", "code", "policy", "kinds"),
    [
        ("Error", 1, "Always", ["restarted"]),
        ("Completed", 0, "Always", ["restarted"]),
        ("Error", 1, "Never", ["crashed"]),
        ("Completed", 0, "Never", []),
    ],
)
def test_endings_of_containers(reason: str, code: int, policy: str, kinds: list[str]) -> None:
    before, after = pod("a"), pod("a", **ended(reason, code))
    for thing in (before, after):
        thing["spec"]["restartPolicy"] = policy
    assert [event.kind for event in told(("ADDED", before), ("MODIFIED", after)).events] == kinds


@pytest.mark.parametrize(
    ("code", "policy", "kinds"), [(0, None, []), (1, None, ["restarted"]), (0, "Always", ["restarted"])]
)
def test_preparing_containers_of_a_pod_that_comes_under_load(
    code: int, policy: str | None, kinds: list[str]
) -> None:
    """One that prepares is meant to end; a sidecar among them is not."""
    before, after = pod("b"), pod("b")
    state = {
        "terminated": {"reason": "Completed" if code == 0 else "Error", "exitCode": code, "containerID": "i1"}
    }
    after["status"]["initContainerStatuses"] = [
        {"name": "seed", "ready": code == 0, "restartCount": 0, "state": state}
    ]
    for thing in (before, after):
        thing["spec"]["initContainers"] = [{"name": "seed"} | ({"restartPolicy": policy} if policy else {})]
    journal = told(("ADDED", pod("a")), ("ADDED", before), ("MODIFIED", after))
    assert [event.kind for event in journal.events] == kinds


def test_coming_up_scaling_down_and_being_removed_are_no_failures() -> None:
    leaving = pod("b", **ended("Error", 143))
    leaving["metadata"]["deletionTimestamp"] = "t"
    journal = told(
        ("ADDED", pod("a", **ended("Error", 1))),
        ("ADDED", pod("b")),
        ("MODIFIED", leaving),
        ("DELETED", leaving),
    )
    assert journal.events == []
    assert [step.name for step in journal.steps if step.pod == "b"][-2:] == ["terminating", "gone"]


def test_evictions_unready_pods_and_lost_nodes() -> None:
    unready = pod(
        "a", conditions=[{"type": "Ready", "status": "False", "message": "containers with unready status"}]
    )
    evicted = pod("b", reason="Evicted", phase="Failed", message="low on memory", conditions=[])
    journal = told(
        ("ADDED", pod("a")), ("ADDED", pod("b")), ("MODIFIED", unready), ("MODIFIED", evicted), armed_after=2
    )
    node = meta("v1", "Node", "n1")
    good = {**node, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    bad = {
        **node,
        "status": {
            "conditions": [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting"}]
        },
    }
    journal.on_node("MODIFIED", bad, good, 2000)
    journal.on_node("MODIFIED", bad, bad, 2001)
    assert [(event.kind, event.instance) for event in journal.events] == [
        ("unready", "a"), ("evicted", "b"), ("node_not_ready", "n1"),
    ]  # fmt: skip
    assert "Kubelet stopped posting" in journal.events[-1].message


def test_steps_of_a_pod_with_their_own_times() -> None:
    new = pod("a", conditions=[], containerStatuses=[])
    placed = pod(
        "a",
        containerStatuses=[],
        conditions=[{"type": "PodScheduled", "status": "True", "lastTransitionTime": "s"}],
    )
    journal = told(("ADDED", new), ("MODIFIED", placed), ("MODIFIED", pod("a")))
    journal.on_event(
        "ADDED",
        {"reason": "Pulled", "message": "in 3 s", "involvedObject": {"kind": "Pod", "name": "a", "uid": "a"}},
        None,
        1003,
    )
    assert [(step.name, step.t_ns) for step in journal.steps] == [
        ("created", 1000), ("scheduled", 1001), ("started", 1002), ("ready", 1002), ("pulled", 1003),
    ]  # fmt: skip
    assert journal.steps[1].object_time == "s"
