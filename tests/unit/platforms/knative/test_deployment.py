"""Functions in a cluster with Knative: the way in, what keeps them from being ready, zero, the baseline, the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support import fake_knative
from support.fake_cluster import (
    KINDS,
    FakeCluster,
    FakeServer,
    Refusal,
    meta,
    ready_status,
    waiting_status,
)
from support.waiting import eventually
from towtank.campaign.settle import settle
from towtank.campaign.stopping import StopRequest
from towtank.design.model import Settle
from towtank.errors import PlatformError, ReadinessTimeout
from towtank.platforms.base import DeployContext, ScalesToZero
from towtank.platforms.knative.config import KnativeConfig
from towtank.platforms.knative.platform import KnativePlatform
from towtank.platforms.kubernetes import readiness
from towtank.platforms.kubernetes.client import ApiClient
from towtank.platforms.kubernetes.config import KubernetesTarget
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.platforms.kubernetes.reach import route
from towtank.platforms.kubernetes.ways import NotYet

Make = Callable[..., KnativeConfig]
FUNCTION = {"image": "registry.testbed/hello:1"}


@pytest.fixture
def functions(cluster: FakeCluster, server: FakeServer, root: Any) -> Make:
    """A config for a cluster with Knative; `functions` and all else as a test says."""
    fake_knative.install(cluster)
    kubeconfig = str(server.write_kubeconfig(root / "kubeconfig"))

    def made(**keys: Any) -> KnativeConfig:
        base = {
            "platform": "knative",
            "context": "fake",
            "kubeconfig": kubeconfig,
            "logs": False,
            "ready": {"tcp": True},
        }
        return KnativeConfig.model_validate({**base, "functions": {"fn": FUNCTION}, **keys})

    return made


@pytest.fixture
def deployed(functions: Make, context: DeployContext) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def deploy(**keys: Any) -> Any:
        made.append(KnativePlatform().deploy(functions(**keys), context))
        return made[-1]

    yield deploy
    for one in made:
        one.remove()


def test_requests_go_to_the_ingress_with_the_host_of_the_service(cluster, deployed):
    deployment = deployed()
    deployment.wait_ready(cancelled=lambda: None)
    (instance,) = deployment.targets["app"].instances
    assert instance.url == f"http://127.0.0.1:{cluster.node_port}"
    said = deployment.describe()
    namespace = said["namespace"]["name"]
    assert deployment.targets["app"].transport.host == f"fn.{namespace}.fake"
    (facts,) = said["instances"]
    assert facts["knative"] == "fn"
    assert (facts["way"], facts["service"], facts["ingress_namespace"]) == ("node_port", "envoy", "front")
    assert said["platform"] == "knative"
    assert said["knative"]["settings"] == {"config-autoscaler": {"stable-window": "60s"}}
    assert [one["name"] for one in said["knative"]["revisions"]] == ["fn-00001"]


def test_pods_bear_the_marks_of_the_deployment(cluster, deployed, context):
    deployed()
    (pod,) = cluster.all("pods")
    assert pod["metadata"]["labels"]["towtank.dev/token"] == context.token


def test_a_tag_leads_to_its_own_host(cluster, server, functions):
    config = functions()
    api = ApiClient(find_context("fake", config.kubeconfig))
    try:
        split = meta("serving.knative.dev/v1", "Route", "fn", "default")
        split["spec"] = {"traffic": [{"tag": "next"}]}
        fake_knative.control(cluster, "default", split)
        found = route(api, "default", "app", KubernetesTarget(knative="fn", tag="next"), "http")
        assert found.host == "next-fn.default.fake"
        with pytest.raises(PlatformError, match="has no tag 'old'") as caught:
            route(api, "default", "app", KubernetesTarget(knative="fn", tag="old"), "http")
        assert caught.value.hint == "it has next"
        given = KubernetesTarget(knative="fn", address="gate.example")
        assert route(api, "default", "app", given, "https").url == "https://gate.example:443"

        cluster.change("ingresses", "default", "fn", lambda one: one["status"].update(publicLoadBalancer={}))
        with pytest.raises(NotYet, match="does not say where it is"):
            route(api, "default", "app", KubernetesTarget(knative="fn"), "http")
        failed = [{"type": "Ready", "status": "Unknown", "message": "Waiting for load balancer to be ready"}]
        cluster.change("routes", "default", "fn", lambda one: one["status"].update(conditions=failed))
        with pytest.raises(NotYet, match="is not ready: Waiting for load balancer to be ready"):
            route(api, "default", "app", KubernetesTarget(knative="fn"), "http")
        cluster.answers = lambda path: Refusal(403, "Forbidden", "no") if "/routes/" in path else None
        with pytest.raises(PlatformError, match=r"routes\.serving\.knative\.dev may not be read"):
            route(api, "default", "app", KubernetesTarget(knative="fn"), "http")
    finally:
        api.close()


def test_a_revision_that_failed_is_said_with_what_its_pod_wrote(cluster, deployed, monkeypatch):
    monkeypatch.setattr(readiness, "HOPELESS_AFTER_S", 0.2)
    cluster.pod_status = waiting_status(
        "CrashLoopBackOff", restarts=1, last={"exitCode": 3, "reason": "Error"}
    )
    cluster.logs = "no such file: model.bin\n"
    deployment = deployed(ready={"tcp": True, "timeout": "20s"})
    words = 'Revision "fn-00001" failed with message: Container failed with: exit 3'
    (thing,) = [one for one in cluster.all("services") if one["metadata"]["name"] == "fn"]
    failed = [{"type": "Ready", "status": "False", "reason": "RevisionFailed", "message": words}]
    cluster.change(
        "services",
        thing["metadata"]["namespace"],
        "fn",
        lambda one: one.update(status={"conditions": failed}),
    )
    with pytest.raises(PlatformError, match="Knative says: Revision") as caught:
        deployment.wait_ready(cancelled=lambda: None)
    assert "model.bin" in caught.value.message
    assert "exit code 3" in caught.value.message
    assert "$PORT" in caught.value.hint


def test_a_function_that_never_answers_its_probe_is_said_with_its_events(cluster, deployed):
    cluster.pod_status = silent
    cluster.logs = "listening on 9090\n"
    deployment = deployed(ready={"tcp": True, "timeout": "2s"})
    (pod,) = cluster.all("pods")
    namespace = pod["metadata"]["namespace"]
    event = meta("v1", "Event", "probe", namespace)
    told = {"type": "Warning", "reason": "Unhealthy", "message": "Readiness probe failed: connection refused"}
    cluster.put("events", namespace, {**event, "involvedObject": {"uid": pod["metadata"]["uid"]}, **told})
    (thing,) = [one for one in cluster.all("services") if one["metadata"]["name"] == "fn"]
    unknown = [{"type": "Ready", "status": "Unknown", "message": "Waiting for Revision to become ready"}]
    cluster.change(
        "services",
        namespace,
        thing["metadata"]["name"],
        lambda one: one.update(status={"conditions": unknown}),
    )
    with pytest.raises(ReadinessTimeout) as caught:
        deployment.wait_ready(cancelled=lambda: None)
    for words in (
        "Waiting for Revision",
        "its readiness probe fails",
        "connection refused",
        "listening on 9090",
    ):
        assert words in caught.value.message
    assert "is the probe's path and port right?" in caught.value.hint


def silent(pod):
    """It runs and is not ready."""
    found = ready_status(pod)
    found["conditions"][1]["status"] = "False"
    for one in found["containerStatuses"]:
        one["ready"] = False
    return found


def test_what_knatives_admission_refuses_is_said_in_its_words_and_nothing_is_left(
    cluster, functions, context
):
    words = (
        'admission webhook "validation.webhook.serving.knative.dev" denied the request: validation failed: expected '
        "0 <= 900 <= 600: spec.template.spec.timeoutSeconds"
    )
    cluster.refuses["Service/fn"] = Refusal(400, "BadRequest", words)
    wanted = functions(functions={"fn": {**FUNCTION, "timeout": "15m"}})
    (problem, *_) = KnativePlatform().check(wanted, context.root)
    assert "functions.fn: Service/fn was refused: " in problem
    assert "expected 0 <= 900 <= 600: spec.template.spec.timeoutSeconds" in problem
    with pytest.raises(PlatformError, match="expected 0 <= 900 <= 600"):
        KnativePlatform().deploy(wanted, context)
    left = [one for one in cluster.store.values() if context.token in str(one["metadata"].get("labels"))]
    assert left == []


def test_a_cluster_without_knative_says_what_to_install(functions, context, monkeypatch):
    monkeypatch.delitem(KINDS, "serving.knative.dev/v1")
    (problem, *_) = KnativePlatform().check(functions(), context.root)
    assert "Knative Serving" in problem


def test_zero_is_waited_for_until_the_last_pod_is_gone(cluster, deployed):
    deployment = deployed()
    deployment.wait_ready(cancelled=lambda: None)
    assert isinstance(deployment, ScalesToZero)
    rule = Settle.model_validate({"timeout": "1s", "until": {"replicas": "zero"}})
    told = settle(rule, deployment.targets, StopRequest(), deployment)
    assert not told.reached
    assert told.problem.startswith("1 pod(s) are there, 0 of them ending")
    (pod,) = cluster.all("pods")
    cluster.drop("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    rule = Settle.model_validate({"timeout": "10s", "until": {"replicas": "zero"}})
    assert settle(rule, deployment.targets, StopRequest(), deployment).reached


def test_a_deployment_that_cannot_tell_is_never_at_zero():
    rule = Settle.model_validate({"timeout": "300ms", "until": {"replicas": "zero"}})
    told = settle(rule, {}, StopRequest(), None)
    assert "`replicas: zero` is not for this deployment" in told.problem


def test_the_baseline_is_what_is_kept_without_load(cluster, deployed):
    deployment = deployed(functions={"fn": {**FUNCTION, "scaling": {"min_scale": 1}}})
    deployment.wait_ready(cancelled=lambda: None)
    assert deployment.unsettled(cpu_below=None, replicas=True) == ""
    (thing,) = [one for one in cluster.all("services") if one["metadata"]["name"] == "fn"]
    fake_knative.add_pod(cluster, thing["metadata"]["namespace"], thing)

    def seen() -> bool:
        return "has 2 pods" in deployment.unsettled(cpu_below=None, replicas=True)

    eventually(seen, 5)
    said = deployment.unsettled(cpu_below=None, replicas=True)
    assert said == "Service/fn has 2 pods, and without load it keeps 1"


def test_functions_go_before_their_namespace_and_nothing_is_left(cluster, deployed, context):
    deployment = deployed()
    cluster.log.clear()
    deployment.remove()
    deleted = [line for line in cluster.log if line.startswith("DELETE")]
    assert deleted[0].endswith("/fn")
    assert "/namespaces/" in deleted[-1]
    left = [one for one in cluster.store.values() if context.token in str(one["metadata"].get("labels"))]
    assert left == []
