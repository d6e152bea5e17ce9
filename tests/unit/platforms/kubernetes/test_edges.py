"""Faults on edges in a cluster, against an API server in memory: where the proxy stands, and how calls get there."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from support.fake_cluster import meta
from support.fake_deployment import MANIFESTS
from towtank.errors import PlatformError
from towtank.platforms.base import LOAD, Edge, EdgeTrouble, FaultMissed
from towtank.platforms.kubernetes import grip, rights
from towtank.platforms.kubernetes.config import KubernetesTarget
from towtank.platforms.kubernetes.edges import NoWay, find_way, lead
from towtank.platforms.kubernetes.platform import KubernetesPlatform

PROXY = {"image": "toxiproxy:1", "engine": "engine:1"}
INNER = Edge("front", "app")


# --- ways ------------------------------------------------------------------------------------------------------


def service(name, **spec):
    whole = {"selector": {"app": name}, "ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": whole}


def workload(name, kind="Deployment", **pod):
    template = {
        "metadata": {"labels": {"app": name, "tier": "x"}},
        "spec": {"containers": [{"name": name}], **pod},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"template": template},
    }


THINGS = (
    service("web", type="NodePort"), workload("web"), service("stock"), workload("stock", "StatefulSet"),
    workload("batch"), service("two", ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]),
)  # fmt: skip
TARGETS = {"site": KubernetesTarget(service="web"), "two": KubernetesTarget(service="two", port="b")}


@pytest.mark.parametrize(
    ("edge", "called", "ports", "callers"),
    [
        (Edge(LOAD, "site"), "web", [80], ()),
        (Edge(LOAD, "two"), "two", [81], ()),
        (Edge("site", "stock"), "stock", [80], ("Deployment/web",)),
        (Edge("web", "two"), "two", [80, 81], ("Deployment/web",)),
        (Edge("stock", "site"), "web", [80], ("StatefulSet/stock",)),
        (Edge("Deployment/batch", "stock"), "stock", [80], ("Deployment/batch",)),
    ],
)
def test_an_edge_leads_from_pods_or_the_load_to_a_service(edge, called, ports, callers):
    way = find_way(edge, TARGETS, THINGS)
    assert (way.service, [port["port"] for port in way.ports], way.callers) == (called, ports, callers)


@pytest.mark.parametrize(
    ("edge", "key", "words"),
    [
        (Edge("site", "stok"), "target", "'stok', which names no Service of the deployment; it has web, stock"),
        (Edge(LOAD, "stock"), "target", "from load leads to 'stock', which names no Service"),
        (Edge("sit", "stock"), "from", "'sit' names no pods of the deployment that could call; allowed are load, "),
        (Edge("Job/batch", "stock"), "from", "'Job/batch' names no pods"),
        (Edge(LOAD, "entry"), "target", "reached through an Ingress or a Gateway"),
        (Edge(LOAD, "port"), "target", "the port 'c'; the Service 'two' has 80 (a), 81 (b)"),
        (Edge(LOAD, "afar"), "target", "reached at the `address` 'lb.example', which leads past any proxy"),
        (Edge("site", "headless"), "target", "no address of its own (headless)"),
        (Edge("site", "sticky"), "target", "(sessionAffinity)"),
        (Edge("site", "local"), "target", "(internalTrafficPolicy)"),
        (Edge("site", "dns"), "target", "its port 53 is UDP, and the proxy knows only TCP"),
        (Edge("site", "alias"), "target", "only another name (ExternalName)"),
        (Edge("site", "portless"), "target", "it has no port"),
    ],
)  # fmt: skip
def test_where_no_proxy_can_stand_it_is_said_why(edge, key, words):
    odd = (
        service("headless", clusterIP="None"), service("sticky", sessionAffinity="ClientIP"),
        service("local", internalTrafficPolicy="Local"), service("dns", ports=[{"port": 53, "protocol": "UDP"}]),
        service("alias", type="ExternalName"), service("portless", ports=[]), service("lb", type="LoadBalancer"),
    )  # fmt: skip
    targets = {
        **TARGETS, "entry": KubernetesTarget(ingress="web"), "port": KubernetesTarget(service="two", port="c"),
        "afar": KubernetesTarget(service="lb", address="lb.example"),
    }  # fmt: skip
    with pytest.raises(NoWay) as refused:
        find_way(edge, targets, (*THINGS, *odd))
    assert refused.value.key == key
    assert words in refused.value.message


def test_an_address_of_a_node_leads_over_the_proxys_own_port():
    targets = {"site": KubernetesTarget(service="web", address="10.0.0.1")}
    assert find_way(Edge(LOAD, "site"), targets, THINGS).service == "web"


def test_only_callers_find_the_proxy_under_the_name_of_the_service():
    caller, other = (
        workload("web", hostAliases=[{"ip": "10.0.0.9", "hostnames": ["x"]}]),
        workload("batch"),
    )
    way = find_way(Edge("web", "stock"), {}, THINGS)
    lead(way, "10.0.0.1", "shop", [caller, other])
    names = ["stock", "stock.shop", "stock.shop.svc", "stock.shop.svc.cluster.local"]
    assert caller["spec"]["template"]["spec"]["hostAliases"] == [
        {"ip": "10.0.0.9", "hostnames": ["x"]}, {"ip": "10.0.0.1", "hostnames": names},
    ]  # fmt: skip
    assert "hostAliases" not in other["spec"]["template"]["spec"]


# --- a deployment ------------------------------------------------------------------------------------------------


class Hand:
    """A disturber beside the proxy."""

    def __init__(self):
        self.on = []

    def begin(self, fault, lasts_s):
        self.on.append((fault, lasts_s))
        return {}

    def undo(self):
        self.on.pop()


@pytest.fixture
def hand(monkeypatch):
    one = Hand()
    monkeypatch.setattr(grip, "reach", lambda *_: one)
    return one


@pytest.fixture
def deploy(make, context, root, hand):
    made = []
    (root / "front.yaml").write_text((MANIFESTS / "front.yaml").read_text())
    targets = {"app": "app", "front": "front"}

    def start(*edges, ready=True, **keys):
        config = make(
            **{
                "manifests": ["app.yaml", "front.yaml"],
                "targets": targets,
                "edge_proxy": PROXY,
                "logs": False,
                **keys,
            }
        )
        made.append(KubernetesPlatform().deploy(config, replace(context, edges=edges)))
        if ready:
            made[-1].wait_ready(cancelled=lambda: None)
        return made[-1]

    yield start
    for one in made:
        one.remove()


def own_namespaces(cluster):
    return [
        name
        for kind, _, name in cluster.store
        if kind == "namespaces" and name not in ("default", "kube-system")
    ]


def test_the_proxy_stands_beside_the_deployment_and_goes_with_it(deploy, cluster, context):
    deployment = deploy(Edge(LOAD, "app"), INNER)
    (beside,) = [name for name in own_namespaces(cluster) if "edges" in name]
    things = {kind: thing for (kind, place, _), thing in cluster.store.items() if place == beside}
    assert {"secrets", "configmaps", "services", "deployments", "pods", "leases"} <= set(things)
    assert things["pods"]["metadata"]["labels"]["towtank.dev/token"] == f"{context.token}-edges"
    proxies = json.loads(things["configmaps"]["data"]["edges.json"])
    assert [(one["name"], one["upstream"]) for one in proxies] == [
        ("towtank-edge-0-80", "127.0.0.1:80"), ("towtank-edge-1-80", "127.0.0.1:80"),
    ]  # fmt: skip
    services = [
        thing["spec"]
        for (kind, place, _), thing in cluster.store.items()
        if (kind, place) == ("services", beside)
    ]
    assert [spec["type"] for spec in services] == ["NodePort", "ClusterIP"]
    assert [spec["ports"][0]["targetPort"] for spec in services] == [20000, 20001]
    facts = {one["target"]: one for one in deployment.describe()["instances"]}
    assert (facts["app"]["service"], facts["app"]["stands_for"]) == ("towtank-edge-0", "app")
    assert facts["front"]["service"] == "front"
    assert deployment.describe()["edges"][1]["callers"] == ["Deployment/front"]
    deployment.remove()
    assert own_namespaces(cluster) == []


@pytest.mark.parametrize("beside", ["given", "helpers"])
def test_given_namespaces_are_left_there_without_anything_in_them(deploy, cluster, beside):
    for name in ("given", "helpers"):
        cluster.put("namespaces", "", meta("v1", "Namespace", name))
    deployment = deploy(INNER, namespace="given", edge_proxy={**PROXY, "namespace": beside})
    assert ("deployments", beside, "towtank-edge-proxy") in cluster.store
    deployment.remove()
    left = {(kind, name) for kind, place, name in cluster.store if place in ("given", "helpers")}
    assert left == set()
    assert set(own_namespaces(cluster)) == {"given", "helpers"}


def test_callers_are_led_there_from_the_beginning_and_services_stay(deploy, cluster):
    deploy(INNER)
    pods = {
        pod["metadata"]["labels"].get("app"): pod["spec"].get("hostAliases") for pod in cluster.all("pods")
    }
    assert pods["app"] is None
    assert "app" in pods["front"][0]["hostnames"]
    (app,) = [one for one in cluster.all("services") if one["metadata"]["name"] == "app"]
    assert app["spec"]["selector"] == {"app": "app"}
    created = [line for line in cluster.log if line.startswith("POST") and "dry" not in line]
    first = [
        next(n for n, line in enumerate(created) if end in line) for end in ("/services", "/deployments")
    ]
    assert first == sorted(first)


def test_an_edge_is_disturbed_as_a_whole_and_undone(deploy, hand):
    deployment = deploy(INNER)
    undo = deployment.disturb_whole_edge(INNER, EdgeTrouble("delay", 0.5, 0.2), lasts_s=7.0)
    ((fault, lasts_s),) = hand.on
    assert (fault["kind"], fault["ways"], lasts_s) == ("toxics", ["towtank-edge-0-80"], 7.0)
    (toxic,) = fault["toxics"]
    assert (toxic["type"], toxic["toxicity"], toxic["attributes"]["latency"]) == ("latency", 0.5, 200)
    undo()
    assert hand.on == []
    with pytest.raises(PlatformError, match="no call from load to app goes through the proxy"):
        deployment.disturb_whole_edge(Edge(LOAD, "app"), EdgeTrouble("drop"))


def line(message, name="towtank-edge-0-80"):
    return json.dumps({"level": "info", "name": name, "message": message}) + "\n"


@pytest.mark.parametrize(
    ("log", "missed"),
    [
        (line("Started proxy"), True),
        (line("Started proxy") + line("Accepted client", "towtank-edge-1-80"), True),
        (line("Started proxy") + line("Accepted client"), False),
        ("of another version\n", False),
        ((line("Started proxy") + line("Accepted client", "towtank-edge-1-80") * 20_000), False),
    ],
    ids=["never", "another", "called", "unknown", "too long to say"],
)
def test_an_edge_that_nobody_calls_over_is_told_when_its_fault_is_undone(deploy, cluster, hand, log, missed):
    deployment = deploy(INNER)
    undo = deployment.disturb_whole_edge(INNER, EdgeTrouble("drop"))
    cluster.logs = log
    if missed:
        with pytest.raises(FaultMissed, match="no call from front to app went through the proxy"):
            undo()
    else:
        undo()
    assert hand.on == []


def test_a_proxy_that_was_started_again_is_a_lost_platform(deploy, cluster):
    deployment = deploy(INNER)
    assert deployment.events() == []
    (pod,) = [one for one in cluster.all("pods") if one["metadata"]["name"].startswith("towtank-edge-proxy")]
    place, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    before = pod["status"].get("containerStatuses", [])

    def restarts(of, count):
        def edit(one):
            rest = [status for status in before if status.get("name") != of]
            one["status"]["containerStatuses"] = [*rest, {"name": of, "restartCount": count, "ready": True}]

        cluster.change("pods", place, name, edit)

    restarts("disturber", 1)
    assert deployment.events() == [], "what it did is undone, and calls go on"
    restarts("toxiproxy", 1)
    told = wait_for(deployment.events)
    assert "the proxy of the edges was started again" in told.message


def wait_for(events, within_s=10.0):
    """The error that comes of a change as soon as it was seen."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            events()
        except PlatformError as error:
            return error
        time.sleep(0.02)
    raise AssertionError("nothing was told")


