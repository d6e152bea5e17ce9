"""Which calls in a cluster can be led through a proxy: the Service that is called, and the pods that call it.

The load is led there by an address of its own. Pods are led there by `hostAliases`: in them, and only in them, the name
of the Service means the proxy. So the Service itself stays as it was, and everybody else calls it as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from towtank.errors import PlatformError
from towtank.platforms.base import LOAD, Edge
from towtank.platforms.kubernetes import reach, sources
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.config import KubernetesConfig, KubernetesTarget
from towtank.platforms.kubernetes.ownership import Owned
from towtank.platforms.kubernetes.parameters import changed, pod_templates

_CLUSTER_DOMAIN = "cluster.local"
"""What nearly every cluster is called; the name with another ending is not met, the shorter ones are."""


class NoWay(PlatformError):  # noqa: N818 - it says what there is not
    """An edge on which no proxy can stand; `key` is what of the fault is wrong: `from` or `target`."""

    def __init__(self, key: Literal["from", "target"], message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.key = key


@dataclass(frozen=True)
class Way:
    """Calls over one edge.

    Parameters
    ----------
    edge : Edge
    service : str
        The Service that is called.
    spec : dict
        Of that Service, as it is written.
    annotations : dict
        Of that Service: they may say what kind of load balancer it gets.
    ports : tuple of dict
        Of its ports those that calls go to.
    callers : tuple of str
        What has the pods that call, as ``Kind/name``; empty for the load.
    """

    edge: Edge
    service: str
    spec: Json
    annotations: dict[str, str]
    ports: tuple[Json, ...]
    callers: tuple[str, ...]


def find_way(edge: Edge, targets: Mapping[str, KubernetesTarget], things: Sequence[Json]) -> Way:
    """The way of an edge.

    Parameters
    ----------
    edge : Edge
        Its target is a target or a Service; its source is `load`, a target, a Service, or ``Kind/name``.
    targets : mapping
        Of the deployment.
    things : sequence of dict
        Objects of the deployment.

    Raises
    ------
    NoWay
    """
    target = targets.get(edge.target)
    service = _called(edge, target, things)
    spec = service.get("spec") or {}
    name = _name(service)
    _check_service(spec, name)
    ports: Sequence[Json] = spec.get("ports") or []
    if edge.source == LOAD and target is not None:
        _check_address(spec, edge.target, target)
        try:
            ports = [reach.port_of(service, edge.target, target)]
        except PlatformError as error:
            raise NoWay("target", error.message) from error
    callers = () if edge.source == LOAD else _callers(edge.source, targets, things)
    annotations = dict(service["metadata"].get("annotations") or {})
    return Way(edge, name, dict(spec), annotations, tuple(dict(port) for port in ports), callers)


def lead(way: Way, address: str, namespace: str, things: Sequence[Json]) -> None:
    """Let the callers of a way find its proxy under the names of the Service; in place.

    Parameters
    ----------
    way : Way
    address : str
        Where the proxy is.
    namespace : str
        Of the deployment.
    things : sequence of dict
        Its objects, before they are created.
    """
    service = f"{way.service}.{namespace}.svc"
    names = [way.service, f"{way.service}.{namespace}", service, f"{service}.{_CLUSTER_DOMAIN}"]
    for thing in things:
        if _shown(thing) in way.callers:
            for template in pod_templates(thing):
                spec = template["spec"]
                spec["hostAliases"] = [
                    *(spec.get("hostAliases") or []), {"ip": address, "hostnames": list(names)}
                ]  # fmt: skip


def _called(edge: Edge, target: KubernetesTarget | None, things: Sequence[Json]) -> Json:
    """The Service that an edge leads to."""
    services = {_name(one): one for one in things if _is_service(one)}
    if target is not None and target.service is None:
        raise NoWay(
            "target",
            f"target {edge.target!r} is reached through an Ingress or a Gateway, and a proxy can only stand before a "
            "Service",
            hint=f"name a target that is a Service; the deployment has {', '.join(services) or 'none'}",
        )
    name = target.service if target is not None else (None if edge.source == LOAD else edge.target)
    if name not in services:
        raise NoWay(
            "target",
            f"the edge from {edge.source} leads to {edge.target!r}, which names no Service of the deployment; it has "
            f"{', '.join(services) or 'none'}",
            hint="the load goes to targets only: give the Service one in `targets`"
            if edge.source == LOAD
            else None,
        )
    return services[str(name)]


def _check_service(spec: Json, name: str) -> None:
    """Whether a proxy can stand for a Service, with all else as it was."""
    other = [port for port in spec.get("ports") or [] if port.get("protocol", "TCP") != "TCP"]
    why = ""
    if spec.get("type") == "ExternalName":
        why = "it is only another name (ExternalName)"
    elif spec.get("clusterIP") == "None":
        why = "it has no address of its own (headless): its pods are called one by one"
    elif spec.get("sessionAffinity") == "ClientIP":
        why = "it keeps to one pod for each client (sessionAffinity), and all calls would come from the proxy"
    elif spec.get("internalTrafficPolicy") == "Local":
        why = "it keeps calls on the node of the caller (internalTrafficPolicy), and the proxy is on one node"
    elif other:
        why = f"its port {other[0].get('port')} is {other[0]['protocol']}, and the proxy knows only TCP"
    elif not spec.get("ports"):
        why = "it has no port"
    if why:
        raise NoWay("target", f"no proxy can stand before the Service {name!r}: {why}")


def _check_address(spec: Json, name: str, target: KubernetesTarget) -> None:
    """An address that was given leads past the proxy, unless it is that of a node."""
    way = target.through or ("node_port" if spec.get("type") == "NodePort" else "")
    if target.address is not None and way != "node_port":
        raise NoWay(
            "target",
            f"target {name!r} is reached at the `address` {target.address!r}, which leads past any proxy",
            hint="leave `address` out, or let the Service be of type NodePort",
        )


def _callers(source: str, targets: Mapping[str, KubernetesTarget], things: Sequence[Json]) -> tuple[str, ...]:
    """What has the pods that call."""
    workloads = [one for one in things if any(True for _ in pod_templates(one))]
    if "/" in source:
        found = [one for one in workloads if _shown(one) == source]
    else:
        target = targets.get(source)
        name = source if target is None else target.service
        services = (one for one in things if _is_service(one) and _name(one) == name)
        selector = ((next(services, {}).get("spec") or {}).get("selector")) or {}
        found = [
            one for one in workloads if selector and any(selector.items() <= its for its in _labels(one))
        ]
    if not found:
        names = [*targets, *(_name(one) for one in things if _is_service(one))]
        known = ", ".join(dict.fromkeys([LOAD, *names, *map(_shown, workloads)]))
        raise NoWay(
            "from", f"{source!r} names no pods of the deployment that could call; allowed are {known}"
        )
    return tuple(_shown(one) for one in found)


def _labels(thing: Json) -> Iterator[frozenset[tuple[str, str]]]:
    for template in pod_templates(thing):
        yield frozenset(((template.get("metadata") or {}).get("labels") or {}).items())


def _name(thing: Json) -> str:
    return str(thing["metadata"]["name"])


def _is_service(thing: Json) -> bool:
    return (thing.get("apiVersion"), thing.get("kind")) == ("v1", "Service")


def _shown(thing: Json) -> str:
    return f"{thing.get('kind')}/{_name(thing)}"


def written_problem(config: KubernetesConfig, edge: Edge, root: Path) -> tuple[str, str, str] | None:
    """Why no proxy can stand on an edge, by the written manifests alone; see `KubernetesConfig.edge_problem`."""
    if not config.manifests:
        return None  # kustomize folders and charts are looked at when the deployment is made
    try:
        things, _ = changed(sources.read(config, root), config)
        objects = [one.thing for one in things]
        named = [
            Owned(one["apiVersion"], one["kind"], plural="", namespaced=True, namespace="", name=_name(one))
            for one in objects
        ]
        find_way(edge, reach.find_routes(config, named), objects)
    except NoWay as error:
        return error.key, error.message, error.hint or ""
    except PlatformError:
        return None  # it is told where it stands
    return None
