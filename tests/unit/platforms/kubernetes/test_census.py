"""Pods are counted with each message, and only what is asked for is kept of them."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from support.fake_cluster import Json, meta, ready_status
from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.census import Census, requested
from towtank.platforms.kubernetes.kept import OF_EVENT, OF_NODE, OF_POD, kept


def pod(name: str, node: str = "n1", *, ready: bool = True, cpu: str = "100m", **metadata: Any) -> Json:
    thing = meta("v1", "Pod", name, "ns", {"pod-template-hash": "5f"})
    thing["metadata"] |= {
        "uid": name,
        "ownerReferences": [{"kind": "ReplicaSet", "name": "app-5f", "uid": "rs", "controller": True}],
        **metadata,
    }
    thing["spec"] = {
        "nodeName": node,
        "containers": [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "16Mi"}}}],
    }
    thing["status"] = ready_status(thing) if ready else {"phase": "Pending"}
    return thing


def test_every_state_counts_and_what_was_counts_no_more() -> None:
    census = Census()
    waiting = pod("a", "", ready=False)
    census.on_pod("ADDED", waiting, None, 0)
    assert census.by_workload() == {"Deployment/app": {"pending": 1, "unscheduled": 1}}
    assert census.nodes == frozenset()
    placed = pod("a", ready=False)
    census.on_pod("MODIFIED", placed, waiting, 0)
    census.on_pod("ADDED", pod("b", "n2"), None, 0)
    assert census.by_workload()["Deployment/app"] == {
        "pending": 1, "ready": 1, "millicores": 200, "memory_bytes": 32 * 2**20,
    }  # fmt: skip
    assert census.nodes == {"n1", "n2"}
    assert census.is_on("n2")
    leaving = pod("a", deletionTimestamp="t")
    census.on_pod("MODIFIED", leaving, placed, 0)
    assert census.by_workload()["Deployment/app"]["terminating"] == 1
    census.on_pod("DELETED", leaving, leaving, 0)
    census.on_pod("DELETED", pod("b", "n2"), pod("b", "n2"), 0)
    census.on_pod("DELETED", pod("stranger"), None, 0)
    assert census.by_workload() == {}
    assert not census.is_on("n1")


def test_a_pod_that_ran_to_its_end_stands_on_its_node_and_counts_for_nothing_else() -> None:
    census = Census()
    done = pod("a")
    done["status"]["phase"] = "Succeeded"
    census.on_pod("ADDED", done, None, 0)
    assert (census.by_workload(), census.nodes) == ({}, {"n1"})


@pytest.mark.parametrize(
    ("spec", "millicores", "mebibytes"),
    [
        ({}, 100, 16),
        ({"overhead": {"cpu": "50m", "memory": "4Mi"}}, 150, 20),
        (
            {
                "initContainers": [
                    {"name": "first", "resources": {"requests": {"cpu": "2"}}},
                    {"name": "beside", "restartPolicy": "Always", "resources": {"requests": {"cpu": "0.2"}}},
                ]
            },
            300,
            16,
        ),
        ({"resources": {"requests": {"cpu": "1"}}}, 1000, 16),
        ({"containers": [{"name": "app"}]}, 0, 0),
    ],
)
def test_what_a_running_pod_requests(spec: Json, millicores: int, mebibytes: int) -> None:
    one = pod("a")
    one["spec"] |= spec
    assert requested(one) == (millicores, mebibytes * 2**20)


def test_of_a_pod_only_what_is_asked_for_is_kept() -> None:
    whole = pod("a")
    whole["metadata"] |= {"annotations": {"long": "x" * 5000}, "managedFields": [{"manager": "m"}]}
    whole["spec"] |= {"volumes": [{"name": "token"}], "tolerations": [{"operator": "Exists"}]}
    whole["spec"]["containers"][0] |= {"env": [{"name": "A", "value": "b"}], "image": "i"}
    one, other = kept(whole, OF_POD), kept(pod("b"), OF_POD)
    assert set(one["metadata"]) == {"name", "namespace", "uid", "labels", "ownerReferences"}
    assert set(one["spec"]) == {"nodeName", "containers"}
    assert set(one["spec"]["containers"][0]) == {"name", "image", "resources"}
    assert pods.is_ready(one)
    assert pods.shown(one) == pods.shown(whole)
    assert requested(one) == requested(whole)
    assert one["metadata"]["ownerReferences"][0]["name"] is other["metadata"]["ownerReferences"][0]["name"]
    assert "env" in whole["spec"]["containers"][0], "the object itself stays as it was"


def test_of_what_is_kept_the_images_under_their_names_are_known() -> None:
    """The names of the `spec`: a node may call the same image by another one."""
    names = {"app": "shop:1", "side": "proxy:2"}
    whole = {
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": name, "image": image} for name, image in names.items()]},
        "status": {
            "containerStatuses": [
                {"name": name, "image": "sha256:0", "imageID": f"{name}@sha256:1"} for name in names
            ]
        },
    }
    assert pods.images([kept(whole, OF_POD)]) == {"shop:1": ["app@sha256:1"], "proxy:2": ["side@sha256:1"]}


def test_of_nodes_and_events_too() -> None:
    node = meta("v1", "Node", "n1", labels={"zone": "a"})
    node["status"] = {
        "images": [{"names": ["i"]}], "allocatable": {"cpu": "2"},
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": sys.version}],
    }  # fmt: skip
    assert kept(node, OF_NODE)["status"] == {
        "conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2"},
    }  # fmt: skip
    event = {**meta("v1", "Event", "e"), "reason": "Pulled", "source": {"component": "kubelet"}}
    assert kept(event, OF_EVENT) == {"metadata": {"name": "e"}, "reason": "Pulled"}
