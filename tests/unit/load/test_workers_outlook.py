"""Workers in a cluster: what can be known before, about context, rights, nodes and room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.fake_cluster import FakeCluster, FakeServer, meta
from support.fake_deployment import cluster, listening, server  # noqa: F401 - fixtures
from towtank.design.generator_model import Generator
from towtank.load.workers.outlook import Outlook, free_for, look_ahead, requested


@pytest.fixture
def kubeconfig(server: FakeServer, tmp_path: Path) -> str:  # noqa: F811 - the fixture
    return str(server.write_kubeconfig(tmp_path / "kubeconfig"))


def ahead(kubeconfig: str, *, workers: int = 1, **keys: Any) -> Outlook:
    about = {"context": "fake", "kubeconfig": kubeconfig, "image": "registry/engine:1", **keys}
    return look_ahead(
        Generator.model_validate({"where": "cluster", "workers": workers, "cluster": about}), None
    )


def runs(node: str, **requests: str) -> dict[str, Any]:
    thing = meta("v1", "Pod", f"busy-{len(requests)}-{node}", "default")
    thing["spec"] = {"nodeName": node, "containers": [{"name": "a", "resources": {"requests": requests}}]}
    return thing


def test_nothing_is_wrong_and_nothing_is_left(cluster: FakeCluster, kubeconfig: str) -> None:  # noqa: F811
    assert ahead(kubeconfig) == Outlook()
    assert look_ahead(Generator(), None) == Outlook()
    assert cluster.all("jobs") + cluster.all("secrets") == []
    assert any("POST" in line and "jobs dry-run" in line for line in cluster.log)


def test_a_context_that_is_not_there(kubeconfig: str) -> None:
    (problem,) = ahead(kubeconfig, context="fakes").problems
    assert problem.startswith("generator.cluster: there is no context 'fakes'")
    assert "did you mean 'fake'?" in problem


def test_rights_and_namespaces_are_asked_for(cluster: FakeCluster, kubeconfig: str) -> None:  # noqa: F811
    (problem,) = ahead(kubeconfig, namespace="mine").problems
    assert "there is no namespace 'mine'" in problem
    cluster.denied = {("create", "jobs")}
    problems = ahead(kubeconfig).problems
    assert "the right to create jobs.batch in the whole cluster" in problems[0]
    assert "towtank doctor --context fake" in problems[1]
    cluster.denied = {("get", "pods/portforward")}
    assert ahead(kubeconfig) == Outlook()
    assert "the right to get pods/portforward" in ahead(kubeconfig, control="port_forward").problems[0]


def test_labels_that_no_node_has(cluster: FakeCluster, kubeconfig: str) -> None:  # noqa: F811
    (problem,) = ahead(kubeconfig, node_selector={"pool": "load"}).problems
    assert "no node that pods may use has the labels of `node_selector` (pool=load); there are n1" in problem
    cluster.change("nodes", "", "n1", lambda node: node["metadata"]["labels"].update(pool="load"))
    assert ahead(kubeconfig, node_selector={"pool": "load"}) == Outlook()
    cluster.change("nodes", "", "n1", lambda node: node.update(spec={"unschedulable": True}))
    assert ahead(kubeconfig, node_selector={"pool": "load"}).problems


def test_room_is_what_others_have_not_reserved(cluster: FakeCluster, kubeconfig: str) -> None:  # noqa: F811
    assert ahead(kubeconfig, workers=2) == Outlook()
    cluster.put("pods", "default", runs("n1", cpu="600m"))
    (problem,) = ahead(kubeconfig, workers=2).problems
    assert "there is room for 1 of 2 workers of 1 CPU each (n1: 1)" in problem
    assert ahead(kubeconfig, workers=2, cpu=0.5) == Outlook()
    (problem,) = ahead(kubeconfig, workers=2, cpu=0.1, memory="3Gi").problems
    assert "of 0.1 CPU and 3" in problem


def test_a_cluster_that_may_add_nodes_is_given_the_chance(
    cluster: FakeCluster,  # noqa: F811
    kubeconfig: str,
) -> None:
    cluster.change("nodes", "", "n1", lambda node: node.update(spec={"providerID": "gce://p/z/n1"}))
    found = ahead(kubeconfig, workers=9)
    assert found.problems == ()
    assert found.remarks[0].endswith("the cluster may add nodes for them")


def test_where_nodes_may_not_be_read_nothing_is_said_of_them(
    cluster: FakeCluster,  # noqa: F811
    kubeconfig: str,
) -> None:
    cluster.denied = {("list", "nodes")}
    assert ahead(kubeconfig, workers=64) == Outlook()


def test_a_pod_reserves_what_its_largest_moment_needs() -> None:
    def needs(cpu: str, **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "initContainers": [needs("2"), needs("100m", restartPolicy="Always")],
        "containers": [needs("500m"), {"resources": {"limits": {"cpu": "1"}}}],
        "overhead": {"cpu": "50m"},
    }
    assert requested({"spec": spec}, "cpu") == pytest.approx(2.05)
    node = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "pods": "3"}}}
    there = {"spec": {**spec, "nodeName": "a"}}
    assert free_for(node, [there], cpu=0.65, memory_bytes=0) == 2  # three by CPU, two by number
    assert free_for(node, [there], cpu=1.0, memory_bytes=0) == 1
