"""Containers: what agents saw becomes steps of pods once their ids are known; others' are left out."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from towtank.clock import RunClock
from towtank.telemetry.agent.containers import Containers, Seen

ID = "a" * 64


def pod(started: datetime | None = None, *, node: str = "n1", ended: str = "") -> dict[str, Any]:
    at = (started or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
    one: dict[str, Any] = {
        "name": "app",
        "containerID": f"containerd://{ID}",
        "state": {"running": {"startedAt": at}},
    }
    if ended:
        one["lastState"] = {"terminated": {"containerID": f"containerd://{ended}", "startedAt": at}}
    return {
        "metadata": {
            "name": "app-1",
            "uid": "u1",
            "ownerReferences": [{"kind": "StatefulSet", "name": "app"}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "app"}]},
        "status": {"containerStatuses": [one]},
    }


def seen(what: str = "started", container: str = ID, node: str = "n1", t_ns: int | None = None) -> Seen:
    return Seen(time.monotonic_ns() if t_ns is None else t_ns, 1000, node, what, "u1", container)


def test_a_start_is_told_when_its_pod_names_it():
    clock = RunClock(time.monotonic_ns())
    containers = Containers(clock, "agent")
    saw = seen()
    containers.saw(saw)
    assert containers.events([]) == []
    (event,) = containers.events([pod()])
    assert (event.kind, event.instance, event.t_us) == (
        "pod_container_started",
        "app-1",
        clock.at_us(saw.t_ns),
    )
    detail = json.loads(event.detail)
    assert detail["container"] == "app"
    assert detail["workload"] == "StatefulSet/app"
    assert detail["uid"] == "u1"
    assert detail["object_time"]
    assert containers.events([pod()]) == [], "once"


def test_the_end_of_a_container_that_is_gone_is_told():
    containers = Containers(RunClock(0), "agent")
    containers.events([pod()])
    containers.saw(seen("ended"))
    (event,) = containers.events([])
    assert event.kind == "pod_container_ended"
    assert "object_time" not in json.loads(event.detail)


def test_a_container_that_was_replaced_is_known_by_its_last_state():
    containers = Containers(RunClock(0), "agent")
    containers.saw(seen("ended", "b" * 64))
    assert [one.kind for one in containers.events([pod(ended="b" * 64)])] == ["pod_container_ended"]


def test_sandboxes_and_groups_of_another_node_are_left_out():
    containers = Containers(RunClock(0), "agent")
    containers.saw(seen(container="c" * 64))
    containers.saw(seen(node="n2"))
    assert containers.events([pod()]) == []


def test_an_instant_that_its_object_contradicts_is_a_finding():
    containers = Containers(RunClock(0), "agent")
    containers.saw(seen())
    events = containers.events([pod(datetime.now(UTC) - timedelta(seconds=30))])
    assert [one.kind for one in events] == ["pod_container_started", "container_times_differ"]
    assert "advice" in json.loads(events[1].detail)
    containers = Containers(RunClock(0), "agent")
    containers.saw(seen())
    assert len(containers.events([pod(datetime.now(UTC))])) == 1
