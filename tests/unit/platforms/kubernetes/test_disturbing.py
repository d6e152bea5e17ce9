"""Faults on pods, against an API server in memory: which are hit, how they are killed, and how CPU is taken away."""

from __future__ import annotations

import time

import pytest

from support.cluster_app import patched
from support.fake_cluster import Refusal
from towtank.errors import PlatformError
from towtank.faults import registry as faults
from towtank.platforms import base, registry
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.kubernetes.disturbers import container_ids
from towtank.platforms.kubernetes.disturbing import lowered, with_volume
from towtank.platforms.kubernetes.platform import KubernetesPlatform


@pytest.fixture
def deployed(make, context):
    made = []

    def deploy(**keys):
        made.append(KubernetesPlatform().deploy(make(**keys), context))
        made[-1].wait_ready(cancelled=lambda: None)
        return made[-1]

    yield deploy
    for one in made:
        one.remove()


def test_the_deployment_has_the_powers_that_its_platform_names():
    needs = {
        "kill": base.KillsInstances,
        "cpu": base.LimitsCpu,
        "stop": base.StopsInstances,
        "partition": base.CutsInstances,
        "disk": base.FillsVolumes,
        **dict.fromkeys(("delay", "drop", "abort"), base.HasWholeEdges),
    }
    assert set(registry.kind("kubernetes").faults) == set(needs)
    for power in (base.HasVictims, *needs.values()):
        methods = [name for name in vars(power) if not name.startswith("_")]
        assert all(hasattr(KubernetesDeployment, name) for name in methods), power
    assert set(needs) <= set(faults.names())


