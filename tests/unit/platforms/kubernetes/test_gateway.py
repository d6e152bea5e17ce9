"""The way through a Gateway: found from route, Gateway and what a controller says of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.fake_cluster import FakeCluster, FakeServer, Refusal, meta
from towtank.errors import PlatformError
from towtank.platforms.kubernetes.client import ApiClient
from towtank.platforms.kubernetes.config import KubernetesConfig, KubernetesTarget
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.platforms.kubernetes.reach import route
from towtank.platforms.kubernetes.ways import NotYet, Route

API = "gateway.networking.k8s.io/v1"
YES = {"status": "True", "reason": "Accepted", "message": ""}
ROUTED = KubernetesTarget(httproute="shop")


@pytest.fixture
def api(server: FakeServer, make: Callable[..., KubernetesConfig]) -> Iterator[ApiClient]:
    client = ApiClient(find_context("fake", make().kubeconfig))
    yield client
    client.close()


@pytest.fixture(autouse=True)
def gateway(cluster: FakeCluster) -> None:
    """A Gateway in the namespace of whoever runs the cluster, not yet seen by a controller."""
    thing = meta(API, "Gateway", "edge", "infra")
    thing["spec"] = {
        "gatewayClassName": "envoy",
        "listeners": [
            {"name": "web", "protocol": "HTTP", "port": 8080},
            {"name": "secure", "protocol": "HTTPS", "port": 8443, "hostname": "*.shop.example"},
        ],
    }
    cluster.put("gateways", "infra", thing)
    http_route = meta(API, "HTTPRoute", "shop", "default")
    http_route["spec"] = {
        "parentRefs": [{"name": "edge", "namespace": "infra"}],
        "hostnames": ["shop.example"],
    }
    cluster.put("httproutes", "default", http_route)


def serve(cluster: FakeCluster, **more: Any) -> None:
    """What a controller says when all is well."""
    cluster.change("gateways", "infra", "edge", lambda thing: thing.update(status={
        "conditions": [{"type": "Accepted", **YES}, {"type": "Programmed", **YES}],
        "addresses": [{"type": "IPAddress", "value": "198.18.0.7"}],
        **more,
    }))  # fmt: skip
    tell_route(cluster)


def tell_route(cluster: FakeCluster, *conditions: dict[str, str]) -> None:
    parent = {
        "parentRef": {"name": "edge", "namespace": "infra"},
        "conditions": list(conditions) or [{"type": "Accepted", **YES}],
    }
    cluster.change("httproutes", "default", "shop", lambda thing: thing.update(status={"parents": [parent]}))


def way(api: ApiClient, target: KubernetesTarget = ROUTED, scheme: str = "http") -> Route:
    return route(api, "default", "app", target, scheme)


def test_through_a_route_of_a_gateway_elsewhere(cluster: FakeCluster, api: ApiClient) -> None:
    serve(cluster)
    found = way(api)
    assert (found.url, found.host) == ("http://198.18.0.7:8080", "shop.example")
    assert found.facts["way"] == "gateway"
    assert (found.facts["gateway"], found.facts["listener"], found.facts["class"]) == (
        "infra/edge",
        "web",
        "envoy",
    )
    assert way(api, scheme="https").url == "https://198.18.0.7:8443"
    assert (
        way(api, KubernetesTarget(httproute="shop", address="gate.example")).url == "http://gate.example:8080"
    )


def test_a_gateway_alone_gives_its_listeners_host(cluster: FakeCluster, api: ApiClient) -> None:
    serve(cluster)
    target = KubernetesTarget(gateway="edge")
    assert route(api, "infra", "app", target, "http").host is None
    # Any label matches the star.
    assert route(api, "infra", "app", target, "https").host == "towtank.shop.example"


@pytest.mark.parametrize("keys", [{"port": 8443}, {"port": "secure"}])
def test_a_listener_has_to_speak_the_protocol(
    cluster: FakeCluster, api: ApiClient, keys: dict[str, Any]
) -> None:
    serve(cluster)
    target = KubernetesTarget(httproute="shop", **keys)
    assert way(api, target, "https").url == "https://198.18.0.7:8443"
    words = r"has no listener for HTTP at .*; it has web \(HTTP 8080\), secure \(HTTPS 8443\)"
    with pytest.raises(PlatformError, match=words):
        way(api, target, "http")


def test_what_no_controller_has_taken_up_is_waited_for(cluster: FakeCluster, api: ApiClient) -> None:
    with pytest.raises(NotYet, match="the HTTPRoute 'shop' has not been taken up for the Gateway infra/edge"):
        way(api)
    serve(cluster, conditions=[])
    with pytest.raises(NotYet, match="the Gateway infra/edge is not accepted yet") as caught:
        way(api)
    assert "class 'envoy'" in str(caught.value.hint)
    pending = {"type": "Programmed", "status": "False", "reason": "Pending", "message": "no data plane"}
    serve(cluster, conditions=[{"type": "Accepted", **YES}, pending])
    with pytest.raises(NotYet, match=r"is not programmed yet \(Pending: no data plane\)"):
        way(api)
    serve(cluster, addresses=[])
    with pytest.raises(NotYet, match="has no address yet"):
        way(api)
    serve(cluster, listeners=[{"name": "web", "conditions": [pending]}])
    with pytest.raises(NotYet, match="listener 'web', is not right: Programmed is false: Pending"):
        way(api)


def test_a_route_that_was_refused_says_why(cluster: FakeCluster, api: ApiClient) -> None:
    serve(cluster)
    no = {"status": "False", "reason": "NotAllowedByListeners", "message": "not from this namespace"}
    tell_route(cluster, {"type": "Accepted", **no})
    with pytest.raises(
        NotYet, match=r"is not accepted yet \(NotAllowedByListeners: not from this namespace\)"
    ):
        way(api)
    tell_route(
        cluster, {"type": "Accepted", **YES}, {"type": "ResolvedRefs", **no, "reason": "BackendNotFound"}
    )
    with pytest.raises(NotYet, match="ResolvedRefs is false: BackendNotFound"):
        way(api)


def test_a_gateway_that_may_not_be_read(cluster: FakeCluster, api: ApiClient) -> None:
    serve(cluster)
    refusal = Refusal(403, "Forbidden", "gateways is forbidden")
    cluster.answers = lambda path: refusal if path.endswith("/gateways/edge") else None
    with pytest.raises(PlatformError, match="the Gateway infra/edge may not be read") as caught:
        way(api)
    assert "granted" in str(caught.value.hint)


def test_a_route_without_a_gateway(cluster: FakeCluster, api: ApiClient) -> None:
    cluster.change("httproutes", "default", "shop", lambda thing: thing["spec"].update(parentRefs=[]))
    with pytest.raises(PlatformError, match="the HTTPRoute 'shop' belongs to no Gateway"):
        way(api)
