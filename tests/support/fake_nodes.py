"""Nodes without machines, where KWOK looks after them."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.kinds import NODE
from towtank.platforms.kubernetes.kubeconfig import find_context

TYPE = "made-up-32"
TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
_AT_ONCE = 4


class FakeNodes:
    """Makes and removes them in one cluster.

    Parameters
    ----------
    context, kubeconfig : str
    """

    def __init__(self, context: str, kubeconfig: str | Path) -> None:
        self.api = ApiClient(find_context(context, str(kubeconfig)))

    def add(self, names: Iterable[str]) -> None:
        """Make nodes; they are Ready a moment later."""
        self._each(lambda name: self.api.create(NODE.path(), _node(name)), names)

    def remove(self, names: Iterable[str]) -> None:
        """Remove nodes; pods on them go a while later."""

        def drop(name: str) -> None:
            found = self.api.find(NODE.path(name=name))
            if found is not None:
                self.api.delete(NODE.path(name=name), found["metadata"]["uid"])

        self._each(drop, names)

    def ready(self) -> int:
        """How many nodes of the cluster are Ready."""
        return sum(
            {"type": "Ready", "status": "True"}.items() <= condition.items()
            for node in self.api.list(NODE.path())[0]
            for condition in node["status"].get("conditions") or []
        )

    @staticmethod
    def _each(act: object, names: Iterable[str]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(act, names))  # type: ignore[arg-type]


def _node(name: str) -> Json:
    size = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    labels = {"type": "kwok", "kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": TYPE}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": [TAINT]},
        "status": {"allocatable": size, "capacity": size},
    }  # fmt: skip
