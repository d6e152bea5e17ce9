"""Toxiproxy on the edges of a deployment in a cluster: calls pass it in every run, and a fault makes it misbehave.

It stands beside the deployment, with a note, a Lease and a mark of its own, as disturbers do, and is there whether the
treatment has a fault or not: else its own cost would be taken for the fault's.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from towtank.errors import PlatformError
from towtank.platforms import toxics
from towtank.platforms.base import LOAD, Cancelled, DeployContext, Edge, EdgeTrouble, FaultMissed, Undo
from towtank.platforms.kubernetes import creating, edge_objects, edges, grip, ownership, pods
from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.config import EdgeProxy, KubernetesConfig, KubernetesTarget
from towtank.platforms.kubernetes.connection import Connection
from towtank.platforms.kubernetes.control import Control
from towtank.platforms.kubernetes.creating import Planned
from towtank.platforms.kubernetes.edges import Way
from towtank.platforms.kubernetes.grip import Grip
from towtank.platforms.kubernetes.helper import HelperObjects
from towtank.platforms.kubernetes.helper_objects import token_secret
from towtank.platforms.kubernetes.kinds import POD, SERVICE
from towtank.platforms.kubernetes.readiness import Waiter
from towtank.platforms.kubernetes.view import nothing
from towtank.platforms.kubernetes.watching import Watcher
from towtank.platforms.kubernetes.workloads import Workload

MARK = "-edges"
"""Ends the token of what belongs to the proxy of a deployment."""
_LOG_READ_BYTES = 1 << 20
"""Some thousand connections; where there were more, the first calls over a way may be further down."""
_LOG_WITHIN_S = 5.0
_WHO = "the proxy of the edges"


def plan(
    connection: Connection,
    config: KubernetesConfig,
    context: DeployContext,
    namespace: str,
    *,
    targets: Mapping[str, KubernetesTarget],
    planned: Sequence[Planned],
) -> EdgeProxies | None:
    """What a deployment needs for the edges that faults are about; None where there are none. Creates nothing.

    Raises
    ------
    PlatformError
        It has no image for it, or there is an edge on which no proxy can stand.
    """
    if not context.edges:
        return None
    if config.edge_proxy is None:
        raise PlatformError(
            f"deployment {context.name!r} has no proxy, which faults on edges need",
            hint="give it one: `edge_proxy: {image: …, engine: …}`; docs/faults.md",
        )
    things = [one.body for one in planned]
    ways = [edges.find_way(edge, targets, things) for edge in context.edges]
    return EdgeProxies(connection, config.edge_proxy, context, namespace, ways)


def create_all(api: ApiClient, planned: Sequence[Planned], proxies: EdgeProxies | None) -> None:
    """Create a deployment's objects; those that call over an edge after the proxy, whose address they are given.

    Raises
    ------
    PlatformError
    """
    called = [one for one in planned if proxies is not None and proxies.is_called(one)]
    others = [one for one in planned if one not in called]
    creating.create_all(api, called)
    if proxies is not None:
        proxies.create(others)
    creating.create_all(api, others)


class EdgeProxies:
    """One pod in a namespace of its own, or a given one, with a Service for each edge.

    Parameters
    ----------
    connection : Connection
        The deployment's.
    config : EdgeProxy
    context : DeployContext
        The deployment's.
    namespace : str
        The deployment's.
    ways : sequence of Way
    """

    def __init__(
        self,
        connection: Connection,
        config: EdgeProxy,
        context: DeployContext,
        namespace: str,
        ways: Sequence[Way],
    ) -> None:
        self._api = connection.api
        self._config = config
        self._mark = context.token + MARK
        self._namespace = namespace
        self._ways = tuple(ways)
        self._made = HelperObjects(
            connection,
            replace(context, token=self._mark, data_dir=context.data_dir / MARK.strip("-")),
            config.namespace,
            origin="edge_proxy",
        )
        self._control = Control(self._api, self._made.namespace, edge_objects.PORT, config.control)
        self._workloads: tuple[Workload, ...] = ()
        self._watcher: Watcher | None = None
        self._pod: Json = {}

    # --- coming up -------------------------------------------------------------------------------------------------

    def is_called(self, planned: Planned) -> bool:
        """Whether an object is a Service that a way leads to: the proxy has to know its address."""
        return planned.owned.kind == "Service" and planned.owned.name in {way.service for way in self._ways}

    def create(self, callers: Sequence[Planned]) -> None:
        """Create everything, and lead calls there; what was created goes with `close`, whatever happens.

        Parameters
        ----------
        callers : sequence of Planned
            Objects of the deployment that are not created yet; those that call get the proxy's address.

        Raises
        ------
        PlatformError
        """
        addresses = {way.service: self._address(self._namespace, way.service) for way in self._ways}
        things = [
            token_secret(edge_objects.NAME, self._made.token),
            edge_objects.config_map(self._ways, addresses),
            *edge_objects.services(self._ways, self._mark),
            edge_objects.deployment(self._config, self._mark),
        ]
        self._workloads = (Workload(self._made.create(things)[-1]),)
        bodies = [one.body for one in callers]
        for way in self._ways:
            if way.callers:
                name = edge_objects.service_name(self._ways, way)
                edges.lead(way, self._address(self._made.namespace, name), self._namespace, bodies)

    def _address(self, namespace: str, service: str) -> str:
        spec = self._api.get(SERVICE.path(namespace, service)).get("spec") or {}
        return str(spec["clusterIP"])

    def wait_ready(self, timeout_s: float, cancelled: Cancelled) -> None:
        """Block until it stands, and knows every way.

        Raises
        ------
        ReadinessTimeout, PlatformError
        """
        made = self._made
        waiter = Waiter(self._api, "edge proxy", made.namespace, self._workloads, made.living, made.mask)
        waiter.wait(timeout_s, first_instance="edge-proxy", cancelled=cancelled)
        (self._pod,) = made.living()
        held = self._reach(cancelled)
        held.begin(self._fault(self._ways, []), None)
        held.undo()
        chosen = {"labelSelector": ownership.selector(self._mark)}
        self._watcher = Watcher(self._api, POD.path(made.namespace), nothing, chosen)
        self._watcher.start()

    def _reach(self, cancelled: Cancelled) -> Grip:
        return grip.reach(self._control, self._pod, self._made.token, _WHO, cancelled)

    # --- at work ---------------------------------------------------------------------------------------------------

    def way_in(self, target: str, wanted: KubernetesTarget) -> tuple[str, KubernetesTarget, dict[str, Any]]:
        """How the load gets to a target: over its edge, where it has one.

        Returns
        -------
        tuple
            Namespace of the Service that it goes to, the target with that Service, and what run.json says besides.
        """
        way = next((one for one in self._ways if one.edge == Edge(LOAD, target)), None)
        if way is None:
            return self._namespace, wanted, {}
        name = edge_objects.service_name(self._ways, way)
        instead = wanted.model_copy(update={"service": name})
        return self._made.namespace, instead, {"stands_for": wanted.service}

    def disturb(self, edge: Edge, trouble: EdgeTrouble, lasts_s: float | None) -> Undo:
        """Make an edge misbehave; connections that stand are met too.

        Raises
        ------
        PlatformError
            There is no such way, or it cannot be done.
        """
        ways = [way for way in self._ways if way.edge == edge]
        if not ways:
            raise PlatformError(f"no call from {edge.source} to {edge.target} goes through the proxy")
        held = self._reach(lambda: None)
        named = [{"name": f"towtank-{secrets.token_hex(6)}", **toxic} for toxic in toxics.of(trouble)]
        held.begin(self._fault(ways, named), lasts_s)

        def undo() -> None:
            held.undo()
            if self._never_called(ways):
                raise FaultMissed(
                    f"no call from {edge.source} to {edge.target} went through the proxy of this edge; "
                    "docs/faults.md says which calls it cannot meet"
                )

        return undo

    def _never_called(self, ways: Sequence[Way]) -> bool:
        """Whether Toxiproxy's log says that nobody has called over these ways; a long one may not say so for sure."""
        path = f"{POD.path(self._made.namespace, str(self._pod['metadata']['name']))}/log"
        try:
            asked = {"container": edge_objects.PROXY, "limitBytes": str(_LOG_READ_BYTES)}
            log = self._api.glance(path, timeout_s=_LOG_WITHIN_S, **asked)
        except PlatformError:
            return False  # it may not be read with `logs: false`
        return (
            len(log) < _LOG_READ_BYTES
            and toxics.saw_calls(log.decode("utf-8", "replace"), self._names(ways)) is False
        )

    def _fault(self, ways: Sequence[Way], named: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """As `towtank-engine disturb` takes it."""
        return {
            "kind": "toxics", "api": edge_objects.API, "ways": self._names(ways), "toxics": list(named)
        }  # fmt: skip

    def _names(self, ways: Sequence[Way]) -> list[str]:
        """What Toxiproxy calls their ports."""
        return [leg.name for leg in edge_objects.legs(self._ways) if leg.way in ways]

    def check(self) -> None:
        """Whether it stands as it stood from the beginning: its own failures are no treatment's.

        Raises
        ------
        PlatformError
        """
        if self._watcher is None:
            return
        uid = self._pod["metadata"]["uid"]
        pod = next((one for one in self._watcher.things if one["metadata"]["uid"] == uid), None)
        if pod is None or pods.is_leaving(pod):
            raise PlatformError(f"{_WHO} is gone, and calls over it with it")
        if _restarts(pod) != _restarts(self._pod):
            raise PlatformError(f"{_WHO} was started again, and calls over it broke")

    def facts(self) -> list[dict[str, Any]]:
        """For run.json: each edge, and who calls what by it."""
        return [
            {
                "from": way.edge.source,
                "target": way.edge.target,
                "service": way.service,
                "ports": [port["port"] for port in way.ports],
                "callers": list(way.callers),
            }
            for way in self._ways
        ]

    # --- going -----------------------------------------------------------------------------------------------------

    def close(self, api: ApiClient) -> None:
        """Delete everything that was created, and wait until it is gone; idempotent. What is on is undone by that.

        Parameters
        ----------
        api : ApiClient
            That of the connection, or another where an attempt that failed has closed it.

        Raises
        ------
        PlatformError
        """
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        self._made.close(api)


def _restarts(pod: Json) -> int:
    """How often Toxiproxy itself was started again; the disturber beside it may be."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return sum(int(one.get("restartCount") or 0) for one in statuses if one.get("name") == edge_objects.PROXY)
