"""Faults from the nodes, on a real cluster: each is felt by requests, and undone; nothing of the helpers is left."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.cluster_app import config_for, deployed, wait_for
from support.pod_study import kill_under_fault, left_of, way_in, write_study
from towtank.errors import PlatformError
from towtank.faults.disk import NAME
from towtank.platforms.base import DeployContext, Filling
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.kubernetes.disturbers import container_ids

pytestmark = pytest.mark.cluster

VOLUME = {
    "target": "Deployment/app",
    "merge": {
        "spec": {
            "template": {
                "spec": {
                    "containers": [{"name": "app", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
                    "volumes": [{"name": "data", "emptyDir": {}}],
                }
            }
        }
    },
}


@pytest.fixture
def deployment(cluster: Any, context: DeployContext, engine_image: str) -> Iterator[KubernetesDeployment]:
    config = config_for(cluster, disturber={"image": engine_image}, patches=[VOLUME])
    with deployed(config, context) as made:
        yield made


def answers(deployment: KubernetesDeployment, timeout_s: float = 20.0) -> bool:
    """Over a connection of its own."""
    (instance,) = deployment.targets["app"].instances
    try:
        return httpx.get(f"{instance.url}/healthz", trust_env=False, timeout=timeout_s).is_success
    except httpx.HTTPError:
        return False


def pids_of(pod: dict[str, Any]) -> list[int]:
    """Its processes on this machine; none where the nodes are others."""
    ids = container_ids(pod)
    found = []
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            groups = path.read_text()
        except OSError:
            continue
        found += [int(path.parent.name)] if any(one in groups for one in ids) else []
    return found


def test_pods_are_disturbed_from_their_nodes_and_all_of_it_is_undone(
    deployment: KubernetesDeployment, cluster: Any
) -> None:
    (name,) = deployment.victims("app")
    assert answers(deployment)
    it_is_stopped_and_cut_off_for_a_while(deployment, name)
    pod = deployment._pod(name)
    restarts = [one["restartCount"] for one in pod["status"]["containerStatuses"]]
    assert (deployment.victims("app"), restarts) == ([name], [0])
    the_deadline_undoes_it(deployment, name)
    a_volume_is_filled(deployment, name)
    cpu_is_taken(deployment, name)


def it_is_stopped_and_cut_off_for_a_while(deployment: KubernetesDeployment, name: str) -> None:
    for begin in (
        lambda: deployment.stop_instance(name, lasts_s=30),
        lambda: deployment.cut_instance(name, "instance", lasts_s=30),
    ):
        undo = begin()
        assert not answers(deployment, timeout_s=0.7)
        undo()
        assert answers(deployment)


def the_deadline_undoes_it(deployment: KubernetesDeployment, name: str) -> None:
    undo = deployment.stop_instance(name, lasts_s=0.0)
    assert not answers(deployment, timeout_s=0.5)
    assert answers(deployment), "it went on though nobody said so"
    undo()


def a_volume_is_filled(deployment: KubernetesDeployment, name: str) -> None:
    written, undo = deployment.fill_volume(name, Filling("/data", 3 << 20, 1 << 30, 1 << 30), lasts_s=60)
    assert written == 3 << 20
    pids = pids_of(deployment._pod(name))
    files = [Path(f"/proc/{pid}/root/data/{NAME}") for pid in pids]
    assert all(file.stat().st_size == 3 << 20 for file in files)
    undo()
    assert not any(file.exists() for file in files)
    with pytest.raises(PlatformError, match="has no volume at '/tmp'; it has /data"):
        deployment.fill_volume(name, Filling("/tmp", 1, 0, 0))
    with pytest.raises(PlatformError, match="must stay free"):
        deployment.fill_volume(name, Filling("/data", 1 << 20, 1 << 60, 1 << 60))


def cpu_is_taken(deployment: KubernetesDeployment, name: str) -> None:
    """The pod has no CPU limit: its control group gets one for a time."""
    pids = pids_of(deployment._pod(name))

    def ticks() -> int:
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
        return sum(int(one[11]) + int(one[12]) for one in fields)

    def burnt_share() -> float:
        (instance,) = deployment.targets["app"].instances
        before, begun = ticks(), time.monotonic()
        httpx.get(f"{instance.url}/?ms=1500", trust_env=False, timeout=60)
        return (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begun)

    undo = deployment.limit_cpu(name, 0.05, lasts_s=60)
    if pids:
        assert burnt_share() < 0.15
    with pytest.raises(PlatformError, match="would take nothing away"):
        deployment.limit_cpu(name, 0.05, lasts_s=60)
    undo()
    if pids:
        wait_for(lambda: burnt_share() > 0.2)


def test_orders_go_through_the_api_server_where_there_is_no_route(
    no_route: None, deployment: KubernetesDeployment
) -> None:
    """What is told over that way, told while the pod is cut off, and undone by itself."""
    (name,) = deployment.victims("app")
    it_is_stopped_and_cut_off_for_a_while(deployment, name)
    the_deadline_undoes_it(deployment, name)


@pytest.mark.alone  # breaks a part of the cluster
@pytest.mark.parametrize("way", ["direct", "port_forward"])
def test_a_node_is_cut_off_for_its_time(way: str, request: pytest.FixtureRequest) -> None:
    if way == "port_forward":
        request.getfixturevalue("no_route")
    deployment: KubernetesDeployment = request.getfixturevalue("deployment")
    (name,) = deployment.victims("app")
    begun = time.monotonic()
    undo = deployment.cut_instance(name, "node", lasts_s=3.0)
    time.sleep(0.3)
    assert not answers(deployment, timeout_s=1.0)
    undo()
    assert time.monotonic() - begun >= 3.0
    assert wait_for(lambda: answers(deployment, timeout_s=5.0))


def test_where_pod_security_forbids_them_the_server_says_so(
    cluster: Any, context: DeployContext, engine_image: str, namespace: str
) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    config = config_for(cluster, disturber={"image": engine_image, "namespace": namespace})
    with pytest.raises(PlatformError, match='violates PodSecurity "restricted:latest"') as refused:
        deployed(config, context).__enter__()
    assert "disturbers may not stand in namespace" in refused.value.message


@pytest.mark.timeout(300)
def test_a_fault_is_undone_though_towtank_was_killed(cluster: Any, engine_image: str, tmp_path: Path) -> None:
    file = write_study(
        tmp_path, "pod-stop", ["stop", "none"], [{"kind": "${{ fault }}", "at": "4s", "for": "100s"}],
        cluster=cluster, duration="120s", app={"disturber": {"image": engine_image}}, order="listed",
    )  # fmt: skip
    kill_under_fault(file, lambda: way_in(cluster, "pod-stop", _answers), _answers)
    assert left_of(cluster, "pod-stop", "namespaces,daemonsets") == []


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=1.0).is_success
    except httpx.HTTPError:
        return False
