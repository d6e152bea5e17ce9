"""What Knative says of the way to one of its Services: the host to ask for, and where its ingress stands.

A Service has a Route of its own name, and this an Ingress of Knative's own kind, whose status names the ingress's
Service within the cluster or an address outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from towtank.errors import PlatformError
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json
from towtank.platforms.kubernetes.config import KubernetesTarget
from towtank.platforms.kubernetes.kinds import KNATIVE_INGRESS, KNATIVE_ROUTE
from towtank.platforms.kubernetes.pods import condition
from towtank.platforms.kubernetes.ways import NotYet


@dataclass(frozen=True)
class Place:
    """Where an ingress stands: an address of its own, or a Service in the cluster."""

    address: str = ""
    service: str = ""
    namespace: str = ""


def host_and_places(
    api: ApiClient, namespace: str, name: str, target: KubernetesTarget
) -> tuple[str, list[Place]]:
    """Host that stands for the target, and places of its ingress.

    Raises
    ------
    NotYet
        Knative is still at it.
    PlatformError
        It has no such tag, or what it says may not be read.
    """
    route = _read(api, KNATIVE_ROUTE.path(namespace, str(target.knative)), name, "routes.serving.knative.dev")
    ready = condition(route, "Ready")
    if ready.get("status") != "True":
        said = ready.get("message") or ready.get("reason") or "it says nothing yet"
        raise NotYet(f"target {name!r}: the Route {target.knative!r} is not ready: {said}")
    host = urlsplit(_url(route, name, target)).hostname or ""
    group = KNATIVE_INGRESS.api_version.partition("/")[0]
    ingress = _read(api, KNATIVE_INGRESS.path(namespace, str(target.knative)), name, f"ingresses.{group}")
    balancer = (ingress.get("status") or {}).get("publicLoadBalancer") or {}
    return host, [place for one in balancer.get("ingress") or [] if (place := _place(one)) is not None]


def _read(api: ApiClient, path: str, name: str, kind: str) -> Json:
    try:
        found = api.find(path)
    except ApiError as error:
        if error.code == 403:
            raise PlatformError(
                f"target {name!r}: {kind} may not be read: {error.said}",
                hint=f"have `get {kind}` granted: docs/kubernetes.md",
            ) from error
        raise
    if found is None:
        raise NotYet(
            f"target {name!r}: Knative has made none of {kind} for it yet", hint="does its controller run?"
        )
    return found


def _url(route: Json, name: str, target: KubernetesTarget) -> str:
    status = route.get("status") or {}
    if target.tag is None:
        return str(status.get("url") or "")
    tags = {
        str(one["tag"]): str(one.get("url") or "") for one in status.get("traffic") or [] if one.get("tag")
    }
    if target.tag not in tags:
        raise PlatformError(
            f"target {name!r}: the traffic of {target.knative!r} has no tag {target.tag!r}",
            hint=f"it has {', '.join(tags)}" if tags else "it has no tags",
        )
    return tags[target.tag]


def _place(said: Json) -> Place | None:
    """One entry of a status; None for what only a mesh can reach."""
    outside = said.get("ip") or said.get("domain")
    if outside:
        return Place(address=str(outside))
    service, _, rest = str(said.get("domainInternal") or "").partition(".")
    return Place(service=service, namespace=rest.partition(".")[0]) if rest else None
