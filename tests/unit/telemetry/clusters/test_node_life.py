"""Nodes that come and go during a run: counted, told with their instants, and described once each."""

from __future__ import annotations

import json

import pytest

from support.fake_cluster import FakeCluster, Json, meta
from support.waiting import eventually
from towtank.platforms.kubernetes import node_journal
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.kubernetes.node_journal import NodeJournal
from towtank.telemetry.base import Event, ObserveContext
from towtank.telemetry.kubernetes import KubernetesSource


def node(name: str, *, ready: bool = False) -> Json:
    thing = meta("v1", "Node", name, labels={node_journal.TYPE_LABEL: "big"})
    thing["status"] = {
        "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": "2026-01-01T00:00:05Z"}],
        "allocatable": {"cpu": "3920m", "memory": "4Gi"},
    }
    return thing


def totals(source: KubernetesSource) -> dict[str, float]:
    return {one.metric: one.value for one in source.sample(1) if one.instance == ""}


def test_nodes_that_come_and_go_are_told_and_counted(
    observe: ObserveContext, cluster: FakeCluster, deployment: KubernetesDeployment
) -> None:
    source = KubernetesSource()
    source.start(observe)
    told: list[Event] = []

    def kinds() -> list[str]:
        told.extend(one for one in source.events() if one.kind.startswith("node_"))
        return [one.kind for one in told]

    assert kinds() == [], "nodes that were there are no news"
    begun_us = observe.clock.now_us()
    cluster.put("nodes", "", node("n2"))
    eventually(lambda: totals(source)["nodes"] == 2)
    assert totals(source)["nodes_ready"] == 1
    cluster.change("nodes", "", "n2", lambda one: one.update(status=node("n2", ready=True)["status"]))
    eventually(lambda: totals(source)["nodes_ready"] == 2)
    assert deployment.unsettled(cpu_below=None, replicas=True) == "2 nodes are ready, at the baseline 1"
    cluster.change("nodes", "", "n2", lambda one: one.update(status=node("n2")["status"]))
    eventually(lambda: totals(source)["nodes_ready"] == 1)
    assert deployment.unsettled(cpu_below=None, replicas=True) == "2 nodes are there, at the baseline 1"
    cluster.drop("nodes", "", "n2")
    eventually(lambda: totals(source)["nodes"] == 1)
    assert deployment.unsettled(cpu_below=None, replicas=True) == ""
    eventually(lambda: len(kinds()) >= 4)
    assert kinds() == ["node_added", "node_ready", "node_unready", "node_removed"]
    assert {one.instance for one in told} == {"node/n2"}
    assert [one.t_us for one in told] == sorted(one.t_us for one in told)
    assert begun_us <= told[0].t_us <= told[-1].t_us <= observe.clock.now_us()
    assert json.loads(told[1].detail) == {"object_time": "2026-01-01T00:00:05Z", "machine": "big"}
    source.close()
    assert source.facts() == {"machines": {"n1": "", "n2": "big"}}


def test_the_size_of_a_node_is_told_once(observe: ObserveContext, cluster: FakeCluster) -> None:
    source = KubernetesSource()
    source.start(observe)

    def sizes(instance: str) -> dict[str, float]:
        return {one.metric: one.value for one in source.sample(1) if one.instance == instance}

    assert sizes("node/n1") == {"cpu_allocatable_cores": 2, "memory_allocatable_bytes": 4 * 2**30}
    assert sizes("node/n1") == {}
    cluster.put("nodes", "", node("n2"))
    assert eventually(lambda: sizes("node/n2"))["cpu_allocatable_cores"] == pytest.approx(3.92)
    source.close()


def test_more_steps_than_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_journal, "MOST_STEPS", 3)
    journal = NodeJournal()
    journal.on_node("ADDED", node("before"), None, 1)
    journal.open()
    for number in range(5):
        journal.on_node("ADDED", node(f"n{number}"), None, 10 + number)
    assert [(step.node, step.name, step.t_ns) for step in journal.steps_from(0)] == [
        ("n0", "added", 10), ("n1", "added", 11), ("n2", "added", 12),
    ]  # fmt: skip
    assert journal.left_out == 2
