"""Paths, `set`, patches, copies and nodes: what is asked for is changed, what is not there is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from towtank.errors import PlatformError
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.parameters import COPY_LABEL, changed
from towtank.platforms.kubernetes.paths import parse_path, spots
from towtank.platforms.kubernetes.sources import Source, parse

TEXT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}, annotations: {a.b/c: x}}
    spec:
      containers:
        - {name: web, image: "web:1", env: [{name: LEVEL, value: info}]}
        - {name: log, image: "log:1"}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: shop}
spec:
  scaleTargetRef: {kind: Deployment, name: shop}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: standard}
"""


@pytest.fixture
def sources() -> list[Source]:
    return list(parse(TEXT, "shop.yaml"))


def config(**keys: Any) -> KubernetesConfig:
    return KubernetesConfig.model_validate(
        {"platform": "kubernetes", "context": "c", "manifests": ["shop.yaml"], **keys}
    )


@pytest.mark.parametrize(
    ("path", "places"),
    [
        ("Deployment/shop:spec.replicas", ["Deployment/shop spec.replicas"]),
        ("Deployment:spec.replicas", ["Deployment/shop spec.replicas"]),
        ("spec.replicas", ["Deployment/shop spec.replicas"]),
        ("storageClassName", ["PersistentVolumeClaim/data spec.storageClassName"]),
        (
            "spec.template.spec.containers[web].image",
            ["Deployment/shop spec.template.spec.containers[web].image"],
        ),
        (
            "spec.template.spec.containers[1].image",
            ["Deployment/shop spec.template.spec.containers[log].image"],
        ),
        (
            "spec.template.spec.containers[-1].image",
            ["Deployment/shop spec.template.spec.containers[log].image"],
        ),
        (
            "Deployment/shop:**.containers[*].image",
            [f"Deployment/shop spec.template.spec.containers[{name}].image" for name in ("web", "log")],
        ),
        (
            'Deployment:spec.template.metadata.annotations["a.b/c"]',
            ['Deployment/shop spec.template.metadata.annotations["a.b/c"]'],
        ),
        ("**.env[LEVEL].value", ["Deployment/shop spec.template.spec.containers[web].env[LEVEL].value"]),
        (
            "HorizontalPodAutoscaler:spec.metrics[0].resource.target.averageUtilization",
            ["HorizontalPodAutoscaler/shop spec.metrics[0].resource.target.averageUtilization"],
        ),
    ],
)
def test_a_path_leads_where_it_says(sources: list[Source], path: str, places: list[str]) -> None:
    found, changes = changed(sources, config(set={path: 7}))
    assert [f"{change.thing} {change.path}" for change in changes] == places
    here = [spot.value for source in found for spot in spots(parse_path(path), source.thing)]
    assert here == [7] * len(places)


def test_what_was_read_is_left_alone(sources: list[Source]) -> None:
    before = [dict(source.thing) for source in sources]
    changed(
        sources,
        config(set={"spec.replicas": 9}, nodes=1, copies=[{"of": ["Deployment/shop"], "count": 2}]),
        ["n1"],
    )
    assert [source.thing for source in sources] == before


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("Deployment/shop:spec.replica", "the nearest is 'Deployment/shop:spec.replicas'"),
        ("spec.replica", "the nearest is 'spec.replicas'"),
        ("storageClasName", "the nearest is 'storageClassName'"),
        ("Deployment/shpo:spec.replicas", "did you mean Deployment/shop"),
        ("Deployment/shop:spec.template.spec.containers[wbe].image", "containers[web].image"),
        ("Deployment/shop:spec.template.spec.nodeSelector", "added with `patches`"),
    ],
)
def test_a_path_that_matches_nothing_is_an_error_with_file_and_nearest(
    sources: list[Source], path: str, words: str
) -> None:
    with pytest.raises(PlatformError) as caught:
        changed(sources, config(set={path: 1}))
    assert path in caught.value.message
    assert "shop.yaml" in caught.value.message
    assert words in str(caught.value.hint)


@pytest.mark.parametrize(
    "path", ["", "spec..replicas", "spec.", ".spec", "a[", "a[]", "a b", "Deployment/shop:", "a]b"]
)
def test_what_is_no_path_is_refused_when_the_file_is_read(path: str) -> None:
    with pytest.raises(ValueError, match="is not the path of a field"):
        config(set={path: 1})


def test_patches_add_what_is_not_there_and_know_lists_by_name(sources: list[Source]) -> None:
    web = {"name": "web", "resources": {"limits": {"cpu": 1}}, "env": [{"name": "X", "value": "1"}]}
    patch = {
        "spec": {
            "replicas": None,
            "template": {"spec": {
                "nodeSelector": {"disk": "ssd"},
                "containers": [web],
            }},
        }
    }  # fmt: skip
    found, _ = changed(sources, config(patches=[{"target": "Deployment/shop", "merge": patch}]))
    spec = found[0].thing["spec"]
    pod = spec["template"]["spec"]
    assert "replicas" not in spec
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert [one["name"] for one in pod["containers"]] == ["web", "log"]
    assert pod["containers"][0]["image"] == "web:1"
    assert pod["containers"][0]["resources"] == {"limits": {"cpu": 1}}
    assert [one["name"] for one in pod["containers"][0]["env"]] == ["LEVEL", "X"]
    with pytest.raises(PlatformError, match="Deployment/shpo, which is not there"):
        changed(sources, config(patches=[{"target": "Deployment/shpo", "merge": patch}]))


def test_copies_select_their_own_pods_and_are_scaled_by_their_own_autoscaler(sources: list[Source]) -> None:
    names = ["Deployment/shop", "Service/shop", "HorizontalPodAutoscaler/shop"]
    found, changes = changed(
        sources, config(copies=[{"of": names, "count": 3}], set={"Deployment/shop-2:spec.replicas": 5})
    )
    by_name = {source.name: source.thing for source in found}
    assert len(by_name) == 10
    assert len(changes) == 1
    for number in range(3):
        deployment, service = by_name[f"Deployment/shop-{number}"], by_name[f"Service/shop-{number}"]
        own = {"app": "shop", COPY_LABEL: str(number)}
        assert deployment["spec"]["selector"]["matchLabels"] == own
        assert deployment["spec"]["template"]["metadata"]["labels"] == own
        assert service["spec"]["selector"] == own
        assert deployment["spec"]["replicas"] == (5 if number == 2 else 2)
        assert (
            by_name[f"HorizontalPodAutoscaler/shop-{number}"]["spec"]["scaleTargetRef"]["name"]
            == f"shop-{number}"
        )
    assert "PersistentVolumeClaim/data" in by_name


def test_pods_keep_to_nodes_besides_what_they_ask_for(sources: list[Source]) -> None:
    own = {"key": "disk", "operator": "Exists"}
    required = {"nodeSelectorTerms": [{"matchExpressions": [own]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    patch = {"spec": {"template": {"spec": {"affinity": affinity}}}}
    found, _ = changed(
        sources, config(nodes=2, patches=[{"target": "Deployment/shop", "merge": patch}]), ["n1", "n2"]
    )
    affinity = found[0].thing["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        own, {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]},
    ]  # fmt: skip


def test_values_that_cannot_stand_in_a_manifest_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot stand in a manifest"):
        config(set={"spec.replicas": float("inf")})