@pytest.mark.parametrize(
    ("had", "gets"),
    [
        (
            {"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "500m"}},
            {"limits": {"cpu": "100m", "memory": "64Mi"}, "requests": {"cpu": "50m"}},
        ),
        (
            {"limits": {"cpu": "1"}, "requests": {"cpu": "20m"}},
            {"limits": {"cpu": "100m"}, "requests": {"cpu": "20m"}},
        ),
        (
            {"limits": {"cpu": "1"}, "requests": {"cpu": "1000m"}},
            {"limits": {"cpu": "100m"}, "requests": {"cpu": "100m"}},
        ),
    ],
)
def test_the_quality_of_service_stays_what_it_was(had, gets):
    """What was asked for and its limit are equal afterwards only where they were before."""
    before = {key: dict(value) for key, value in had.items()}
    assert lowered(had, 0.1) == gets
    assert had == before, "what it had is put back later"


def test_ready_pods_behind_the_service_are_hit(deployed, cluster):
    deployment = deployed()
    names = deployment.victims("app")
    assert names == sorted(pod["metadata"]["name"] for pod in cluster.all("pods"))
    assert names
    pod = cluster.all("pods")[0]
    cluster.change(
        "pods", pod["metadata"]["namespace"], pod["metadata"]["name"],
        lambda it: it["status"]["conditions"][1].update(status="False"),
    )  # fmt: skip
    eventually(lambda: pod["metadata"]["name"] not in deployment.victims("app"))


def test_a_pod_is_killed_by_its_uid_and_once(deployed, cluster):
    deployment = deployed()
    name = deployment.victims("app")[0]
    deployment.kill_instance(name, grace_s=0)
    assert name not in {pod["metadata"]["name"] for pod in cluster.all("pods")}
    eventually(lambda: name not in deployment.victims("app"))
    with pytest.raises(PlatformError, match="there is no pod"):
        deployment.kill_instance(name, grace_s=0)


LIMIT = patched(resources={"limits": {"cpu": "500m"}})


def test_without_a_limit_none_is_given_since_it_could_not_be_taken_back(deployed, cluster):
    deployment = deployed()
    with pytest.raises(PlatformError, match=r"container app of pod .* has no CPU limit"):
        deployment.limit_cpu(deployment.victims("app")[0], 0.05)
    assert not any("/resize" in line for line in cluster.log)


def test_cpu_is_taken_from_a_running_pod_and_given_back(deployed, cluster):
    deployment = deployed(patches=[LIMIT])
    name = deployment.victims("app")[0]

    def resources():
        (pod,) = [pod for pod in cluster.all("pods") if pod["metadata"]["name"] == name]
        return [container.get("resources") or {} for container in pod["spec"]["containers"]]

    before = resources()
    undo = deployment.limit_cpu(name, 0.05)
    assert all(one["limits"]["cpu"] == "50m" for one in resources())
    undo()
    assert resources() == before
    assert any("/resize" in line for line in cluster.log)


def test_a_pod_that_went_takes_its_limit_along(deployed):
    deployment = deployed(patches=[LIMIT])
    name = deployment.victims("app")[0]
    undo = deployment.limit_cpu(name, 0.05)
    deployment.kill_instance(name, grace_s=0)
    undo()


def eventually(holds, within_s=10):
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


# --- from the nodes ------------------------------------------------------------------------------------------------

POD = {
    "metadata": {"name": "app-1"},
    "spec": {
        "containers": [
            {"name": "web", "volumeMounts": [{"name": "conf", "mountPath": "/etc/web", "readOnly": True}]},
            {"name": "db", "volumeMounts": [{"name": "data", "mountPath": "/var/db"}]},
        ]
    },
    "status": {
        "containerStatuses": [
            {"name": "web", "containerID": "containerd://aa", "state": {"running": {}}},
            {"name": "db", "containerID": "cri-o://bb", "state": {"running": {}}},
            {"name": "old", "containerID": "cri-o://cc", "state": {"terminated": {}}},
        ]
    },
}


@pytest.mark.parametrize("folder", ["/var/db", "/var/db/log", "/var/db/"])
def test_a_volume_is_found_by_its_path(folder):
    assert with_volume(POD, folder) == "bb"


@pytest.mark.parametrize("folder", ["/etc/web", "/var", "/var/db/../..", "var/db", "."])
def test_what_is_no_volume_is_refused(folder):
    with pytest.raises(PlatformError, match=r"pod app-1 has no volume at .*; it has /var/db"):
        with_volume(POD, folder)


def test_only_running_containers_are_hit():
    assert container_ids(POD) == ["aa", "bb"]
    with pytest.raises(PlatformError, match="has no container that runs"):
        container_ids({"metadata": {"name": "app-1"}, "status": {}})


def test_without_disturbers_what_needs_them_says_so(deployed):
    deployment = deployed()
    (name,) = deployment.victims("app")
    with pytest.raises(PlatformError, match="has no disturbers, which this fault needs") as refused:
        deployment.stop_instance(name)
    assert "disturber: {image: " in refused.value.hint


def test_where_pod_security_forbids_them_nothing_is_left(cluster, make, context):
    cluster.refuses["Pod/towtank-disturber"] = Refusal(
        403, "Forbidden", 'pods "x" is forbidden: violates PodSecurity "restricted"'
    )
    with pytest.raises(
        PlatformError, match=r'may not stand in namespace towtank-shop-.*-faults: .*"restricted"'
    ):
        KubernetesPlatform().deploy(make(disturber={"image": "engine:1"}), context)
    assert [name for kind, _, name in cluster.store if kind == "namespaces"] == ["default", "kube-system"]


def test_disturbers_stand_beside_the_deployment_and_go_with_it(cluster, make, context):
    deployment = KubernetesPlatform().deploy(make(disturber={"image": "engine:1"}), context)
    (made,) = [thing for (kind, _, _), thing in cluster.store.items() if kind == "daemonsets"]
    place = next(
        thing for (kind, _, name), thing in cluster.store.items() if name == made["metadata"]["namespace"]
    )
    assert place["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert place["metadata"]["labels"]["towtank.dev/token"] == f"{context.token}-faults"
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["args"][:2] == ["disturb", "--listen"]
    deployment.remove()
    assert [name for kind, _, name in cluster.store if kind == "namespaces"] == ["default", "kube-system"]


def test_what_a_killed_towtank_left_of_them_is_swept(cluster, make, context, monkeypatch):
    KubernetesPlatform().deploy(make(disturber={"image": "engine:1"}), context)
    monkeypatch.setattr("towtank.platforms.kubernetes.platform.live_holder", lambda *_: "")
    assert KubernetesPlatform().sweep_noted(context.token, context.data_dir.parent) >= 2
    assert [name for kind, _, name in cluster.store if kind == "namespaces"] == ["default", "kube-system"]
