"""Workers as pods: Kubernetes starts them as one Indexed Job; they are reached directly, or through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from towtank.design.generator_model import GeneratorCluster
from towtank.errors import EngineError, PlatformError
from towtank.load.workers import cluster_objects, neighbours
from towtank.load.workers.neighbours import Neighbours
from towtank.load.workers.places import Link, Standing
from towtank.platforms.base import Cancelled, DeployContext
from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.connection import connect
from towtank.platforms.kubernetes.control import Control
from towtank.platforms.kubernetes.helper import HelperObjects
from towtank.platforms.kubernetes.helper_objects import token_secret
from towtank.platforms.kubernetes.kinds import POD
from towtank.platforms.kubernetes.ownership import Owned
from towtank.platforms.kubernetes.readiness import Waiter
from towtank.platforms.kubernetes.workloads import Workload
from towtank.platforms.output import clean

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
        self._made: HelperObjects | None = None
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
            connection = connect(self._config.context, self._config.kubeconfig, self._context.root)
            made = self._made = HelperObjects(
                connection, self._context, self._config.namespace, origin="generator.cluster"
            )
            things = [
                token_secret(cluster_objects.NAME, made.token),
                cluster_objects.job(
                    self._config, count, threads=self._threads, deadline_s=max(1, round(deadline_s))
                ),
            ]
            self._wait(made, made.create(things)[-1], cancelled)
            self._pods = made.pods()
            control = Control(connection.api, made.namespace, cluster_objects.PORT, self._config.control)
            links = [self._reach(made, control, pod, cancelled) for pod in sorted(self._pods, key=_index)]
            self._neighbours = neighbours.look(connection.api, self._pods)
        except PlatformError as error:
            raise EngineError(f"the workers in the cluster: {error.message}", hint=error.hint) from error
        if len(links) != count:
            raise EngineError(f"{len(links)} of {count} workers are there")
        return links

    def findings(self) -> Sequence[dict[str, Any]]:
        """Nodes on which a worker stood beside what it measures."""
        return self._neighbours.findings()

    def close(self) -> None:
        """Delete everything that was created, and wait until it is gone; idempotent.

        Raises
        ------
        PlatformError
            Something could not be deleted; the note is still there, so that `towtank clean` can try again.
        """
        made = self._made
        if made is None:
            return
        if self._pods:  # more of the deployment may have come to their nodes under load
            self._neighbours = self._neighbours.joined(neighbours.look(made.connection.api, self._pods))
            self._pods = []
        made.close()
        self._made = None

    def _wait(self, made: HelperObjects, of: Owned, cancelled: Cancelled) -> None:
        waiter = Waiter(
            made.connection.api,
            self._context.name,
            made.namespace,
            (Workload(of),),
            self._not_ended,
            made.mask,
        )
        waiter.wait(self._config.start_timeout, first_instance="worker 0", cancelled=cancelled)

    def _not_ended(self) -> list[Json]:
        """The pods; one that has ended is not started again, so there is nothing to wait for."""
        living = self._made.pods() if self._made is not None else []
        ended = next((pod for pod in living if pods.is_done(pod)), None)
        if ended is not None:
            raise PlatformError(
                f"a worker ended before it was reached: {self._words(ended['metadata']['name'])}"
            )
        return living

    # --- reaching --------------------------------------------------------------------------------------------------

    def _reach(self, made: HelperObjects, control: Control, pod: Json, cancelled: Cancelled) -> Link:
        name = str(pod["metadata"]["name"])
        node = str((pod.get("spec") or {}).get("nodeName"))
        reached = control.reach(pod, cancelled, lambda found: found)
        facts = {
            **pods.shown(pod), "namespace": made.namespace, "cluster": self._config.context, "control": reached.way,
        }  # fmt: skip
        return Link(
            reached.connection,
            made.token,
            Standing("cluster", f"node {node}", facts),
            lambda: self._words(name),
        )

    def _words(self, name: str) -> str:
        """How a pod ended, and its last words."""
        if self._made is None:
            return ""
        connection = self._made.connection
        path = POD.path(self._made.namespace, name)
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
        return self._made.mask(f"pod {name}: {words}" + "".join(f"\n  | {clean(line)}" for line in lines))


def _index(pod: Json) -> int:
    metadata = pod["metadata"]
    marks = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    return int(marks.get(cluster_objects.INDEX, 0))
