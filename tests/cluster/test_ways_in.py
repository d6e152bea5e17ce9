"""Through an Ingress and a Gateway: real objects, a real proxy, and a status set by hand as a controller would."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from support import edge
from support.cluster import Cluster
from support.cluster_app import SUPPORT, config_for, deployed
from towtank.errors import ReadinessTimeout
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.platform import KubernetesPlatform

pytestmark = pytest.mark.cluster
DEFINITIONS = pytest.mark.xdist_group("gateway-api")
"""Whether the Gateway API is installed is of the whole cluster."""
GATEWAY_API = "sigs.k8s.io/gateway-api@v1.4.0"
_CRDS = ("gatewayclasses", "gateways", "httproutes")
YES = {"status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
ROUTE = {
    "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "shop"},
    "spec": {
        "parentRefs": [{"name": "edge"}], "hostnames": [edge.HOST],
        "rules": [{"backendRefs": [{"name": "app", "port": 80}]}],
    },
}  # fmt: skip
GATEWAY = {
    "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "edge"},
    "spec": {"gatewayClassName": "by-hand", "listeners": [{"name": "web", "protocol": "HTTP", "port": edge.PORT}]},
}  # fmt: skip
INGRESS = {
    "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "shop"},
    "spec": {"rules": [{"host": edge.HOST, "http": {"paths": [
        {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "app", "port": {"number": 80}}}}
    ]}}]},
}  # fmt: skip


@pytest.fixture
def gateway_api(cluster: Cluster) -> Iterator[None]:
    """The Gateway API's definitions, from its Go module; away again afterwards."""
    if "gateways.gateway.networking.k8s.io" in cluster.kubectl("get", "crds", "--output=name"):
        yield
        return
    if not cluster.is_testbed:
        pytest.skip("this cluster has no Gateway API, and it is not for tests to install it")
    fetched = subprocess.run(
        ["go", "mod", "download", "-json", GATEWAY_API],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if fetched.returncode != 0:
        pytest.skip(f"the module {GATEWAY_API} cannot be had: {fetched.stdout[-300:]}")
    folder = Path(json.loads(fetched.stdout)["Dir"]) / "config" / "crd" / "standard"
    files = [str(folder / f"gateway.networking.k8s.io_{name}.yaml") for name in _CRDS]
    words = [word for file in files for word in ("--filename", file)]
    cluster.kubectl("create", *words)
    names = [f"crd/{name}.gateway.networking.k8s.io" for name in _CRDS]
    cluster.kubectl("wait", "--for=condition=Established", *names, "--timeout=60s")
    yield
    cluster.kubectl("delete", *words, "--timeout=60s")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "app.yaml").write_text((SUPPORT / "manifests" / "app.yaml").read_text())
    return tmp_path


@pytest.fixture
def context(root: Path) -> DeployContext:
    return DeployContext("shop", f"tt-test-{secrets.token_hex(4)}", root / "data", root / "logs", root)


@pytest.fixture
def behind(cluster: Cluster, namespace: str, tmp_path: Path) -> Callable[[], str]:
    """Start the proxy in front of the application of the test's namespace; gives its address."""
    if not cluster.is_testbed:
        pytest.skip("the proxy is reached at its pod's own address, which the testbed has a route to")
    return lambda: edge.start(cluster, namespace, edge.push_nginx(tmp_path / "edge"), to=f"app.{namespace}")


def asked(deployment: Any) -> tuple[httpx.Response, httpx.Response]:
    """The answer to the host that was found, and to none."""
    target = deployment.targets["app"]
    url = target.instances[0].url
    headers = {"Host": target.transport.host}
    return httpx.get(url, headers=headers, trust_env=False), httpx.get(url, trust_env=False)


def written(root: Path, *things: dict[str, Any]) -> list[str]:
    (root / "way.yaml").write_text(yaml.safe_dump_all(things))
    return ["manifests/app.yaml", "way.yaml"]


@DEFINITIONS
@pytest.mark.usefixtures("gateway_api")
def test_through_a_gateway(
    cluster: Cluster, namespace: str, root: Path, context: DeployContext, behind: Callable[[], str]
) -> None:
    manifests = written(root, GATEWAY, ROUTE)
    config = config_for(
        cluster, namespace=namespace, manifests=manifests, targets={"app": {"httproute": "shop"}},
        ready={"timeout": "8s", "http": "/healthz"},
    )  # fmt: skip
    assert list(KubernetesPlatform().check(config, root)) == []
    with deployed(config, context, ready=False) as deployment:
        address = behind()
        with pytest.raises(ReadinessTimeout, match=f"not been taken up for the Gateway {namespace}/edge"):
            deployment.wait_ready(cancelled=lambda: None)
        parent = {"parentRef": {"name": "edge"}, "controllerName": "towtank.dev/by-hand"}
        said = {"parents": [{**parent, "conditions": [{"type": "Accepted", **YES}]}]}
        told(cluster, namespace, "httproute/shop", said)
        with pytest.raises(ReadinessTimeout, match=r"the Gateway .* is not accepted yet \(Pending"):
            deployment.wait_ready(cancelled=lambda: None)
        conditions = [{"type": name, **YES} for name in ("Accepted", "Programmed")]
        told(cluster, namespace, "gateway/edge", {
            "conditions": conditions, "addresses": [{"type": "IPAddress", "value": address}]
        })  # fmt: skip
        deployment.wait_ready(cancelled=lambda: None)
        right, wrong = asked(deployment)
        assert (right.status_code, wrong.status_code) == (200, 404)
        assert right.headers["x-instance"].startswith("app-")
        (facts,) = deployment.describe()["instances"]
        assert (facts["way"], facts["gateway"], facts["host"]) == ("gateway", f"{namespace}/edge", edge.HOST)


def test_through_an_ingress(
    cluster: Cluster, namespace: str, root: Path, context: DeployContext, behind: Callable[[], str]
) -> None:
    target = {"ingress": "shop", "port": edge.PORT}
    config = config_for(
        cluster, namespace=namespace, manifests=written(root, INGRESS), targets={"app": target},
        ready={"timeout": "8s", "http": "/healthz"},
    )  # fmt: skip
    with deployed(config, context, ready=False) as deployment:
        address = behind()
        with pytest.raises(ReadinessTimeout, match="the Ingress 'shop' has no address yet"):
            deployment.wait_ready(cancelled=lambda: None)
        told(cluster, namespace, "ingress/shop", {"loadBalancer": {"ingress": [{"ip": address}]}})
        deployment.wait_ready(cancelled=lambda: None)
        right, wrong = asked(deployment)
        assert (right.status_code, wrong.status_code) == (200, 404)
        assert deployment.describe()["instances"][0]["way"] == "ingress"


@DEFINITIONS
def test_definitions_that_are_not_installed_are_said(cluster: Cluster, root: Path) -> None:
    if "gateways.gateway.networking.k8s.io" in cluster.kubectl("get", "crds", "--output=name"):
        pytest.skip("this cluster has the Gateway API")
    config = config_for(cluster, manifests=written(root, ROUTE), targets={"app": {"httproute": "shop"}})
    (problem,) = KubernetesPlatform().check(config, root)
    assert "does not know 'gateway.networking.k8s.io/v1' (of HTTPRoute)" in problem
    assert "the Gateway API's CustomResourceDefinitions" in problem


def told(cluster: Cluster, namespace: str, name: str, status: dict[str, Any]) -> None:
    """What a controller says of an object."""
    words = ("--subresource=status", "--type=merge", "--patch", json.dumps({"status": status}))
    cluster.kubectl("patch", name, "--namespace", namespace, *words)
