"""The functions of apps/functions from their images: each as a pod that names itself and is cold once."""

from __future__ import annotations

import http.client
import json

import pytest
from testbed import components, functions, images
from testbed.settings import REGISTRY, Folders

from support.cluster import Cluster
from support.cluster_app import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]  # they are built first

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: function
    image: {image}
    readinessProbe: {{httpGet: {{path: /health/readiness, port: 8080}}, periodSeconds: 1, failureThreshold: 60}}
"""


@pytest.fixture
def pushed(cluster: Cluster) -> dict[str, str]:
    """Runtime → image in the testbed's registry."""
    if not cluster.is_testbed:
        pytest.skip(
            "another cluster was named: give it the images with `python -m testbed functions --archives`"
        )
    folders = Folders.from_environment()
    found = {}
    for runtime in functions.RUNTIMES:
        functions.build(runtime)
        image = images.pack(functions.recipe(runtime, "1"), folders.images)
        images.push(image, components.REGISTRY_ADDRESS)
        found[runtime] = f"{REGISTRY}/{image.name}"
    return found


def test_each_function_runs_from_its_image(cluster: Cluster, namespace: str, pushed: dict[str, str]) -> None:
    pods = [POD.format(name=runtime, image=image) for runtime, image in pushed.items()]
    cluster.kubectl("--namespace", namespace, "apply", "-f", "-", text="---".join(pods))
    cluster.kubectl(
        "--namespace", namespace, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=240s"
    )
    for runtime in pushed:
        address = wait_for(
            lambda runtime=runtime: cluster.kubectl(
                "--namespace", namespace, "get", "pod", runtime, "-o", "jsonpath={.status.podIP}"
            )
        )
        first, second = (ask(address) for _ in range(2))
        assert first["runtime"] == runtime
        assert first["instance"] == second["instance"] == runtime, "the pod's own name"
        assert (first["cold"], second["cold"]) == (True, False)
        assert 0 < first["uptime_s"] < second["uptime_s"]


def ask(address: str) -> dict[str, object]:
    """Ask a pod for its answer."""
    connection = http.client.HTTPConnection(address, 8080, timeout=30)
    try:
        connection.request("GET", "/?burn=1ms")
        answer = connection.getresponse()
        body = json.loads(answer.read())
        assert answer.status == http.client.OK
        assert answer.headers["X-Instance"] == body["instance"]
        return body
    finally:
        connection.close()
