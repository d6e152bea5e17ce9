"""The source `kubernetes`: counts of pods and nodes, what autoscalers see, and lives of pods as events."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.fake_cluster import FakeCluster, FakeServer, Json, meta, waiting_status
from support.waiting import eventually
from towtank.errors import TelemetryError
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.kubernetes.workloads import workload_of
from towtank.telemetry.base import Event, ObserveContext
from towtank.telemetry.kubernetes import KubernetesSource


def values(source: KubernetesSource, instance: str) -> dict[str, float]:
    return {one.metric: one.value for one in source.sample(1) if one.instance == instance}


def scaled_to(cluster: FakeCluster, namespace: str, count: int) -> None:
    def edit(thing: Json) -> None:
        thing["spec"]["replicas"] = count

    cluster.change("deployments", namespace, "app", edit)
    cluster.scale("deployments", namespace, "app")


@pytest.fixture
def source(observe: ObserveContext) -> Any:
    made = KubernetesSource()
    made.start(observe)
    yield made
    made.close()


@pytest.fixture
def namespace(deployment: KubernetesDeployment) -> str:
    return deployment.view().namespace


def test_counts_of_pods_and_nodes(source: KubernetesSource) -> None:
    wanted = {
        "replicas_desired": 2, "replicas_current": 2, "replicas_ready": 2, "replicas_pending": 0,
        "replicas_terminating": 0, "replicas_unscheduled": 0,
        "cpu_requested_cores": 0.04, "memory_requested_bytes": 32 * 2**20,
    }  # fmt: skip
    assert values(source, "Deployment/app") == wanted
    assert values(source, "") == {**wanted, "nodes": 1, "nodes_ready": 1, "nodes_used": 1}


def test_pods_that_are_not_ready_are_pending_and_the_decision_is_an_event(
    source: KubernetesSource, cluster: FakeCluster, namespace: str
) -> None:
    list(source.events())
    cluster.pod_status = waiting_status("ContainerCreating")
    scaled_to(cluster, namespace, 5)
    eventually(lambda: values(source, "Deployment/app")["replicas_pending"] == 3)
    eventually(lambda: values(source, "Deployment/app")["replicas_desired"] == 5)
    assert values(source, "")["replicas_current"] == 5
    seen = eventually(lambda: [one for one in source.events() if one.kind == "scaled"])
    assert [(one.instance, json.loads(one.detail)) for one in seen] == [
        ("Deployment/app", {"from": 2, "to": 5})
    ]


def test_lives_of_pods_are_told_once_with_what_brought_them(
    source: KubernetesSource, cluster: FakeCluster, namespace: str, observe: ObserveContext
) -> None:
    first = list(source.events())
    assert {one.kind for one in first} == {"pod_created", "pod_scheduled", "pod_started", "pod_ready"}
    assert all(one.t_us < 0 for one in first)  # they were there before the clock's zero
    told: list[Event] = []
    (gone, _) = sorted(pod["metadata"]["name"] for pod in cluster.all("pods"))
    cluster.drop("pods", namespace, gone)

    def is_told() -> bool:
        told.extend(source.events())
        return bool(told)

    eventually(is_told)
    assert [(one.kind, one.instance) for one in told] == [("pod_gone", gone)]
    assert 0 < told[0].t_us < observe.clock.now_us()
    detail = json.loads(told[0].detail)
    assert (detail["workload"], detail["node"]) == ("Deployment/app", "n1")


def test_a_later_run_of_the_same_deployment_tells_of_the_pods_that_it_has(
    source: KubernetesSource, cluster: FakeCluster, namespace: str, observe: ObserveContext
) -> None:
    (gone, stays) = sorted(pod["metadata"]["name"] for pod in cluster.all("pods"))
    cluster.drop("pods", namespace, gone)
    eventually(lambda: any(one.kind == "pod_gone" for one in source.events()))
    later = KubernetesSource()
    later.start(observe)
    assert {one.instance for one in later.events()} == {stays}
    later.close()


def test_pulls_of_foreign_pods_are_not_told(
    source: KubernetesSource, cluster: FakeCluster, namespace: str
) -> None:
    list(source.events())
    ours, uid = (cluster.all("pods")[0]["metadata"][key] for key in ("name", "uid"))
    for name, of in (("stranger", "another"), (ours, "another"), (ours, uid)):
        about = {"kind": "Pod", "name": name, "uid": of}
        event = {
            **meta("v1", "Event", f"pull-{name}-{of}", namespace),
            "involvedObject": about,
            "reason": "Pulled",
        }
        cluster.put("events", namespace, {**event, "message": "Successfully pulled image in 1.2s"})
    (pulled,) = eventually(lambda: list(source.events()))
    assert (pulled.kind, pulled.instance) == ("pod_pulled", ours)
    assert "1.2s" in json.loads(pulled.detail)["said"]


def test_what_an_autoscaler_sees_and_wants(
    source: KubernetesSource, cluster: FakeCluster, namespace: str
) -> None:
    autoscaler = meta("autoscaling/v2", "HorizontalPodAutoscaler", "app", namespace)
    autoscaler["spec"] = {
        "scaleTargetRef": {"kind": "Deployment", "name": "app"}, "minReplicas": 1, "maxReplicas": 8,
        "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}},
            {"type": "Pods", "pods": {"metric": {"name": "queue"}, "target": {"averageValue": "30"}}},
        ],
    }  # fmt: skip
    autoscaler["status"] = {
        "currentReplicas": 2, "desiredReplicas": 4,
        "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 97}}},
            {"type": "Pods", "pods": {"metric": {"name": "queue"}, "current": {"averageValue": "45500m"}}},
            {"type": ""},
        ],
    }  # fmt: skip
    cluster.put("horizontalpodautoscalers", namespace, autoscaler)
    other = meta("autoscaling/v2", "HorizontalPodAutoscaler", "theirs", namespace)
    other["spec"] = {"scaleTargetRef": {"kind": "Deployment", "name": "theirs"}}
    cluster.put("horizontalpodautoscalers", namespace, other)
    eventually(lambda: values(source, "HorizontalPodAutoscaler/app"))
    assert values(source, "HorizontalPodAutoscaler/app") == {
        "replicas_current": 2, "replicas_desired": 4, "replicas_least": 1, "replicas_most": 8,
    }  # fmt: skip
    assert values(source, "HorizontalPodAutoscaler/app/cpu") == {"seen_ratio": 0.97, "target_ratio": 0.5}
    assert values(source, "HorizontalPodAutoscaler/app/queue") == {"seen_value": 45.5, "target_value": 30}
    assert not any("theirs" in one.instance for one in source.sample(1))

    def undecided(thing: Json) -> None:
        thing["status"] = {"desiredReplicas": 0}

    cluster.change("horizontalpodautoscalers", namespace, "app", undecided)
    eventually(lambda: "replicas_desired" not in values(source, "HorizontalPodAutoscaler/app"))
    source.close()
    kept = source.facts()["autoscalers"]
    assert kept == {"app": autoscaler["spec"]}, "what it goes by, for what it should have done"


NO_METRICS = (
    "the HPA was unable to compute the replica count: unable to get metrics for resource cpu: no metrics returned from "
    "resource metrics API"
)


def test_an_autoscaler_that_cannot_read_its_metric_is_told_in_its_words(
    source: KubernetesSource, cluster: FakeCluster, namespace: str
) -> None:
    def says(status: str, reason: str, message: str) -> list[Event]:
        condition = {"type": "ScalingActive", "status": status, "reason": reason, "message": message}
        autoscaler = meta("autoscaling/v2", "HorizontalPodAutoscaler", "app", namespace)
        autoscaler["spec"] = {"scaleTargetRef": {"kind": "Deployment", "name": "app"}, "maxReplicas": 8}
        autoscaler["status"] = {"conditions": [condition], "currentReplicas": len(seen)}
        cluster.drop("horizontalpodautoscalers", namespace, "app")
        cluster.put("horizontalpodautoscalers", namespace, autoscaler)
        known = {"replicas_current": float(len(seen))}
        eventually(lambda: known.items() <= values(source, "HorizontalPodAutoscaler/app").items())
        list(source.sample(1))
        found = [one for one in source.events() if one.kind.startswith("autoscaler_")]
        seen.append(found)
        return found

    seen: list[list[Event]] = []
    (blind,) = says("False", "FailedGetResourceMetric", NO_METRICS)
    assert (blind.kind, blind.instance) == ("autoscaler_blind", "HorizontalPodAutoscaler/app")
    assert blind.message.endswith(f"cannot scale: FailedGetResourceMetric: {NO_METRICS}")
    assert "metrics-server" in json.loads(blind.detail)["advice"]
    assert says("False", "FailedGetResourceMetric", NO_METRICS) == [], "said once"
    (sees,) = says("True", "ValidMetricFound", "the HPA was able to compute the replica count")
    assert sees.kind == "autoscaler_sees"
    assert (
        says("False", "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
        == []
    )


def test_an_api_server_that_is_gone_is_a_failure_not_old_numbers(
    source: KubernetesSource, server: FakeServer, deployment: KubernetesDeployment
) -> None:
    server.token = "another"  # nobody who was let in before is let in again
    server.serving.clear()
    try:
        eventually(lambda: bool(deployment.view().unheard()))
        with pytest.raises(TelemetryError, match=r"is not heard|may not be watched any more"):
            source.sample(1)
    finally:
        server.token = ""
        server.serving.set()


def test_what_may_not_be_watched_is_said_and_the_rest_goes_on(
    observe: ObserveContext, cluster: FakeCluster, make: Callable[..., KubernetesConfig], root: Path
) -> None:
    cluster.denied = {("list", "deployments"), ("watch", "deployments")}
    (problem,) = KubernetesSource().look_ahead_at({}, [make()], root)
    assert (
        "the right to list, watch deployments.apps in the whole cluster (for `observe: [kubernetes]`)"
        in problem
    )
    source = KubernetesSource()
    source.start(observe)
    (event,) = [one for one in source.events() if one.kind == "not_observable"]
    assert event.instance == "Deployment"
    assert "cannot list" in event.message
    assert "replicas_desired" not in values(source, "")
    assert values(source, "")["replicas_ready"] == 2
    source.close()


def test_a_deployment_elsewhere_yields_nothing_and_says_so(observe: ObserveContext) -> None:
    source = KubernetesSource()
    source.start(replace(observe, deployment=None))
    assert list(source.sample(1)) == []
    assert [event.kind for event in source.events()] == ["not_observable"]


@pytest.mark.parametrize(
    ("owner", "labels", "workload"),
    [
        ({"kind": "ReplicaSet", "name": "a-b-5f"}, {"pod-template-hash": "5f"}, "Deployment/a-b"),
        ({"kind": "ReplicaSet", "name": "bare"}, {}, "ReplicaSet/bare"),
        ({"kind": "StatefulSet", "name": "db"}, {}, "StatefulSet/db"),
        (None, {}, "Pod/p"),
    ],
)
def test_what_brought_a_pod(owner: Json | None, labels: dict[str, str], workload: str) -> None:
    pod = meta("v1", "Pod", "p", "ns", labels)
    if owner is not None:
        pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    assert workload_of(pod) == workload