def test_what_a_killed_towtank_left_of_it_is_swept(deploy, cluster, context, monkeypatch):
    deploy(INNER)
    monkeypatch.setattr("towtank.platforms.kubernetes.platform.live_holder", lambda *_: "")
    assert KubernetesPlatform().sweep_noted(context.token, context.data_dir.parent) >= 2
    assert own_namespaces(cluster) == []


def test_without_a_proxy_or_a_way_nothing_is_created(deploy, cluster):
    with pytest.raises(PlatformError, match="has no proxy, which faults on edges need") as refused:
        deploy(INNER, edge_proxy=None)
    assert "edge_proxy: {image: " in refused.value.hint
    with pytest.raises(NoWay, match="'stock', which names no Service"):
        deploy(Edge("front", "stock"))
    assert own_namespaces(cluster) == []


def test_rights_that_it_lacks_are_said_before(make, cluster, root):
    cluster.denied.add(("create", "configmaps"))
    found = KubernetesPlatform().check(make(edge_proxy=PROXY), root)
    assert any("create configmaps" in one and "`edge_proxy`" in one for one in found), found
    assert not any("configmaps" in one for one in KubernetesPlatform().check(make(), root))


def test_the_rights_that_docs_grant_are_enough():
    def plain(found):
        return {(one.verb, one.group, one.resource, one.namespace) for one in found}

    assert plain(rights.of_edge_proxy(None)) <= plain(rights.needed(None))
