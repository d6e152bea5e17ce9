"""The way between host and cluster: one veth pair, routes of our own mark, and fences on both sides.

No namespace of the testbed has a default route, so nothing in it can leave the machine. On the host an `unreachable`
route lies under the others: when the veth is gone, a late request to a pod ends here and not on the internet.
"""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from typing import Any

from testbed.errors import InTheWayError
from testbed.record import Process
from testbed.settings import (
    GATEWAY_ADDRESS,
    HOST_ADDRESS,
    HOST_LINK,
    NODE_LINK,
    NODE_RANGE,
    POD_RANGE,
    RANGE,
    ROUTE_PROTOCOL,
    SERVICE_RANGE,
    TRANSFER_RANGE,
    Node,
)
from testbed.shell import find, run


def inside(init: Process, *command: str, text: str | None = None) -> str:
    """Run a program of the host in a node's network and mounts."""
    enter = [find("nsenter"), "--target", str(init.pid), "--net", "--mount", "--"]
    return run([*enter, *command], text=text)


def check() -> None:
    """Refuse when an interface, an address or a route of this machine is in the way; name it.

    Raises
    ------
    InTheWayError
        Nothing was changed.
    """
    for link in _ip("link", "show"):
        if link["ifname"] == HOST_LINK:
            raise InTheWayError(
                f"the interface {HOST_LINK} exists and no record of this testbed knows it. Is a testbed of another "
                f"folder up? If not: ip link delete {HOST_LINK}"
            )
    for link in _ip("-4", "address", "show"):
        for address in link.get("addr_info", []):
            network = IPv4Network(f"{address['local']}/{address['prefixlen']}", strict=False)
            if network.overlaps(RANGE):
                raise InTheWayError(
                    f"{link['ifname']} has the address {address['local']}/{address['prefixlen']}; "
                    f"the testbed needs all of {RANGE}"
                )
    for route in _ip("-4", "route", "show", "table", "all"):
        target = str(route["dst"])
        if target == "default" or route.get("table") == "local":
            continue
        network = IPv4Network(target, strict=False)
        if network.prefixlen and network.overlaps(RANGE):
            raise InTheWayError(
                f"there is a route to {target} (dev {route.get('dev', 'none')}, table {route.get('table', 'main')}); "
                f"the testbed needs all of {RANGE}"
            )


def connect_host(init: Process) -> None:
    """Join the host and the first node."""
    ip = find("ip")
    proto = ["proto", str(ROUTE_PROTOCOL)]
    run([ip, "route", "add", "unreachable", str(RANGE), *proto])
    run([ip, "link", "add", HOST_LINK, "type", "veth", "peer", "name", NODE_LINK, "netns", str(init.pid)])
    prefix = TRANSFER_RANGE.prefixlen
    run([ip, "address", "add", f"{HOST_ADDRESS}/{prefix}", "dev", HOST_LINK])
    run([ip, "link", "set", HOST_LINK, "up"])
    inside(init, ip, "address", "add", f"{GATEWAY_ADDRESS}/{prefix}", "dev", NODE_LINK)
    inside(init, ip, "link", "set", NODE_LINK, "up")
    for network in (POD_RANGE, SERVICE_RANGE, NODE_RANGE):
        run([ip, "route", "add", str(network), "via", str(GATEWAY_ADDRESS), "dev", HOST_LINK, *proto])


def prepare(init: Process, node: Node) -> None:
    """Addresses and fence of one node's own network."""
    ip = find("ip")
    inside(
        init, ip, "-batch", "-",
        text=f"link set lo up\naddress add {node.address}/32 dev lo\n"
        # For the first look-up only: by the time a packet leaves, its address is a pod's, or it is refused below.
        f"route add {SERVICE_RANGE} dev lo src {node.address}\n",
    )  # fmt: skip
    inside(init, find("sysctl"), "--quiet", "--write", "net.ipv4.ip_forward=1")
    # A service that kube-proxy has not written yet (about 1 s) is refused at once; what it has written never gets
    # here, since its address was exchanged for a pod's before.
    for chain in ("OUTPUT", "FORWARD"):
        inside(init, find("iptables"), "-A", chain, "-d", str(SERVICE_RANGE), "-j", "REJECT")


def connect_nodes(first: Process, other: Process, node: Node, all_nodes: list[Node]) -> None:
    """Join a further node to the first one, which passes its traffic on."""
    ip = find("ip")
    one = all_nodes[0]
    link = node.name
    inside(first, ip, "link", "add", link, "type", "veth", "peer", "name", NODE_LINK, "netns", str(other.pid))
    inside(
        first, ip, "-batch", "-",
        text=f"link set {link} up\nroute add {node.address}/32 dev {link} src {one.address}\n"
        f"route add {node.pods} via {node.address} dev {link} src {one.address}\n",
    )  # fmt: skip
    inside(
        other, ip, "-batch", "-",
        text=f"link set {NODE_LINK} up\nroute add {one.address}/32 dev {NODE_LINK} src {node.address}\n"
        + "".join(
            f"route add {network} via {one.address} dev {NODE_LINK} src {node.address}\n"
            for network in (TRANSFER_RANGE, NODE_RANGE, POD_RANGE)
        ),
    )  # fmt: skip


def remove() -> None:
    """Remove the veth and the routes that carry our mark; what is not there is no error."""
    ip = find("ip")
    if any(link["ifname"] == HOST_LINK for link in _ip("link", "show")):
        run([ip, "link", "delete", HOST_LINK])
    for route in _own_routes():
        kind = [route["type"]] if route.get("type") else []
        run([ip, "route", "delete", *kind, str(route["dst"]), "proto", str(ROUTE_PROTOCOL)])


def _own_routes() -> list[dict[str, Any]]:
    return [
        route
        for route in _ip("-4", "route", "show", "proto", str(ROUTE_PROTOCOL))
        if route["dst"] != "default" and IPv4Network(route["dst"]).subnet_of(RANGE)
    ]


def _ip(*words: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(run([find("ip"), "-json", *words]) or "[]")
    return [entry for entry in answer if entry]
