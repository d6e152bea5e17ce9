"""Where the testbed lives on disk and in the network, and what it is called: one place for every constant."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from testbed.errors import TestbedError

HERE = Path(__file__).resolve().parent
FOLDER_VARIABLE = "TOWTANK_TESTBED"

NAME = "towtank-testbed"
"""Name of the control group, the context, and the mark on everything that has no better place for one."""
HOST_LINK = "towtank0"
NODE_LINK = "host0"
"""Names of the one veth pair's ends: on the host, and in the first node."""
ROUTE_PROTOCOL = 198
"""`proto` of our routes on the host, so that only ours are ever deleted."""

RANGE = IPv4Network("198.18.0.0/15")
"""All of it is set aside for benchmarking (RFC 2544): nothing on the internet answers there."""
POD_RANGE = IPv4Network("198.18.0.0/16")
FAKE_POD_RANGE = IPv4Network("198.18.128.0/17")
"""Addresses that KWOK gives to pods; nodes with machines have theirs below."""
SERVICE_RANGE = IPv4Network("198.19.0.0/17")
NODE_RANGE = IPv4Network("198.19.255.0/24")
TRANSFER_RANGE = IPv4Network("198.19.254.0/30")
HOST_ADDRESS, GATEWAY_ADDRESS = TRANSFER_RANGE[1], TRANSFER_RANGE[2]
API_SERVICE = SERVICE_RANGE[1]
DNS_SERVICE = SERVICE_RANGE[10]
INGRESS_SERVICE = SERVICE_RANGE[80]
"""Where Envoy answers for Knative, from the host and from pods: 80 for requests, 8002 for its counters."""
CLUSTER_DOMAIN = "cluster.local"
FUNCTION_DOMAIN = "knative.testbed"
"""A Knative Service `fn` of namespace `ns` is asked for as `fn.ns.knative.testbed`."""
API_PORT = 6443
REGISTRY_PORT = 5000
REGISTRY = "registry.testbed"
"""Host part of image names; containerd on each node knows where it really is."""

MAX_NODES = 8
MAX_PODS = 250
DEFAULT_LIMIT = 1024
"""Envoy's own, for each of its limits to a service."""
MAX_LIMIT = 2**31 - 1


INGRESS_LIMITS = ("ingress_connections", "ingress_pending", "ingress_requests")
"""Options that are limits of Envoy."""


@dataclass(frozen=True)
class Node:
    """One node: number 1 also carries the control plane, and all traffic from the host passes through it."""

    number: int

    @property
    def name(self) -> str:
        """Name in Kubernetes, host name, and folder name."""
        return f"node{self.number}"

    @property
    def address(self) -> IPv4Address:
        """A /32 on the node's `lo`: API server, kubelet, registry listen here and nowhere else."""
        return NODE_RANGE[self.number]

    @property
    def pods(self) -> IPv4Network:
        """The node's share of the pod range."""
        return list(POD_RANGE.subnets(new_prefix=22))[self.number - 1]


@dataclass(frozen=True)
class Options:
    """What may differ between two starts; kept in the record and shown by `status`.

    Parameters
    ----------
    nodes : int
        Nodes, 1 to 8. Memory and CPU that pods may request are shared out between them.
    hpa_sync_s : int
        How often the horizontal autoscaler decides; Kubernetes' own default is 15 s.
    metrics_s : int
        How often metrics-server asks the kubelets, at least 10 s; its own default is 15 s.
    kwok : bool
        Run KWOK beside the control plane: nodes with its annotation, and pods on them, are there without machines.
    knative : bool
        Install Knative Serving with an Envoy in front of it.
    ingress_connections, ingress_pending, ingress_requests : int
        How many connections to one revision, requests that wait for one, and requests under way Envoy allows; one more
        is answered 503. A revision's own annotations come before these.
    """

    nodes: int = 1
    hpa_sync_s: int = 15
    metrics_s: int = 15
    kwok: bool = False
    knative: bool = False
    ingress_connections: int = DEFAULT_LIMIT
    ingress_pending: int = DEFAULT_LIMIT
    ingress_requests: int = DEFAULT_LIMIT

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("nodes", self.nodes, 1, MAX_NODES),
            ("hpa_sync_s", self.hpa_sync_s, 1, 3600),
            ("metrics_s", self.metrics_s, 10, 3600),
            *((limit, getattr(self, limit), 1, MAX_LIMIT) for limit in INGRESS_LIMITS),
        ):
            if not low <= value <= high:
                raise TestbedError(f"{name} is {value}; allowed: {low} to {high}")
            if name in INGRESS_LIMITS and value != DEFAULT_LIMIT and not self.knative:
                raise TestbedError(
                    f"{name} is {value}, and without Knative there is no ingress; add --knative"
                )

    def all_nodes(self) -> list[Node]:
        """The nodes, the first one first."""
        return [Node(number) for number in range(1, self.nodes + 1)]

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.as_dict().items())

    def as_dict(self) -> dict[str, int]:
        """As it is written to the record."""
        return asdict(self)


@dataclass(frozen=True)
class Folders:
    """Every path on disk, below one folder: what was built stays, `state` lives from up to down."""

    root: Path

    @classmethod
    def from_environment(cls) -> Folders:
        """`$TOWTANK_TESTBED`, or `.testbed` in the checkout."""
        given = os.environ.get(FOLDER_VARIABLE)
        return cls(Path(given).resolve() if given else HERE.parent / ".testbed")

    @property
    def programs(self) -> Path:
        """Programs built from `testbed/go` and `pause.c`."""
        return self.root / "bin"

    @property
    def images(self) -> Path:
        """Packed images: blobs and manifests."""
        return self.root / "images"

    @property
    def state(self) -> Path:
        """What one start makes; removed by `down`."""
        return self.root / "state"

    @property
    def record(self) -> Path:
        """What was made, written before it is made."""
        return self.state / "record.json"

    @property
    def logs(self) -> Path:
        """Output of every component of the latest start."""
        return self.root / "log"

    @property
    def kubeconfig(self) -> Path:
        """For the administrator, usable from the host."""
        return self.root / "kubeconfig"

    def node(self, node: Node) -> Path:
        """What a node keeps on disk: it becomes `/var/lib`, `/var/log` and `/run` inside."""
        return self.state / node.name


# Inside a node's mount namespace `/run` is its own, so these paths are the same wherever the checkout lies.
INSIDE = Path("/run/testbed")
INSIDE_PROGRAMS = INSIDE / "bin"
INSIDE_CONFIG = INSIDE / "etc"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
