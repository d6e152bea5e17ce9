"""Workers as pods: Kubernetes starts them as one Indexed Job, and they are reached at their own addresses."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Sequence
from typing import Any

from towtank.design.generator_model import GeneratorCluster
from towtank.errors import EngineError, PlatformError
from towtank.load.workers import cluster_objects, neighbours
from towtank.load.workers.neighbours import Neighbours
from towtank.load.workers.places import Link, Standing, connected
from towtank.platforms.base import Cancelled, DeployContext
from towtank.platforms.kubernetes import creating, ownership, pods
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.connection import Connection, connect
from towtank.platforms.kubernetes.creating import Planned
from towtank.platforms.kubernetes.deployment import namespace_name
from towtank.platforms.kubernetes.discovery import POD
from towtank.platforms.kubernetes.lease import LiveLease
from towtank.platforms.kubernetes.ownership import Note, Owned
from towtank.platforms.kubernetes.readiness import Waiter, cancelled_sleep
from towtank.platforms.kubernetes.sources import Source
from towtank.platforms.kubernetes.workloads import Workload
from towtank.platforms.output import clean

_LISTENING_WITHIN_S = 20.0
"""From a container that runs to a worker that listens: an engine starts in milliseconds, a busy node takes longer."""
_TRY_EVERY_S = 0.3
_LAST_LINES = 10


class Cluster:
    """One Indexed Job in a namespace of its own, or a given one.

    Parameters
    ----------
    config : GeneratorCluster
    context : DeployContext
        Mark of everything that is created, and the folder for the note about it.
    threads : int
        Of each worker.
    """

    def __init__(self, config: GeneratorCluster, context: DeployContext, *, threads: int) -> None:
        self._config = config
        self._context = context
        self._threads = threads
        self._token = secrets.token_hex(32)
        self._namespace = config.namespace or namespace_name(context.name, context.token)
        self._connection: Connection | None = None
        self._note: Note | None = None
        self._lease: LiveLease | None = None
        self._pods: list[Json] = []
        self._neighbours = Neighbours()
        self.start_timeout_s = config.start_timeout

    @property
    def own_pids(self) -> tuple[int, ...]:
        """None: no process of this machine makes the load."""
        return ()

    def start(self, count: int, *, deadline_s: float, cancelled: Cancelled) -> Sequence[Link]:
        """Create the Job, wait for all its pods, and reach each; see `Place.start`."""
        try:
            connection = self._connection = connect(
                self._config.context, self._config.kubeconfig, self._context.root
            )
            planned = self._planned(connection, count, max(1, round(deadline_s)))
            self._create(connection, planned)
            self._wait(connection, planned[-1].owned, cancelled)
            self._pods = self._living()
            links = [self._reach(pod, cancelled) for pod in sorted(self._pods, key=_index)]
            self._neighbours = neighbours.look(connection.api, self._pods)
        except PlatformError as error:
            raise EngineError(f"the workers in the cluster: {error.message}", hint=error.hint) from error
        if len(links) != count:
            raise EngineError(f"{len(links)} of {count} workers are there")
        return links

    def findings(self) -> Sequence[dict[str, Any]]:
        """Nodes on which a worker stands beside what it measures."""
        return self._neighbours.findings()

    def close(self) -> None:
        """Delete everything that was created, and wait until it is gone; idempotent.

        Raises
        ------
        PlatformError
            Something could not be deleted; the note is still there, so that `towtank clean` can try again.
        """
        if self._connection is None:
            return
        if self._note is not None:
            creating.delete_all(self._connection.api, self._note)
            with contextlib.suppress(OSError):
                (self._context.data_dir / ownership.NOTE).unlink(missing_ok=True)
            self._note = None
        if self._lease is not None:
            self._lease.close()
        self._connection.api.close()
        self._connection = None

    # --- creating --------------------------------------------------------------------------------------------------

    def _planned(self, connection: Connection, count: int, deadline_s: int) -> list[Planned]:
        things = [
            cluster_objects.secret(self._token),
            cluster_objects.job(self._config, count, threads=self._threads, deadline_s=deadline_s),
        ]
        marks = ownership.labels(self._context)
        planned = []
        for thing in things:
            kind = connection.kinds.of(thing)
            name = thing["metadata"]["name"]
            owned = Owned(kind.api_version, kind.kind, kind.plural, kind.namespaced, self._namespace, name)
            planned.append(
                Planned(Source(ownership.marked(thing, self._namespace, marks), "generator.cluster"), owned)
            )
        return planned

    def _create(self, connection: Connection, planned: Sequence[Planned]) -> None:
        api, own = connection.api, self._config.namespace is None
        marks = ownership.labels(self._context)
        if not own:
            creating.check_namespace(api, self._namespace, self._context.token)
        note = Note(
            self._context.token, api.context, api.server, connection.kubeconfig, connection.identity,
            self._namespace, own, tuple(one.owned for one in planned),
        )  # fmt: skip
        note.write(self._context.data_dir)
        self._note = note
        if own:
            creating.create_namespace(api, self._namespace, marks)
        self._lease = LiveLease(api, self._namespace, self._context.token, marks)
        self._lease.start()
        problems = creating.try_out(api, planned)
        if problems:
            raise PlatformError("\n".join(problems))
        creating.create_all(api, planned)

    def _wait(self, connection: Connection, of: Owned, cancelled: Cancelled) -> None:
        waiter = Waiter(
            connection.api, self._context.name, self._namespace, (Workload(of),), self._not_ended, self._mask
        )
        waiter.wait(self._config.start_timeout, first_instance="worker 0", cancelled=cancelled)

    def _not_ended(self) -> list[Json]:
        """The pods; one that has ended is not started again, so there is nothing to wait for."""
        living = self._living()
        ended = next((pod for pod in living if pods.is_done(pod)), None)
        if ended is not None:
            raise PlatformError(
                f"a worker ended before it was reached: {self._words(ended['metadata']['name'])}"
            )
        return living

    def _mask(self, text: str) -> str:
        return text.replace(self._token, "***")

    def _living(self) -> list[Json]:
        if self._connection is None:
            return []
        found, _ = self._connection.api.list(
            POD.path(self._namespace), labelSelector=ownership.selector(self._context.token)
        )
        return found

    # --- reaching --------------------------------------------------------------------------------------------------

    def _reach(self, pod: Json, cancelled: Cancelled) -> Link:
        name = str(pod["metadata"]["name"])
        node = str((pod.get("spec") or {}).get("nodeName"))
        address = str((pod.get("status") or {}).get("podIP"))
        facts = {**pods.shown(pod), "namespace": self._namespace, "cluster": self._config.context}
        connection = self._connected(address, cancelled)
        return Link(
            connection, self._token, Standing("cluster", f"node {node}", facts), lambda: self._words(name)
        )

    def _connected(self, address: str, cancelled: Cancelled) -> socket.socket:
        until = time.monotonic() + _LISTENING_WITHIN_S
        while True:
            try:
                return connected(address, cluster_objects.PORT)
            except EngineError as error:
                if time.monotonic() >= until:
                    raise EngineError(
                        f"{error.message}: a pod's own address has to be reachable from here",
                        hint="run towtank where pods can be reached: on a node, in a pod, or over a route to them",
                    ) from error
            cancelled_sleep(_TRY_EVERY_S, cancelled)

    def _words(self, name: str) -> str:
        """How a pod ended, and its last words."""
        connection = self._connection
        if connection is None:
            return ""
        path = POD.path(self._namespace, name)
        try:
            pod = connection.api.find(path)
            if pod is None:
                return f"the pod {name} is gone"
            ends = [end.how for end in pods.endings(pod)]
            status = pod.get("status") or {}
            said = [*ends, str(status.get("reason") or ""), str(status.get("message") or "")]
            lines = connection.api.text(f"{path}/log", tailLines=str(_LAST_LINES)).splitlines()
        except PlatformError as error:
            return f"how the pod {name} fares is not known: {error.message}"
        words = "; ".join(dict.fromkeys(word for word in said if word)) or f"phase {status.get('phase')}"
        return self._mask(f"pod {name}: {words}" + "".join(f"\n  | {clean(line)}" for line in lines))


def _index(pod: Json) -> int:
    metadata = pod["metadata"]
    marks = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    return int(marks.get(cluster_objects.INDEX, 0))
