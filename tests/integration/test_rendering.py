"""Kustomize folders, rendered by the real program: what becomes of them, and of what is set in them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from towtank.errors import PlatformError
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.parameters import changed
from towtank.platforms.kubernetes.sources import read

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: shop}]}
"""


def config(**keys: Any) -> KubernetesConfig:
    return KubernetesConfig.model_validate({"platform": "kubernetes", "context": "c", **keys})


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """A base and an overlay of it."""
    if not (shutil.which("kustomize") or shutil.which("kubectl")):
        pytest.skip("neither kustomize nor kubectl is in PATH")
    for name, content in {
        "base/app.yaml": yaml.safe_load(DEPLOYMENT),
        "base/kustomization.yaml": {"resources": ["app.yaml"]},
        "fast/kustomization.yaml": {
            "resources": ["../base"],
            "namePrefix": "fast-",
            "images": [{"name": "shop", "newTag": "2"}],
            "configMapGenerator": [{"name": "settings", "literals": ["mode=fast"]}],
        },
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(content))
    return tmp_path


def test_an_overlay_then_what_is_set(overlay: Path) -> None:
    made = config(kustomize="fast", set={"Deployment/fast-shop:spec.replicas": 4})
    things, changes = changed(read(made, overlay), made, ())
    found = {source.thing["kind"]: source for source in things}
    assert found["ConfigMap"].thing["metadata"]["name"].startswith("fast-settings-")
    assert found["Deployment"].thing["spec"]["template"]["spec"]["containers"][0]["image"] == "shop:2"
    assert found["Deployment"].thing["spec"]["replicas"] == 4
    assert [(one.was, one.now) for one in changes] == [(1, 4)]


def test_a_folder_that_cannot_be_built_is_one_clear_error(overlay: Path) -> None:
    (overlay / "fast" / "kustomization.yaml").write_text("resources: [../nowhere]\n")
    with pytest.raises(PlatformError) as caught:
        read(config(kustomize="fast"), overlay)
    assert caught.value.message.startswith("kustomize folder 'fast': ")
    assert "ended with code 1:" in caught.value.message
    assert "\n" not in caught.value.message
    assert "nowhere" in caught.value.message
