"""What others may see of a deployment in a cluster: its pods, nodes and autoscalers, and how to ask for more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from towtank.platforms.kubernetes import ownership
from towtank.platforms.kubernetes.census import Census
from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.journal import Journal, Step
from towtank.platforms.kubernetes.kinds import Kind
from towtank.platforms.kubernetes.node_journal import NodeJournal
from towtank.platforms.kubernetes.watching import Change, OnChange, Watcher
from towtank.platforms.kubernetes.without_load import scaled_by
from towtank.platforms.kubernetes.workloads import Workload


@dataclass(frozen=True)
class ClusterView:
    """A look at a deployment; nothing in it changes the cluster.

    Parameters
    ----------
    api : ApiClient
        Closed with the deployment.
    namespace, token : str
    workloads : sequence of Workload
        What brings its pods.
    watchers : mapping
        `pods`, `nodes` and `autoscalers`, at work.
    journal : Journal
        Steps of all pods.
    census : Census
        How many of them there are.
    nodes_seen : NodeJournal
        Nodes that came and went.
    kubeconfig : str
        The file that the context came from; empty for the usual one.
    """

    api: ApiClient
    namespace: str
    token: str
    workloads: Sequence[Workload]
    watchers: Mapping[str, Watcher]
    journal: Journal
    census: Census = field(default_factory=Census)
    nodes_seen: NodeJournal = field(default_factory=NodeJournal)
    kubeconfig: str = ""

    @property
    def pods(self) -> list[Json]:
        """Pods of the deployment that are there now."""
        return self.watchers["pods"].things

    @property
    def nodes(self) -> list[Json] | None:
        """All nodes; None where they may not be seen."""
        watcher = self.watchers["nodes"]
        return None if watcher.denied else watcher.things

    @property
    def autoscalers(self) -> list[Json]:
        """Autoscalers of the deployment's own workloads."""
        names = {workload.name for workload in self.workloads}
        return [one for one in self.watchers["autoscalers"].things if scaled_by(one) in names]

    @property
    def used_nodes(self) -> list[str]:
        """Nodes that pods of the deployment are on, by name."""
        return sorted(self.census.nodes)

    @property
    def selector(self) -> str:
        """What finds everything of the deployment."""
        return ownership.selector(self.token)

    def steps(self, begin: int = 0) -> Sequence[Step]:
        """Steps of pods in the order in which they were seen, from the n-th on."""
        return self.journal.steps_from(begin)

    @property
    def steps_left_out(self) -> int:
        """Steps that were seen and not kept, for there are too many."""
        return self.journal.left_out

    def unheard(self) -> str:
        """Why pods are not seen now, in words; empty when they are."""
        watcher = self.watchers["pods"]
        if watcher.denied:
            return f"pods may not be watched any more: {watcher.denied}"
        if not watcher.connected():
            return f"the API server of context {self.api.context!r} at {self.api.server} is not heard"
        return ""

    def watch(self, kind: Kind, on_change: OnChange) -> Watcher:
        """Watch the deployment's own objects of a kind; whoever asks for it closes it."""
        watcher = Watcher(self.api, kind.path(self.namespace), on_change, {"labelSelector": self.selector})
        watcher.start()
        return watcher


@runtime_checkable
class SeenInCluster(Protocol):
    """A deployment whose instances are pods, and that shows them to telemetry."""

    def view(self) -> ClusterView:
        """What there is to see; good until the deployment is removed."""


def nothing(_change: Change, _thing: Json, _before: Json | None, _t_ns: int) -> None:
    """For watches of which only what is there now is of interest."""
