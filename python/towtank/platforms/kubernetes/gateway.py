"""The way through a Gateway: its address, the listener's port, and the host that an HTTPRoute is chosen by.

Gateway API v1. What a controller has to say first stands in conditions: `Accepted` and `Programmed` of the Gateway,
`Accepted` and `ResolvedRefs` of the route for this parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from towtank.errors import PlatformError
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json
from towtank.platforms.kubernetes.config import KubernetesTarget
from towtank.platforms.kubernetes.kinds import GATEWAY, HTTP_ROUTE
from towtank.platforms.kubernetes.ways import NotYet, Route, url_of

_PROTOCOLS = {"http": "HTTP", "https": "HTTPS"}
_ANY_LABEL = "towtank"
"""Stands for the star of a host such as `*.shop.example`: any label matches it."""


@dataclass(frozen=True)
class _Parent:
    """The Gateway that a target goes through, and which of its listeners is meant."""

    namespace: str
    name: str
    section: str | None = None
    port: int | None = None

    @property
    def shown(self) -> str:
        return f"{self.namespace}/{self.name}"


def through_gateway(
    api: ApiClient, namespace: str, name: str, target: KubernetesTarget, scheme: str
) -> Route:
    """The way to a target through a Gateway, as the cluster offers it now.

    Raises
    ------
    NotYet
        No controller has made it ready yet.
    PlatformError
        It cannot be found out, or no listener speaks the protocol.
    """
    route = None
    if target.httproute is not None:
        route = api.get(HTTP_ROUTE.path(namespace, target.httproute))
        parent = _parent(route, namespace, name)
        _check_route(route, parent, name)
    else:
        parent = _Parent(namespace, str(target.gateway))
    gateway = _gateway(api, parent, name)
    listener = _listener(gateway, parent, name, target, scheme)
    _check_gateway(gateway, parent, name, listener)
    address = target.address or next(_addresses(gateway), "")
    if not address:
        raise NotYet(
            f"target {name!r}: the Gateway {parent.shown} has no address yet", hint="else give `address`"
        )
    host = _host([*((route or {}).get("spec") or {}).get("hostnames", ()), listener.get("hostname")])
    facts: dict[str, Any] = {
        "way": "gateway", "gateway": parent.shown, "httproute": target.httproute, "listener": listener.get("name"),
        "address": address, "host": host, "class": (gateway.get("spec") or {}).get("gatewayClassName"),
        "balancing": "the gateway's",
    }  # fmt: skip
    return Route(url_of(scheme, address, int(listener["port"])), host, facts)


def _parent(route: Json, namespace: str, name: str) -> _Parent:
    """The first Gateway that a route belongs to."""
    for one in (route.get("spec") or {}).get("parentRefs") or []:
        if one.get("kind", "Gateway") == "Gateway":
            place = str(one.get("namespace") or namespace)
            return _Parent(place, str(one["name"]), one.get("sectionName"), one.get("port"))
    raise PlatformError(
        f"target {name!r}: the HTTPRoute {route['metadata']['name']!r} belongs to no Gateway",
        hint="its `parentRefs` name the Gateway that it is served by",
    )


def _gateway(api: ApiClient, parent: _Parent, name: str) -> Json:
    try:
        found = api.find(GATEWAY.path(parent.namespace, parent.name))
    except ApiError as error:
        if error.code == 403:
            raise PlatformError(
                f"target {name!r}: the Gateway {parent.shown} may not be read: {error.said}",
                hint="have `get gateways.gateway.networking.k8s.io` granted in that namespace",
            ) from error
        raise
    if found is None:
        raise NotYet(f"target {name!r}: there is no Gateway {parent.shown}", hint="is its namespace right?")
    return found


def _check_route(route: Json, parent: _Parent, name: str) -> None:
    which = f"target {name!r}: the HTTPRoute {route['metadata']['name']!r}"
    namespace = str(route["metadata"].get("namespace", ""))
    for said in (route.get("status") or {}).get("parents") or []:
        of = said.get("parentRef") or {}
        if (of.get("namespace") or namespace, of.get("name")) != (parent.namespace, parent.name):
            continue
        if of.get("sectionName") not in (None, parent.section):
            continue
        _require(said.get("conditions") or [], ("Accepted",), which, f"the Gateway {parent.shown}")
        _refuse(said.get("conditions") or [], "ResolvedRefs", which)
        return
    raise NotYet(
        f"{which} has not been taken up for the Gateway {parent.shown} yet",
        hint="does a controller serve this Gateway, and do its listeners allow routes of this namespace?",
    )


def _check_gateway(gateway: Json, parent: _Parent, name: str, listener: Json) -> None:
    status, class_name = gateway.get("status") or {}, (gateway.get("spec") or {}).get("gatewayClassName")
    which = f"target {name!r}: the Gateway {parent.shown}"
    _require(status.get("conditions") or [], ("Accepted", "Programmed"), which, f"its class {class_name!r}")
    for said in status.get("listeners") or []:
        if said.get("name") == listener.get("name"):
            _refuse(said.get("conditions") or [], "Programmed", f"{which}, listener {listener['name']!r},")


def _require(conditions: Sequence[Json], wanted: Sequence[str], which: str, by: str) -> None:
    """Conditions that have to be true."""
    for kind in wanted:
        said = next((one for one in conditions if one.get("type") == kind), {})
        if said.get("status") != "True":
            why = ": ".join(str(said[key]) for key in ("reason", "message") if said.get(key))
            raise NotYet(
                f"{which} is not {kind.lower()} yet{f' ({why})' if why else ''}",
                hint=f"does a controller serve {by}?",
            )


def _refuse(conditions: Sequence[Json], kind: str, which: str) -> None:
    """A condition that may be left unsaid, but not be false."""
    said = next((one for one in conditions if one.get("type") == kind), {})
    if said.get("status") == "False":
        raise NotYet(f"{which} is not right: {kind} is false: {said.get('reason')}: {said.get('message')}")


def _listener(gateway: Json, parent: _Parent, name: str, target: KubernetesTarget, scheme: str) -> Json:
    listeners = list((gateway.get("spec") or {}).get("listeners") or [])
    asked = target.port if target.port is not None else parent.port
    for one in listeners:
        speaks = one.get("protocol") == _PROTOCOLS[scheme]
        is_meant = parent.section in (None, one.get("name")) and asked in (
            None,
            one.get("port"),
            one.get("name"),
        )
        if speaks and is_meant:
            return dict(one)
    known = ", ".join(f"{one.get('name')} ({one.get('protocol')} {one.get('port')})" for one in listeners)
    which = "" if asked is None else f" at {asked!r}"
    raise PlatformError(
        f"target {name!r}: the Gateway {parent.shown} has no listener for {_PROTOCOLS[scheme]}{which}; "
        f"it has {known or 'none'}",
        hint="`tls` of the target decides between HTTP and HTTPS",
    )


def _addresses(gateway: Json) -> Iterator[str]:
    for one in (gateway.get("status") or {}).get("addresses") or []:
        if one.get("value"):
            yield str(one["value"])


def _host(names: Sequence[Any]) -> str | None:
    for name in names:
        if name:
            return str(name).replace("*", _ANY_LABEL, 1)
    return None
