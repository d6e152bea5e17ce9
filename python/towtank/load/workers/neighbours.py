"""Whether workers in a cluster stand beside what they measure: load and system then take CPU from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from towtank.errors import PlatformError
from towtank.load.workers import cluster_objects
from towtank.platforms.kubernetes import ownership, pods
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.kinds import POD

_ADVICE = "keep a node for it: generator: {cluster: {node_selector: {…}}}, or taints and more nodes"
_ASKING = (
    "allow towtank to list pods of all namespaces, or see to it that load and system have nodes of their own"
)


class ListsPods(Protocol):
    """What is asked of an API server."""

    def list(self, path: str, **query: str) -> tuple[list[Json], str]:
        """Objects of a kind, and the version of the list."""


@dataclass(frozen=True)
class Neighbours:
    """Pods of our deployments on nodes with workers.

    Parameters
    ----------
    shared : mapping
        Node → names of pods.
    unasked : str
        Why that could not be asked.
    """

    shared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unasked: str = ""

    def joined(self, later: Neighbours) -> Neighbours:
        """What was seen at either of two moments."""
        nodes = self.shared.keys() | later.shared.keys()
        names = {
            node: list(dict.fromkeys([*self.shared.get(node, ()), *later.shared.get(node, ())]))
            for node in nodes
        }
        return Neighbours(names, self.unasked or later.unasked)

    def findings(self) -> list[dict[str, Any]]:
        """What is to be said of it, as the engine says its findings."""
        found = []
        if self.shared:
            where = "; ".join(
                f"{node}: {', '.join(names[:5])}" for node, names in sorted(self.shared.items())
            )
            message = f"the load generator shares {len(self.shared)} node(s) with what it measures ({where})"
            found.append(_finding("generator_shares_node", len(self.shared), message, _ADVICE))
        if self.unasked:
            message = (
                f"whether the load generator shares a node with what it measures is not known: {self.unasked}"
            )
            found.append(_finding("generator_nodes_unknown", 1, message, _ASKING))
        return found


def look(api: ListsPods, workers: Sequence[Json]) -> Neighbours:
    """Ask for pods of our deployments on the nodes of some workers.

    Parameters
    ----------
    api : ListsPods
    workers : sequence of Json
        Their pods.
    """
    nodes = {str((pod.get("spec") or {}).get("nodeName")) for pod in workers}
    others = f"{ownership.TOKEN},{ownership.ROLE}!={cluster_objects.GENERATOR}"
    shared: dict[str, list[str]] = {}
    for node in sorted(nodes):
        try:
            there, _ = api.list(POD.path(), labelSelector=others, fieldSelector=f"spec.nodeName={node}")
        except PlatformError as error:
            return Neighbours(shared, error.message)
        names = [str(pod["metadata"]["name"]) for pod in there if not pods.is_done(pod)]
        if names:
            shared[node] = names
    return Neighbours(shared)


def _finding(name: str, value: float, message: str, advice: str) -> dict[str, Any]:
    return {"event": "finding", "name": name, "t_us": 0, "value": value, "message": message, "advice": advice}
