"""How requests get to a Service, an Ingress, a Gateway or a Knative Service, and in which words that is told.

Port-forwarding and the API server's proxy are no ways here: they would be measured instead of the application.
kube-proxy balances connections, not requests: a pod that comes later gets nothing from connections that are open.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from towtank.errors import PlatformError
from towtank.platforms.kubernetes import knative_way, pods
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json
from towtank.platforms.kubernetes.config import KubernetesConfig, KubernetesTarget
from towtank.platforms.kubernetes.gateway import through_gateway
from towtank.platforms.kubernetes.kinds import INGRESS, KNATIVE, NODE, SERVICE
from towtank.platforms.kubernetes.ownership import Owned
from towtank.platforms.kubernetes.ways import NotYet, Route, url_of
from towtank.platforms.target_transport import DEFAULT_TARGET

CONNECT_TIMEOUT_S = 2.0
_WAY_OF_TYPE = {"NodePort": "node_port", "LoadBalancer": "load_balancer", "ClusterIP": "cluster_ip"}


def find_routes(config: KubernetesConfig, things: Sequence[Owned]) -> dict[str, KubernetesTarget]:
    """Targets of a deployment with what leads to each.

    Raises
    ------
    PlatformError
        A Service or the like that the deployment does not have, or none or several where one is meant.
    """
    services = [one.name for one in things if one.kind == "Service" and one.api_version == "v1"]
    of_knative = [one.name for one in things if one.of.group == KNATIVE and one.kind in ("Service", "Route")]
    wanted = config.wanted_targets()
    if wanted is None:
        if len(services) == 1:
            return {DEFAULT_TARGET: KubernetesTarget(service=services[0])}
        if not services and len(of_knative) == 1:
            return {DEFAULT_TARGET: KubernetesTarget(knative=of_knative[0])}
        found = (
            f"the deployment has the Services {', '.join(services)}"
            if services
            else "the deployment has no Service"
        )
        raise PlatformError(
            f"where shall requests go? {found}", hint="say it: `targets: {app: {service: NAME}}`"
        )
    for name, target in wanted.items():
        for kind, asked in (
            ("Service", target.service), ("Ingress", target.ingress), ("Gateway", target.gateway),
            ("HTTPRoute", target.httproute), ("Knative Service", target.knative),
        ):  # fmt: skip
            named = {"Service": services, "Knative Service": of_knative}
            known = named.get(kind) or [one.name for one in things if one.kind == kind]
            if asked is not None and asked not in known:
                raise PlatformError(
                    f"target {name!r} names the {kind} {asked!r}, which the deployment does not have",
                    hint=f"it has {', '.join(known)}" if known else f"it has no {kind}",
                )
    return dict(wanted)


def route(api: ApiClient, namespace: str, name: str, target: KubernetesTarget, scheme: str) -> Route:
    """The way to a target, as the cluster offers it now.

    Raises
    ------
    NotYet
        It may still come.
    PlatformError
        It will not.
    """
    if target.ingress is not None:
        return _through_ingress(api, namespace, name, target, scheme)
    if target.knative is not None:
        return _through_knative(api, namespace, name, target, scheme)
    if target.service is None:
        return through_gateway(api, namespace, name, target, scheme)
    service = api.get(SERVICE.path(namespace, str(target.service)))
    spec = service.get("spec") or {}
    kind = str(spec.get("type") or "ClusterIP")
    port = port_of(service, name, target)
    way = target.through or _WAY_OF_TYPE.get(kind)
    facts = {"service": target.service, "service_type": kind, "way": way, "balancing": _balancing(spec)}
    if way == "node_port":
        return _through_node(api, name, target, scheme, spec=spec, port=port, facts=facts)
    if way == "load_balancer":
        address = target.address or _ingress_address(service)
        if not address:
            raise NotYet(
                f"target {name!r}: the Service {target.service!r} ({kind}) has no address of a load balancer yet",
                hint="does the cluster have one? a Service of type NodePort is reached without",
            )
        return Route(url_of(scheme, address, int(port["port"])), None, {**facts, "address": address})
    if way == "cluster_ip":
        return _through_cluster_ip(name, target, scheme, spec=spec, port=port, facts=facts)
    raise PlatformError(
        f"target {name!r}: the Service {target.service!r} is of type {kind}, to which no way is known"
    )


def _balancing(spec: Json) -> str:
    sticky = spec.get("sessionAffinity") == "ClientIP"
    return (
        "one pod for each client address (sessionAffinity)"
        if sticky
        else "kube-proxy balances connections, not requests"
    )


def port_of(service: Json, name: str, target: KubernetesTarget) -> Json:
    """Port of a Service that a target means.

    Raises
    ------
    PlatformError
        It has no such port, or several and none was named.
    """
    ports = [
        port
        for port in (service.get("spec") or {}).get("ports") or []
        if port.get("protocol", "TCP") == "TCP"
    ]
    if target.port is None and len(ports) == 1:
        return dict(ports[0])
    for port in ports:
        if target.port in (port.get("port"), port.get("name")):
            return dict(port)
    known = (
        ", ".join(f"{port['port']}" + (f" ({port['name']})" if port.get("name") else "") for port in ports)
        or "none"
    )
    asked = (
        "names no port, and there are several" if target.port is None else f"names the port {target.port!r}"
    )
    raise PlatformError(f"target {name!r} {asked}; the Service {target.service!r} has {known}")


def _through_node(
    api: ApiClient,
    name: str,
    target: KubernetesTarget,
    scheme: str,
    *,
    spec: Json,
    port: Json,
    facts: dict[str, Any],
) -> Route:
    number = port.get("nodePort")
    if not number:
        raise PlatformError(
            f"target {name!r}: the Service {target.service!r} is of type {facts['service_type']} and has no node port",
            hint=f"`set: {{'Service/{target.service}:spec.type': NodePort}}`",
        )
    local_only = spec.get("externalTrafficPolicy") == "Local"
    if target.address is not None:
        return Route(
            url_of(scheme, target.address, number),
            None,
            {**facts, "address": target.address, "node_port": number},
        )
    if local_only:
        raise PlatformError(
            f"target {name!r}: the Service {target.service!r} answers only on nodes that have a pod of it "
            "(externalTrafficPolicy: Local), so the node has to be named",
            hint="give `address`, or set externalTrafficPolicy: Cluster",
        )
    for node, address in _node_addresses(api, name):
        if _answers(address, number):
            more = {"node": node, "address": address, "node_port": number}
            return Route(url_of(scheme, address, number), None, {**facts, **more})
    raise NotYet(
        f"target {name!r}: no node answers on port {number}, the node port of the Service {target.service!r}",
        hint="can this machine reach the nodes, and does a firewall let the port through?",
    )


def _node_addresses(api: ApiClient, name: str) -> list[tuple[str, str]]:
    try:
        nodes, _ = api.list(NODE.path())
    except ApiError as error:
        raise PlatformError(
            f"target {name!r}: the addresses of nodes may not be read: {error.said}",
            hint="give `address: HOST` in the target, or have the right granted: docs/kubernetes.md",
        ) from error
    found = []
    for wanted in ("ExternalIP", "InternalIP", "Hostname"):
        for node in sorted(nodes, key=lambda one: str(one["metadata"]["name"])):
            if not pods.holds(node, "Ready"):
                continue
            found += [
                (str(node["metadata"]["name"]), str(one["address"]))
                for one in (node.get("status") or {}).get("addresses") or []
                if one.get("type") == wanted
            ]
    return found


def _through_cluster_ip(
    name: str, target: KubernetesTarget, scheme: str, *, spec: Json, port: Json, facts: dict[str, Any]
) -> Route:
    address = target.address or spec.get("clusterIP")
    if not address or address == "None":
        raise PlatformError(
            f"target {name!r}: the Service {target.service!r} has no cluster IP; "
            "its pods have only addresses of their own"
        )
    if not _answers(str(address), int(port["port"])):
        raise NotYet(
            f"target {name!r}: the cluster IP {address} of the Service {target.service!r} does not answer from here",
            hint="a cluster IP is reached from a node or over a route to it; else "
            f"`set: {{'Service/{target.service}:spec.type': NodePort}}`",
        )
    return Route(url_of(scheme, str(address), int(port["port"])), None, {**facts, "address": str(address)})


def _through_ingress(
    api: ApiClient, namespace: str, name: str, target: KubernetesTarget, scheme: str
) -> Route:
    ingress = api.get(INGRESS.path(namespace, str(target.ingress)))
    spec = ingress.get("spec") or {}
    address = target.address or _ingress_address(ingress)
    if not address:
        raise NotYet(
            f"target {name!r}: the Ingress {target.ingress!r} has no address yet",
            hint="does a controller serve its class? else give `address`",
        )
    host = next((str(rule["host"]) for rule in spec.get("rules") or [] if rule.get("host")), None)
    facts = {
        "ingress": target.ingress, "way": "ingress", "address": address, "host": host,
        "class": spec.get("ingressClassName"), "balancing": "the ingress controller's",
    }  # fmt: skip
    number = target.port if isinstance(target.port, int) else (443 if scheme == "https" else 80)
    return Route(url_of(scheme, address, number), host, facts)


def _through_knative(
    api: ApiClient, namespace: str, name: str, target: KubernetesTarget, scheme: str
) -> Route:
    """To the ingress that serves Knative, where the host says which Service is meant."""
    host, places = knative_way.host_and_places(api, namespace, name, target)
    facts = {"knative": target.knative, "host": host, "balancing": "the ingress's, or the activator's"}
    port = target.port if isinstance(target.port, int) else (443 if scheme == "https" else 80)
    if target.address is not None:
        facts |= {"way": "address", "address": target.address}
        return Route(url_of(scheme, target.address, port), host, facts)
    for place in places:
        if place.address:
            facts |= {"way": "load_balancer", "address": place.address}
            return Route(url_of(scheme, place.address, port), host, facts)
        wanted = KubernetesTarget(service=place.service, port=port, through=target.through)
        found = route(api, place.namespace, name, wanted, scheme)
        return Route(found.url, host, {**found.facts, **facts, "ingress_namespace": place.namespace})
    raise NotYet(
        f"target {name!r}: the ingress of {target.knative!r} does not say where it is",
        hint="else give `address`",
    )


def _ingress_address(thing: Json) -> str:
    for one in ((thing.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []:
        if one.get("ip") or one.get("hostname"):
            return str(one.get("ip") or one["hostname"])
    return ""


def _answers(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=CONNECT_TIMEOUT_S):
            return True
    except OSError:
        return False
