"""What studies vary, as objects: storage, nodes, autoscalers of both kinds, concurrency, processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.fake_cluster import FakeServer
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.parameters import changed
from towtank.platforms.kubernetes.platform import KubernetesPlatform
from towtank.platforms.kubernetes.sources import parse

AUTOSCALER = """
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: shop}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: shop}
  updatePolicy: {updateMode: "Off"}
"""
TEXT = f"""
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: shop}}
spec:
  selector: {{matchLabels: {{app: shop}}}}
  template:
    metadata: {{labels: {{app: shop}}}}
    spec: {{containers: [{{name: web, image: "web:1", env: [{{name: WORKERS, value: "4"}}]}}]}}
  volumeClaimTemplates:
    - metadata: {{name: data}}
      spec: {{storageClassName: standard}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: shared}}
spec: {{storageClassName: standard}}
---
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {{name: fast}}
spec: {{template: {{spec: {{containerConcurrency: 0, containers: [{{image: "web:1"}}]}}}}}}
---{AUTOSCALER}"""


def made(**keys: Any) -> dict[str, dict[str, Any]]:
    base = {"platform": "kubernetes", "context": "c", "manifests": ["shop.yaml"]}
    config = KubernetesConfig.model_validate({**base, **keys})
    things, _ = changed(list(parse(TEXT, "shop.yaml")), config, ())
    return {source.name: source.thing for source in things}


def test_the_class_of_storage_in_claims_and_in_their_templates() -> None:
    found = made(set={"storageClassName": "ceph-rbd"})
    assert found["PersistentVolumeClaim/shared"]["spec"]["storageClassName"] == "ceph-rbd"
    (template,) = found["StatefulSet/shop"]["spec"]["volumeClaimTemplates"]
    assert template["spec"]["storageClassName"] == "ceph-rbd"


def test_the_kind_of_node() -> None:
    spec = {"template": {"spec": {"nodeSelector": {"pool": "ssd"}}}}
    found = made(patches=[{"target": "StatefulSet/shop", "merge": {"spec": spec}}])
    assert found["StatefulSet/shop"]["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "ssd"}
    assert "nodeSelector" not in found["Service/fast"]["spec"]["template"]["spec"]


def test_requests_at_once_in_an_instance() -> None:
    found = made(set={
        "containerConcurrency": 10,
        "StatefulSet/shop:spec.template.spec.containers[web].env[WORKERS].value": "8",
    })  # fmt: skip
    assert found["Service/fast"]["spec"]["template"]["spec"]["containerConcurrency"] == 10
    (container,) = found["StatefulSet/shop"]["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "WORKERS", "value": "8"}]


def test_a_vertical_autoscaler_and_its_copies() -> None:
    set_to = {"VerticalPodAutoscaler:spec.updatePolicy.updateMode": "Recreate"}
    names = ["StatefulSet/shop", "VerticalPodAutoscaler/shop"]
    found = made(set=set_to, copies=[{"of": names, "count": 2}])
    for number in range(2):
        spec = found[f"VerticalPodAutoscaler/shop-{number}"]["spec"]
        assert spec["updatePolicy"] == {"updateMode": "Recreate"}
        assert spec["targetRef"]["name"] == f"shop-{number}"


@pytest.mark.usefixtures("server")
def test_a_cluster_without_the_vertical_autoscaler_says_what_is_missing(
    server: FakeServer, root: Path, make: Callable[..., KubernetesConfig]
) -> None:
    (root / "vpa.yaml").write_text(AUTOSCALER.replace("StatefulSet", "Deployment").replace("shop", "app"))
    (problem,) = KubernetesPlatform().check(make(manifests=["app.yaml", "vpa.yaml"]), root)
    assert "vpa.yaml:" in problem
    assert "does not know 'autoscaling.k8s.io/v1' (of VerticalPodAutoscaler)" in problem
    assert "it comes with the VerticalPodAutoscaler: its CustomResourceDefinitions" in problem
