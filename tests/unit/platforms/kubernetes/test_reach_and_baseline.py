"""Ways into a cluster, and whether a deployment is back where it began."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.fake_cluster import FakeCluster, FakeServer, meta
from towtank.errors import PlatformError
from towtank.platforms.base import DeployContext, KnowsBaseline
from towtank.platforms.kubernetes.client import ApiClient
from towtank.platforms.kubernetes.config import KubernetesConfig, KubernetesTarget
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.platforms.kubernetes.platform import KubernetesPlatform
from towtank.platforms.kubernetes.quantities import quantity
from towtank.platforms.kubernetes.reach import route
from towtank.platforms.kubernetes.ways import NotYet

Make = Callable[..., KubernetesConfig]


@pytest.fixture
def api(server: FakeServer, make: Make) -> Iterator[ApiClient]:
    client = ApiClient(find_context("fake", make().kubeconfig))
    yield client
    client.close()


def service(cluster: FakeCluster, **spec: Any) -> None:
    thing = meta("v1", "Service", "shop", "default")
    thing["spec"] = {
        "clusterIP": "127.0.0.1",
        "ports": [{"port": 80, "name": "http", "nodePort": cluster.node_port}],
        **spec,
    }
    thing["status"] = spec.pop("status", {})
    cluster.put("services", "default", thing)


def to(**keys: Any) -> KubernetesTarget:
    return KubernetesTarget.model_validate({"service": "shop", **keys})


def test_node_port(cluster: FakeCluster, api: ApiClient) -> None:
    service(cluster, type="NodePort")
    found = route(api, "default", "app", to(), "http")
    assert found.url == f"http://127.0.0.1:{cluster.node_port}"
    assert found.facts["node"] == "n1"
    assert found.facts["balancing"] == "kube-proxy balances connections, not requests"
    assert (
        route(api, "default", "app", to(address="gate.example"), "https").url
        == f"https://gate.example:{cluster.node_port}"
    )
    cluster.change("nodes", "", "n1", lambda node: node["status"].update(conditions=[]))
    with pytest.raises(NotYet, match="no node answers on port"):
        route(api, "default", "app", to(), "http")


def test_node_port_of_a_service_that_answers_on_some_nodes_only(cluster: FakeCluster, api: ApiClient) -> None:
    service(cluster, type="NodePort", externalTrafficPolicy="Local")
    with pytest.raises(PlatformError, match="only on nodes that have a pod of it"):
        route(api, "default", "app", to(), "http")


def test_load_balancer_and_ingress_wait_for_their_address(cluster: FakeCluster, api: ApiClient) -> None:
    service(cluster, type="LoadBalancer")
    with pytest.raises(NotYet, match="has no address of a load balancer yet"):
        route(api, "default", "app", to(), "http")
    at = {"loadBalancer": {"ingress": [{"ip": "fd00::1"}]}}
    cluster.change("services", "default", "shop", lambda thing: thing.update(status=at))
    assert route(api, "default", "app", to(), "http").url == "http://[fd00::1]:80"
    ingress = meta("networking.k8s.io/v1", "Ingress", "shop", "default")
    ingress["spec"] = {"rules": [{"host": "shop.example"}], "ingressClassName": "nginx"}
    cluster.put("ingresses", "default", ingress)
    target = KubernetesTarget(ingress="shop")
    with pytest.raises(NotYet, match="has no address yet"):
        route(api, "default", "app", target, "http")
    cluster.change("ingresses", "default", "shop", lambda thing: thing.update(status=at))
    found = route(api, "default", "app", target, "https")
    assert (found.url, found.host) == ("https://[fd00::1]:443", "shop.example")


def test_cluster_ip_only_where_it_answers(cluster: FakeCluster, api: ApiClient) -> None:
    service(cluster, type="ClusterIP", ports=[{"port": cluster.node_port}])
    assert route(api, "default", "app", to(), "http").url == f"http://127.0.0.1:{cluster.node_port}"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    service(cluster, type="ClusterIP", ports=[{"port": port}])
    with pytest.raises(NotYet, match="does not answer from here") as caught:
        route(api, "default", "app", to(), "http")
    assert "NodePort" in str(caught.value.hint)
    with pytest.raises(PlatformError, match="is of type ClusterIP and has no node port"):
        route(api, "default", "app", to(through="node_port"), "http")


def test_ports_are_told_apart(cluster: FakeCluster, api: ApiClient) -> None:
    ports = [
        {"port": 80, "name": "http", "nodePort": cluster.node_port},
        {"port": 81, "name": "admin", "nodePort": 1},
    ]
    service(cluster, type="NodePort", ports=ports)
    assert route(api, "default", "app", to(port="http"), "http").url.endswith(str(cluster.node_port))
    for port, words in ((None, "names no port, and there are several"), (9, "names the port 9")):
        with pytest.raises(PlatformError, match=words) as caught:
            route(api, "default", "app", to(port=port), "http")
        assert "80 (http), 81 (admin)" in caught.value.message


@pytest.mark.parametrize("way", ["port_forward", "api_proxy"])
def test_ways_that_would_be_measured_themselves_are_refused(way: str) -> None:
    with pytest.raises(ValueError, match=r"is no way for a measured load: .*; allowed are node_port"):
        to(through=way)


def test_a_target_is_one_thing() -> None:
    with pytest.raises(ValueError, match=r"exactly one of `service`.*; found `service` and `ingress`"):
        KubernetesTarget(service="a", ingress="b")
    with pytest.raises(ValueError, match="found none of them"):
        KubernetesTarget(port=80)
    with pytest.raises(ValueError, match="`through: gateway` does not go with `ingress`"):
        KubernetesTarget(ingress="b", through="gateway")


# --- the baseline --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("250m", 0.25), ("2", 2.0), ("1500000n", 0.0015), ("64Mi", 2.0**26), ("1e3", 1000.0), (3, 3.0)],
)
def test_quantities(text: object, value: float) -> None:
    assert quantity(text) == pytest.approx(value)


def test_what_is_no_quantity() -> None:
    with pytest.raises(ValueError, match="is not a quantity of Kubernetes"):
        quantity("much")


def test_settled_means_replicas_autoscalers_nodes_and_cpu(
    cluster: FakeCluster, make: Make, context: DeployContext
) -> None:
    deployment = KubernetesPlatform().deploy(make(), context)
    assert isinstance(deployment, KnowsBaseline)
    try:
        assert deployment.unsettled(cpu_below=None, replicas=True) == "it was not ready yet"
        deployment.wait_ready(cancelled=lambda: None)
        ((_, namespace, _),) = [key for key in cluster.store if key[0] == "deployments"]

        def unsettled(cpu_below: float | None = None) -> str:
            return deployment.unsettled(cpu_below=cpu_below, replicas=True)

        assert unsettled() == ""
        cluster.change("deployments", namespace, "app", lambda one: one["spec"].update(replicas=3))
        assert unsettled() == "Deployment/app has 1 of 3 pods ready"
        cluster.scale("deployments", namespace, "app")
        assert unsettled() == "Deployment/app wants 3 pods, at its baseline it wanted 1"
        cluster.change("deployments", namespace, "app", lambda one: one["spec"].update(replicas=1))
        autoscaler = meta("autoscaling/v2", "HorizontalPodAutoscaler", "app", namespace)
        autoscaler["spec"] = {
            "metrics": [{"resource": {"name": "cpu", "target": {"averageUtilization": 50}}}]
        }
        autoscaler["status"] = {
            "currentReplicas": 1, "desiredReplicas": 1,
            "currentMetrics": [{"resource": {"name": "cpu", "current": {"averageUtilization": 80}}}],
        }  # fmt: skip
        cluster.put("horizontalpodautoscalers", namespace, autoscaler)
        assert unsettled() == "autoscaler app sees cpu at 80 %, above its target of 50 %"
        cluster.drop("horizontalpodautoscalers", namespace, "app")
        cluster.put(
            "nodes",
            "",
            {**meta("v1", "Node", "n2"), "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        )
        assert unsettled() == "2 nodes are ready, at the baseline 1"
        cluster.drop("nodes", "", "n2")
        cluster.change(
            "nodes", "", "n1", lambda one: one.update(usage={"cpu": "1500m"})
        )  # also what metrics say
        assert unsettled(cpu_below=0.5) == "CPU of node n1 is at 75 %, wanted below 50 %"
        assert unsettled(cpu_below=0.8) == ""
        cluster.denied = {("list", "nodes")}
        assert "`cpu_below` cannot be judged" in unsettled(cpu_below=0.8)
    finally:
        deployment.remove()
