"""What the sources that look into a cluster share: whom they look at, what they ask before the first run, names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from towtank.errors import PlatformError, TelemetryError
from towtank.platforms.kubernetes import rights
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.connection import Connection, connect
from towtank.platforms.kubernetes.view import ClusterView, SeenInCluster
from towtank.telemetry.base import Event, ObserveContext

NODE = "node/"
"""Before the name of a node, where an instance is one; a pod's instance is its name, a workload's is Kind/name."""
ANSWER_WITHIN_S = 4.0
"""A sample that takes longer is a gap; shorter than the sampler waits for the end of its threads."""
ReadCluster = Callable[[Connection, str | None], Iterable[str]]
"""Says what is wrong with a cluster, for deployments in a namespace (None: in namespaces of their own)."""


def view_of(context: ObserveContext) -> ClusterView | None:
    """What there is to see of the deployment; None when it is in no cluster."""
    return context.deployment.view() if isinstance(context.deployment, SeenInCluster) else None


def not_in_a_cluster(source: str, context: ObserveContext) -> Event:
    """Say once that a source sees nothing of a deployment."""
    message = "the deployment is in no Kubernetes cluster"
    return Event(context.clock.now_us(), source, "not_observable", "", message)


def advised(event: Event, advice: str) -> Event:
    """An event that becomes a finding in the report, with what to do about it."""
    return event._replace(detail=json.dumps({**json.loads(event.detail), "advice": advice}))


def cannot_be_read(source: str, error: PlatformError) -> TelemetryError:
    """Why a source cannot be read at all, for `Source.start`."""
    return TelemetryError(f"telemetry source {source!r}: {error.message}", hint=error.hint)


def ask_clusters(deployments: Sequence[Any], root: Path, ask: ReadCluster) -> list[str]:
    """Ask each cluster of some deployments once; one that is not reached is for its platform to say."""
    places: dict[tuple[str, str | None, str | None], None] = {}
    for config in deployments:
        if isinstance(config, KubernetesConfig):
            places[config.context, config.kubeconfig, config.namespace] = None
    found: list[str] = []
    for context, kubeconfig, namespace in places:
        try:
            connection = connect(context, kubeconfig, root)
        except PlatformError:
            continue
        try:
            found += [f"context {context}: {one}" for one in ask(connection, namespace)]
        except PlatformError as error:
            found.append(f"context {context}: {error.message}" + (f"; {error.hint}" if error.hint else ""))
        finally:
            connection.api.close()
    return list(dict.fromkeys(found))


def missing_rights(connection: Connection, source: str, namespace: str | None) -> list[str]:
    """Rights that a source needs and does not have, in words."""
    lacking = rights.missing(connection.api, rights.of_source(source, namespace), optional=True)
    return rights.told(lacking, "; docs/kubernetes.md grants it")
