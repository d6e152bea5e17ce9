"""Installing Knative Serving on a testbed that is up, and telling when it serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from testbed import knative_parts
from testbed.kubectl import apply, deployments_ready, filled, kubectl
from testbed.settings import INGRESS_LIMITS, INGRESS_SERVICE, REGISTRY, Folders, Options

TIMEOUT_S = 180
NAMESPACES = ("knative-serving", "projectcontour")
TRIAL = f"""
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {{name: trial, namespace: default}}
spec: {{template: {{spec: {{containers: [{{image: {REGISTRY}/hello:1}}]}}}}}}
"""
"""A Service that is only tried: Knative's webhooks have to look at it, which they can a moment after they are ready."""


def steps(folders: Folders, options: Options) -> Iterator[tuple[str, Callable[[], bool]]]:
    """What has to come true, one after the other, and in words; each may be repeated until it is."""
    yield "the kinds of Knative and its ingress", lambda: _define(folders)
    yield "Knative and its ingress created", lambda: _create(folders, options)
    for namespace in NAMESPACES:
        yield f"everything in {namespace} ready", partial(deployments_ready, folders, namespace)
    yield "Knative looking at Services", lambda: _takes_services(folders)


def _define(folders: Folders) -> bool:
    apply(folders, knative_parts.definitions(folders))
    kubectl(folders, "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    return True


def _create(folders: Folders, options: Options) -> bool:
    limits = {name.upper(): str(getattr(options, name)) for name in INGRESS_LIMITS}
    values = {"REGISTRY": REGISTRY, "INGRESS_SERVICE": str(INGRESS_SERVICE), **limits}
    apply(folders, f"{knative_parts.objects(folders)}\n---\n{filled('ingress', values)}")
    return True


def _takes_services(folders: Folders) -> bool:
    kubectl(folders, "create", "--dry-run=server", "-f", "-", text=TRIAL)
    return True
