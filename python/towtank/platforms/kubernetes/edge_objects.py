"""The objects of a proxy of edges: a Service for each edge, and one pod with Toxiproxy and a disturber beside it.

Toxiproxy asks nobody for a token, so it is told what to do on the pod's own loopback only, by the disturber.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towtank.platforms.base import LOAD
from towtank.platforms.kubernetes import disturber_objects, helper_objects
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.config import EdgeProxy
from towtank.platforms.kubernetes.edges import Way
from towtank.platforms.kubernetes.ownership import ROLE, TOKEN
from towtank.platforms.kubernetes.ways import url_of

NAME = "towtank-edge-proxy"
PORT = 7419
"""Of the disturber."""
API = "127.0.0.1:8474"
PROXY = "toxiproxy"
_FIRST_PORT = 20_000
_CONFIG_FOLDER, _CONFIG_FILE, _JOURNAL = "/edges", "edges.json", "/journal"
_GRACE_S = 5


@dataclass(frozen=True)
class Leg:
    """One port of a way.

    Parameters
    ----------
    name : str
        What Toxiproxy calls it.
    way : Way
    port : dict
        Of the Service that is called.
    listens : int
        Port of the proxy's pod.
    """

    name: str
    way: Way
    port: Json
    listens: int


def legs(ways: Sequence[Way]) -> list[Leg]:
    """Every port of every way."""
    pairs = [(number, way, port) for number, way in enumerate(ways) for port in way.ports]
    return [
        Leg(f"towtank-edge-{number}-{port['port']}", way, port, _FIRST_PORT + index)
        for index, (number, way, port) in enumerate(pairs)
    ]


def service_name(ways: Sequence[Way], way: Way) -> str:
    """Name of the Service that leads to the proxy."""
    return f"towtank-edge-{ways.index(way)}"


def services(ways: Sequence[Way], token: str) -> Iterator[dict[str, Any]]:
    """One for each way; the load gets in by one of the same type as the Service that it would have called."""
    every = legs(ways)
    for way in ways:
        of_load = way.edge.source == LOAD
        ports = [
            {
                **{key: leg.port[key] for key in ("name", "port", "appProtocol") if key in leg.port},
                "protocol": "TCP",
                "targetPort": leg.listens,
            }
            for leg in every
            if leg.way == way
        ]
        yield {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": service_name(ways, way),
                **({"annotations": dict(way.annotations)} if of_load and way.annotations else {}),
            },
            "spec": {
                "type": (way.spec.get("type") or "ClusterIP") if of_load else "ClusterIP",
                "selector": _chosen(token),
                "ports": ports,
            },
        }


def config_map(ways: Sequence[Way], addresses: Mapping[str, str]) -> dict[str, Any]:
    """What Toxiproxy begins with; one that was started again begins with it anew, without any toxic.

    Parameters
    ----------
    ways : sequence of Way
    addresses : mapping
        Service that is called → its cluster IP.
    """
    proxies = [
        {
            "name": leg.name,
            "listen": f":{leg.listens}",
            "upstream": url_of("tcp", addresses[leg.way.service], int(leg.port["port"])).partition("//")[2],
            "enabled": True,
        }
        for leg in legs(ways)
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME},
        "data": {_CONFIG_FILE: json.dumps(proxies, indent=1)},
    }


def deployment(config: EdgeProxy, token: str) -> dict[str, Any]:
    """One pod, which has no rights at all."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _chosen(token)},
            "template": {"metadata": {"labels": _chosen(token)}, "spec": _pod(config)},
        },
    }


def _chosen(token: str) -> dict[str, str]:
    return {ROLE: PROXY, TOKEN: token}


def _pod(config: EdgeProxy) -> dict[str, Any]:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_S,
        "nodeSelector": dict(config.node_selector),
        "securityContext": helper_objects.nobody(),
        "containers": [
            {
                "name": PROXY,
                "image": config.image,
                "args": [
                    "-host", API.partition(":")[0], "-port", API.partition(":")[2],
                    "-config", f"{_CONFIG_FOLDER}/{_CONFIG_FILE}",
                ],
                # No limit: it would be felt by every call.
                "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
                "securityContext": helper_objects.no_privilege(),
                "volumeMounts": [{"name": "edges", "mountPath": _CONFIG_FOLDER, "readOnly": True}],
            },
            {
                **disturber_objects.container(config.engine, PORT, _JOURNAL),
                "securityContext": helper_objects.no_privilege(),
                "volumeMounts": [
                    helper_objects.token_mount(),
                    {"name": "journal", "mountPath": _JOURNAL},
                ],
            },
        ],
        "volumes": [
            helper_objects.token_volume(NAME, 0o440),
            {"name": "edges", "configMap": {"name": NAME}},
            {"name": "journal", "emptyDir": {}},
        ],
    }  # fmt: skip
