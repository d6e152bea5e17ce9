"""Charts rendered by the real helm: what becomes of values, hooks, CRDs and errors; one of them deployed."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.cluster_app import SUPPORT, config_for, deployed
from support.peers import PEERS
from towtank.errors import PlatformError
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.parameters import changed
from towtank.platforms.kubernetes.sources import Source, read

pytestmark = pytest.mark.cluster
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-shop
  annotations: {version: {{ .Values.version | quote }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - name: shop
        image: {{ required "an image is needed" .Values.image }}
"""
HOOK = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {"helm.sh/hook": "%s"}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}
"""
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wheels.shop.example}
"""


def needs(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program, first on the PATH."""
    if not shutil.which(tool, path=f"{PEERS}{os.pathsep}{os.environ['PATH']}"):
        pytest.skip(f"{tool} is neither in PATH nor in {PEERS}: `tools/peers.sh {tool}` builds it")
    monkeypatch.setenv("PATH", f"{PEERS}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A chart with values, hooks, a test and a folder of CRDs; the folder that it is in."""
    needs("helm", monkeypatch)
    folder = tmp_path / "chart"
    for name, text in {
        "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\n",
        "values.yaml": "replicas: 1\nversion: 0\n",
        "templates/app.yaml": DEPLOYMENT,
        "templates/before.yaml": HOOK % "pre-install",
        "templates/test.yaml": (HOOK % "test").replace("migrate", "ask"),
        "crds/wheel.yaml": CRD,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def config(**keys: Any) -> KubernetesConfig:
    return KubernetesConfig.model_validate({"platform": "kubernetes", "context": "c", **keys})


def rendered(root: Path, values: dict[str, Any], **keys: Any) -> list[Source]:
    made = config(helm={"chart": "chart", "values": values}, **keys)
    things, _ = changed(read(made, root), made, ())
    return things


def test_values_then_what_is_set_and_neither_hooks_nor_crds(chart: Path) -> None:
    (source,) = rendered(
        chart,
        {"image": "shop:1", "replicas": 3, "version": "1e3"},
        set={"Deployment/towtank-shop:spec.replicas": 5},
    )
    assert source.name == "Deployment/towtank-shop"
    assert source.thing["spec"]["replicas"] == 5, "what is set comes after rendering"
    assert source.thing["metadata"]["annotations"]["version"] == "1e3", "a text stays one"
    assert source.thing["spec"]["template"]["spec"]["containers"][0]["image"] == "shop:1"
    assert source.where.startswith("chart chart:")


def test_a_template_that_fails_is_one_clear_error(chart: Path) -> None:
    with pytest.raises(PlatformError) as caught:
        rendered(chart, {})
    assert caught.value.message.startswith("chart 'chart': helm template ended with code 1:")
    assert "an image is needed" in caught.value.message
    assert "\n" not in caught.value.message


def test_a_chart_that_renders_no_object(chart: Path) -> None:
    (chart / "chart" / "templates" / "app.yaml").write_text("{{ if .Values.never }}a: b{{ end }}\n")
    with pytest.raises(PlatformError, match="nothing to create: the chart holds no object"):
        rendered(chart, {})


def test_a_folder_that_is_no_chart(chart: Path) -> None:
    (chart / "chart" / "Chart.yaml").unlink()
    with pytest.raises(PlatformError, match=r"Chart\.yaml file is missing"):
        rendered(chart, {})


def test_a_packed_chart(chart: Path) -> None:
    packed = shutil.make_archive(str(chart / "shop"), "gztar", chart, "chart")
    Path(packed).rename(chart / "shop.tgz")
    made = config(helm={"chart": "shop.tgz", "values": {"image": "shop:1"}, "release": "two"})
    assert [source.name for source in read(made, chart)] == ["Deployment/two-shop"]


def test_a_chart_is_deployed_and_all_of_it_is_removed(
    chart: Path, cluster: Any, context: DeployContext
) -> None:
    """The small application with its replicas as a value of a chart; its hooks are not run."""
    folder = chart / "chart"
    for old in (folder / "templates" / "app.yaml", folder / "crds" / "wheel.yaml"):
        old.unlink()
    text = (SUPPORT / "manifests" / "app.yaml").read_text("utf-8")
    text = text.replace("replicas: 1", "replicas: {{ .Values.replicas }}", 1)
    assert "{{ .Values.replicas }}" in text
    (folder / "templates" / "all.yaml").write_text(text, "utf-8")
    made = config_for(
        cluster, manifests=[], helm={"chart": "chart", "values": {"replicas": 2}, "release": "one"}
    )
    with deployed(made, replace(context, root=chart)) as deployment:
        assert len(deployment.describe()["pods"]) == 2
        jobs = cluster.get("jobs", "--all-namespaces", "--selector", f"towtank.dev/token={context.token}")
        assert jobs["items"] == []
