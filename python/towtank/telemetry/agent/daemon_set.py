"""Agents on every node of a cluster: a DaemonSet, whose pods are reached directly, or through the API server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from towtank.errors import EngineError, PlatformError
from towtank.load.workers.places import Link, Standing
from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.connection import connect
from towtank.platforms.kubernetes.control import Control
from towtank.platforms.kubernetes.helper import HelperObjects
from towtank.platforms.kubernetes.helper_objects import token_secret
from towtank.platforms.kubernetes.kinds import NODE
from towtank.platforms.kubernetes.node_journal import is_ready
from towtank.platforms.kubernetes.readiness import Waiter
from towtank.platforms.kubernetes.view import ClusterView
from towtank.platforms.kubernetes.workloads import Workload
from towtank.telemetry.agent import objects
from towtank.telemetry.agent.elsewhere import State
from towtank.telemetry.agent.options import AgentOptions
from towtank.telemetry.base import Helper

_LOOK_AGAIN_S = 5.0
"""For nodes that came later."""


class DaemonSet:
    """One agent on every node.

    Parameters
    ----------
    view : ClusterView
        Of the deployment in whose cluster they stand.
    options : AgentOptions
    helper : Helper
    interval_s : float
        Between two readings.
    """

    def __init__(self, view: ClusterView, options: AgentOptions, helper: Helper, interval_s: float) -> None:
        self._view = view
        self._options = options
        self._helper = helper
        self._interval_s = interval_s
        self._objects: HelperObjects | None = None
        self._control: Control | None = None
        self._looked_s = 0.0
        self._names: list[str] = []
        self._over = False

    def start(self, until_s: float) -> None:
        """Create them, and wait until every ready node has one.

        Raises
        ------
        PlatformError
        """
        connection = connect(self._view.api.context, self._view.kubeconfig or None, self._helper.context.root)
        made = self._objects = HelperObjects(
            connection, self._helper.context, self._options.namespace, origin="observe.agent",
            namespace_labels=objects.NAMESPACE_LABELS,
        )  # fmt: skip
        self._control = Control(connection.api, made.namespace, objects.PORT, self._options.control)
        things = [
            token_secret(objects.NAME, made.token),
            objects.daemon_set(self._options, self._interval_s),
        ]
        owned = made.create(things)[-1]
        workload = _OnReadyNodes(owned, made, self._options)
        waiter = Waiter(connection.api, "agents", made.namespace, (workload,), made.pods, made.mask)
        left_s = max(0.0, until_s - time.monotonic())
        waiter.wait(left_s, first_instance="every agent", cancelled=lambda: None)

    def names(self) -> Sequence[str]:
        """Nodes that have an agent, or had one; those that came later are among them after some seconds."""
        now_s = time.monotonic()
        if self._objects is not None and (not self._names or now_s - self._looked_s >= _LOOK_AGAIN_S):
            self._looked_s = now_s
            found = [_node_of(pod) for pod in self._objects.pods() if pods.is_ready(pod)]
            self._names += sorted({name for name in found if name} - set(self._names))
        return list(self._names)

    def state(self, name: str) -> State:
        """What the cluster says of a node; ready where nodes may not be seen."""
        nodes = self._view.nodes
        if nodes is None:
            return "ready"
        node = next((one for one in nodes if one["metadata"]["name"] == name), None)
        if node is None:
            return "gone"
        return "ready" if is_ready(node) else "unready"

    def reach(self, name: str) -> Link:
        """Connect to the agent of a node, whichever pod that is now.

        Raises
        ------
        EngineError
        PlatformError
            We are not allowed to.
        """
        made, control = self._objects, self._control
        if made is None or control is None:
            raise EngineError("there are no agents any more")
        try:
            living = [pod for pod in made.living() if _node_of(pod) == name]
        except PlatformError as error:
            raise EngineError(f"which pod is the agent of {name} is not known: {error.message}") from error
        for pod in living:
            if (pod.get("status") or {}).get("podIP"):
                reached = control.connect(pod)
                facts = {**pods.shown(pod), "namespace": made.namespace, "control": reached.way}
                standing = Standing("cluster", f"node {name}", facts)
                return Link(reached.connection, made.token, standing, str)
        raise EngineError(f"there is no agent on node {name} now")

    def close(self) -> None:
        """Delete them, and wait until they are gone; idempotent.

        Raises
        ------
        PlatformError
        """
        if self._objects is not None:
            self._objects.close()
            self._objects = None
        if not self._over:  # also where nothing was created, for the cluster was not reached
            self._over = True
            self._helper.over()


@dataclass(frozen=True)
class _OnReadyNodes(Workload):
    """Up when every ready node that it may use has a ready pod: a node that is lost is not waited for."""

    made: HelperObjects
    options: AgentOptions

    def missing(self, thing: Json | None) -> str:
        """What is missing, in words."""
        if thing is None:
            return f"{self.name} is not there any more"
        nodes, _ = self.made.connection.api.list(NODE.path())
        wanted = {
            str(node["metadata"]["name"])
            for node in nodes
            if pods.holds(node, "Ready")
            and (self.options.node_selector.items() <= (node["metadata"].get("labels") or {}).items())
        }
        if not wanted:
            return f"{self.name}: no ready node has the labels of `node_selector`"
        lacking = wanted - {_node_of(pod) for pod in self.made.pods() if pods.is_ready(pod)}
        return f"{self.name} has no ready pod on {', '.join(sorted(lacking))}" if lacking else ""


def _node_of(pod: Json) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
