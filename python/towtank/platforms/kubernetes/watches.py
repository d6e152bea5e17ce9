"""Everything that is watched while a deployment is there: its pods and what they hang on, its events, and nodes."""

from __future__ import annotations

from typing import Any

from towtank.errors import PlatformError
from towtank.platforms.kubernetes import ownership, watching
from towtank.platforms.kubernetes.census import Census
from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.journal import Journal
from towtank.platforms.kubernetes.kept import OF_EVENT, OF_NODE, OF_POD
from towtank.platforms.kubernetes.kinds import AUTOSCALER, EVENT, NODE, POD, REPLICA_SET
from towtank.platforms.kubernetes.node_journal import NodeJournal
from towtank.platforms.kubernetes.pod_logs import PodLogs
from towtank.platforms.kubernetes.view import nothing
from towtank.platforms.kubernetes.watching import Watcher

RECONNECT_S = 20.0
"""An API server that was restarted is heard again within this, or the platform counts as lost."""
_PULLS = {
    "fieldSelector": "involvedObject.kind=Pod,reason!=Scheduled,reason!=Created,reason!=Started,reason!=Killing"
}
"""Which events are watched: those that may tell of images. What else every pod brings is seen at the pod itself."""


class Watches:
    """Watches over one deployment, and what they were told.

    Parameters
    ----------
    api : ApiClient
    namespace : str
    token : str
        The deployment's mark.

    Attributes
    ----------
    journal : Journal
        Steps of pods, and failures.
    census : Census
        How many pods there are, and where.
    nodes : NodeJournal
    watchers : dict of str to Watcher
        By what is watched; empty until `open`.
    """

    def __init__(self, api: ApiClient, namespace: str, token: str) -> None:
        self._api = api
        self._namespace = namespace
        self._token = token
        self._logs: PodLogs | None = None
        self.journal = Journal()
        self.census = Census()
        self.nodes = NodeJournal()
        self.watchers: dict[str, Watcher] = {}

    def open(self, logs: PodLogs | None) -> None:
        """Begin; what may not be watched is told in run.json.

        Parameters
        ----------
        logs : PodLogs or None
            Is told of pods, too.

        Raises
        ------
        PlatformError
            Pods cannot be watched.
        """
        self._logs = logs
        namespace = self._namespace
        mine = {"labelSelector": ownership.selector(self._token)}
        self.watchers = {
            "pods": Watcher(self._api, POD.path(namespace), self._on_pod, mine, shape=OF_POD),
            "events": Watcher(
                self._api, EVENT.path(namespace), self.journal.on_event, _PULLS, shape=OF_EVENT, keep=False
            ),
            "replica_sets": Watcher(self._api, REPLICA_SET.path(namespace), nothing, mine),
            "autoscalers": Watcher(self._api, AUTOSCALER.path(namespace), nothing),
            "nodes": Watcher(self._api, NODE.path(), self._on_node, shape=OF_NODE),
        }
        for watcher in self.watchers.values():
            watcher.start()
        self.nodes.open()
        of_pods = self.watchers["pods"]
        if of_pods.denied or not of_pods.connected():
            raise PlatformError(
                f"pods of namespace {namespace} cannot be watched: {of_pods.denied or 'no answer'}",
                hint=f"`towtank doctor --context {self._api.context}` lists the rights that are missing",
            )

    def _on_pod(self, change: watching.Change, pod: Json, before: Json | None, t_ns: int) -> None:
        self.census.on_pod(change, pod, before, t_ns)
        self.journal.on_pod(change, pod, before, t_ns)
        if self._logs is not None:
            self._logs.on_pod(change, pod, before, t_ns)

    def _on_node(self, change: watching.Change, node: Json, before: Json | None, t_ns: int) -> None:
        """A node that is lost is a failure where pods of ours are; others come and go."""
        self.nodes.on_node(change, node, before, t_ns)
        if self.census.is_on(str(node["metadata"]["name"])):
            self.journal.on_node(change, node, before, t_ns)

    @property
    def pods(self) -> list[Json]:
        """The deployment's pods, as last told."""
        watcher = self.watchers.get("pods")
        return watcher.things if watcher is not None else []

    def check_heard(self) -> None:
        """Make sure that everything was told that happened to the pods.

        Raises
        ------
        PlatformError
        """
        watcher = self.watchers.get("pods")
        if watcher is not None and watcher.denied:
            raise PlatformError(f"pods could not be watched to the end: {watcher.denied}", hint="log in anew")
        if watcher is not None and not watcher.connected(RECONNECT_S):
            raise PlatformError(
                f"the API server of context {self._api.context!r} at {self._api.server} is not heard any more",
                hint="is it up? what happened to the pods meanwhile is not known",
            )

    def facts(self) -> dict[str, Any]:
        """What was denied or not heard for a time, for run.json."""
        return {
            name: {
                "denied": watcher.denied,
                "gaps_s": [round((gap.to_ns - gap.from_ns) / 1e9, 3) for gap in watcher.gaps],
            }
            for name, watcher in self.watchers.items()
            if watcher.denied or watcher.gaps
        }

    def close(self) -> None:
        """End them all."""
        for watcher in self.watchers.values():
            watcher.close()
