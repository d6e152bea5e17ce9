"""What everything else builds on, on any cluster: nodes, pulling, services, DNS, metrics, the autoscaler's object."""

from __future__ import annotations

import json
import urllib.request

import pytest

from support.cluster import Cluster, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.smoke, pytest.mark.timeout(900)]

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: hello}
spec:
  replicas: 2
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: hello
        image: IMAGE
        ports: [{containerPort: 8080}]
        resources: {requests: {cpu: 20m, memory: 16Mi}, limits: {cpu: 300m, memory: 64Mi}}
        readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: hello}
spec: {selector: {app: hello}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: hello}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: hello}
  minReplicas: 2
  maxReplicas: 4
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
"""


@pytest.fixture
def hello(cluster: Cluster, namespace: str, fresh_image: str) -> str:
    """The namespace in which `hello` serves."""
    cluster.kubectl("-n", namespace, "apply", "-f", "-", text=MANIFEST.replace("IMAGE", fresh_image))
    cluster.kubectl("-n", namespace, "rollout", "status", "deployment/hello", "--timeout=120s")
    return namespace


def test_every_node_is_ready(cluster):
    nodes = cluster.get("nodes")["items"]
    assert nodes
    for node in nodes:
        ready = [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"]
        assert ready == ["True"], node["metadata"]["name"]


def test_a_deployment_is_pulled_serves_and_is_measured(cluster, hello):
    pods = cluster.get("pods", "-n", hello)["items"]
    assert len(pods) == 2
    if cluster.is_testbed:  # elsewhere the image may be on the node already
        pulls = cluster.kubectl("-n", hello, "get", "events", "--field-selector=reason=Pulled")
        assert "Successfully pulled image" in pulls

    names = {pod["metadata"]["name"] for pod in pods}
    heard = {cluster.ask(hello, "hello", "/").split()[-1] for _ in range(20)}
    assert heard <= names

    address = f"hello.{hello}.svc.cluster.local"
    resolved = cluster.ask(hello, "hello", f"/resolve?name={address}")
    service = cluster.get("service", "hello", "-n", hello)["spec"]["clusterIP"]
    assert service in resolved
    # from a pod to a service, which may well be served by that same pod
    fetch = f"/fetch?url=http://{address}/"
    eventually(lambda: "hello from" in cluster.ask(hello, "hello", fetch), 20, "kube-proxy has followed")
    for _ in range(10):
        assert "hello from" in cluster.ask(hello, "hello", fetch)
    if cluster.is_testbed:
        with urllib.request.urlopen(f"http://{service}/", timeout=5) as answer:
            assert answer.headers["X-Instance"] in names

    autoscaler = cluster.get("hpa", "hello", "-n", hello)
    assert autoscaler["spec"]["maxReplicas"] == 4

    if not cluster.kubectl("get", "apiservice", "v1beta1.metrics.k8s.io", "--ignore-not-found"):
        pytest.skip("this cluster has no metrics-server; all before `kubectl top` passed")
    top = eventually(
        lambda: cluster.kubectl("-n", hello, "top", "pods", "--no-headers", fails=True).split(),
        120,
        "kubectl top",
    )
    assert set(top) & names


def test_nothing_in_the_cluster_reaches_beyond_the_machine(cluster, hello):
    """A pod has no way out: 192.0.2.1 (TEST-NET) is refused at once, not followed to a default route."""
    if not cluster.is_testbed:
        pytest.skip("about the testbed's isolation")
    said = cluster.kubectl(
        "get", "--raw",
        f"/api/v1/namespaces/{hello}/services/hello:80/proxy/fetch?url=http://192.0.2.123/", fails=True,
    )  # fmt: skip
    assert "hello from" not in said
    reason = json.dumps(said)
    assert "timeout" not in reason.lower()
