"""One connection to the cluster of a deployment: who it is, what it knows, which nodes pods may use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towtank.errors import PlatformError
from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.discovery import Kinds, describe_cluster
from towtank.platforms.kubernetes.kinds import NODE
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.platforms.kubernetes.parameters import HOSTNAME_LABEL

_KEEPS_AWAY = ("NoSchedule", "NoExecute")


@dataclass(frozen=True)
class Connection:
    """A cluster that answers.

    Parameters
    ----------
    api : ApiClient
    kinds : Kinds
    cluster : dict
        See `discovery.describe_cluster`.
    kubeconfig : str
        The file that the context came from.
    """

    api: ApiClient
    kinds: Kinds
    cluster: dict[str, Any]
    kubeconfig: str

    @property
    def identity(self) -> str:
        """What tells this cluster from others."""
        return str(self.cluster.get("id") or self.api.server)


def connect(context: str, kubeconfig: str | None, root: Path | None) -> Connection:
    """Reach the cluster of a context.

    Raises
    ------
    PlatformError
        No such context, or its API server does not answer or does not let us in.
    """
    found = find_context(context, kubeconfig, root)
    api = ApiClient(found)
    try:
        cluster = describe_cluster(api)
    except BaseException:
        api.close()
        raise
    return Connection(api, Kinds(api), cluster, str(found.fname or ""))


def takes_pods(node: Json) -> bool:
    """Whether pods that tolerate nothing may be placed on a node."""
    spec = node.get("spec") or {}
    return (
        pods.holds(node, "Ready")
        and not spec.get("unschedulable")
        and not any(taint.get("effect") in _KEEPS_AWAY for taint in spec.get("taints") or [])
    )


def usable_nodes(api: ApiClient, count: int | None) -> Sequence[str]:
    """Host names of the first nodes that pods may use; empty when all may be used.

    Raises
    ------
    PlatformError
        There are fewer.
    """
    if count is None:
        return ()
    nodes, _ = api.list(NODE.path())
    names = sorted(
        str((node["metadata"].get("labels") or {}).get(HOSTNAME_LABEL, node["metadata"]["name"]))
        for node in nodes
        if takes_pods(node)
    )
    if len(names) < count:
        raise PlatformError(
            f"`nodes: {count}`: the cluster of context {api.context!r} has {len(names)} node(s) that pods may use"
            + (f": {', '.join(names)}" if names else ""),
            hint="add nodes, or use fewer",
        )
    return names[:count]
