"""Who reaches the address at which spans are received: pods of a cluster are not on this machine's loopback."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from towtank.errors import PlatformError
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.telemetry.otlp.options import OtlpOptions


def unreachable_from_pods(options: OtlpOptions, deployments: Sequence[Any], root: Path) -> list[str]:
    """Why pods could not send spans; empty when nothing is known against it.

    Parameters
    ----------
    options : OtlpOptions
    deployments : sequence
        Config models.
    root : Path
        Folder of the experiment file.
    """
    host, port = options.address
    in_clusters = [one for one in deployments if isinstance(one, KubernetesConfig)]
    if not in_clusters or not _is_loopback(host):
        return []
    address = next(filter(None, (_way_to(one, root) for one in in_clusters)), "")
    shown = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    such = f", such as {shown}, by which this machine reaches the cluster" if address else ""
    problem = (
        f"pods of a cluster do not reach {options.listen}, which is this machine alone: `listen` at an address that "
        f"they reach{such}, and tell it to them as OTEL_EXPORTER_OTLP_ENDPOINT (docs/telemetry.md, section 6)"
    )
    return [problem]


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _way_to(config: KubernetesConfig, root: Path) -> str:
    """This machine's own address on the way to an API server; empty where there is none but loopback. Sends nothing."""
    try:
        server = urlsplit(find_context(config.context, config.kubeconfig, root).cluster.server)
    except PlatformError:
        return ""  # the platform itself says so
    with contextlib.suppress(OSError):
        for family, kind, _, _, place in socket.getaddrinfo(
            server.hostname, server.port or 443, type=socket.SOCK_DGRAM
        ):
            with socket.socket(family, kind) as probe:
                probe.connect(place)
                own = str(probe.getsockname()[0])
            if not _is_loopback(own):
                return own
    return ""
