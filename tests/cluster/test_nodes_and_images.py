"""A second node, and a Python application packed with its libraries: where later tests deploy, and what."""

from __future__ import annotations

import http
import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from testbed import closure, components, images
from testbed.settings import REGISTRY

from support.cluster import ROOT, eventually, run_testbed, testbed_cluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.alone,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("foreign_testbed_is_down"),
]

ONE_ON_EACH_NODE = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: hello}
spec:
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: hello
        image: REGISTRY/hello:1
        readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: hello}
spec: {type: NodePort, selector: {app: hello}, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
"""

CATALOGUE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: catalogue}
spec:
  selector: {matchLabels: {app: catalogue}}
  template:
    metadata: {labels: {app: catalogue}}
    spec:
      terminationGracePeriodSeconds: 1
      initContainers:
      - name: seed
        image: REGISTRY/catalogue:1
        args: [catalogue.seed, --out, /data/catalogue.db]
        volumeMounts: [{name: data, mountPath: /data}]
      containers:
      - name: catalogue
        image: REGISTRY/catalogue:1
        args: [catalogue, --host, 0.0.0.0, --port, "8000", --database, /data/catalogue.db]
        volumeMounts: [{name: data, mountPath: /data}]
        readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1}
      volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: catalogue}
spec: {selector: {app: catalogue}, ports: [{port: 80, targetPort: 8000}]}
"""


@pytest.fixture
def two_nodes():
    assert run_testbed("down").returncode == 0
    done = run_testbed("up", "--nodes", "2", "--hpa-sync", "5", "--metrics", "10")
    assert done.returncode == 0, done.stderr
    yield testbed_cluster()
    done = run_testbed("down")
    assert done.returncode == 0, done.stderr


def fetch(url: str) -> bytes:
    """Ask until it answers: kube-proxy follows a pod that became ready within a second or so; until then: refused."""

    def ask() -> bytes | None:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read()
        except urllib.error.HTTPError as early:
            if early.code != http.HTTPStatus.BAD_GATEWAY:  # what `hello` says when it was refused itself
                raise
        except (urllib.error.URLError, ConnectionError):
            pass
        return None

    return eventually(ask, 20, url)


def test_two_nodes_carry_pods_that_reach_each_other(two_nodes):
    nodes = two_nodes.get("nodes")["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["node1", "node2"]
    cpus = [node["status"]["allocatable"]["cpu"] for node in nodes]
    assert cpus[0] == cpus[1] != nodes[0]["status"]["capacity"]["cpu"]  # what the machine has is offered once

    two_nodes.kubectl("apply", "-f", "-", text=ONE_ON_EACH_NODE.replace("REGISTRY", REGISTRY))
    two_nodes.kubectl("rollout", "status", "daemonset/hello", "--timeout=120s")
    pods = two_nodes.get("pods", "--selector=app=hello")["items"]
    places = {pod["spec"]["nodeName"]: pod["status"]["podIP"] for pod in pods}
    assert set(places) == {"node1", "node2"}
    for here, there in (("node1", "node2"), ("node2", "node1")):
        answer = fetch(f"http://{places[here]}:8080/fetch?url=http://{places[there]}:8080/")
        assert b"hello from" in answer
        resolved = fetch(f"http://{places[here]}:8080/resolve?name=hello.default.svc.cluster.local")
        assert b"198.19." in resolved
        # and through the service, which sends half of the connections to the other node
        through = f"http://{places[here]}:8080/fetch?url=http://hello.default.svc.cluster.local/"
        heard: set[bytes] = set()
        eventually(
            lambda heard=heard, url=through: heard.add(fetch(url)) or len(heard) == 2, 20, "both answer"
        )
    for node in nodes:  # every node answers on the NodePort
        (address,) = [a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"]
        assert b"hello from" in fetch(f"http://{address}:30080/")
    top = eventually(
        lambda: two_nodes.kubectl("top", "nodes", "--no-headers", fails=True), 120, "kubectl top nodes"
    )
    assert {line.split()[0] for line in top.splitlines()} == {"node1", "node2"}


def test_a_python_application_runs_with_nothing_mounted_from_the_host(two_nodes, tmp_path: Path):
    folder = ROOT / "apps" / "catalogue" / "catalogue"
    image = images.pack(closure.python_application("catalogue:1", folder, ("-m",)), tmp_path)
    images.push(image, components.REGISTRY_ADDRESS)
    two_nodes.kubectl("apply", "-f", "-", text=CATALOGUE.replace("REGISTRY", REGISTRY))
    two_nodes.kubectl("rollout", "status", "deployment/catalogue", "--timeout=180s")
    address = two_nodes.get("service", "catalogue")["spec"]["clusterIP"]
    assert json.loads(fetch(f"http://{address}/items/17"))["id"] == 17
