"""Whether workers will find a place in a cluster: its context, rights, nodes and room, asked before anything is made.

The deployment is not there yet, so what is free now is the most that workers can have. Where the cluster may add nodes
by itself (a cloud's), having none that fits is a remark; elsewhere it is a problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from towtank.design.generator_model import Generator, GeneratorCluster
from towtank.errors import PlatformError
from towtank.load.workers import cluster_objects
from towtank.platforms.kubernetes import creating, rights
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json
from towtank.platforms.kubernetes.connection import Connection, connect, takes_pods
from towtank.platforms.kubernetes.control import FORWARDED
from towtank.platforms.kubernetes.helper import planned_objects
from towtank.platforms.kubernetes.helper_objects import token_secret
from towtank.platforms.kubernetes.kinds import NODE, POD
from towtank.platforms.kubernetes.quantities import quantity
from towtank.units import format_bytes

_STAYS = {"none", "kind", "k3s", "minikube"}
"""Providers (first part of a node's `providerID`) whose clusters get no further nodes by themselves."""
_WHERE = "generator.cluster"
_TRIAL_DEADLINE_S = 60


@dataclass(frozen=True)
class Outlook:
    """What can be known before.

    Parameters
    ----------
    problems : sequence of str
        Reasons for which workers would not come up.
    remarks : sequence of str
        What may turn out to be one.
    """

    problems: Sequence[str] = ()
    remarks: Sequence[str] = ()


def look_ahead(generator: Generator, root: Path | None) -> Outlook:
    """Ask the cluster of a generator whether its workers will come up; creates nothing.

    Parameters
    ----------
    generator : Generator
        One that is not in a cluster has no problems here.
    root : Path, optional
        Folder of the experiment file.
    """
    config = generator.cluster
    if config is None:
        return Outlook()
    try:
        connection = connect(config.context, config.kubeconfig, root)
    except PlatformError as error:
        return Outlook((_said(error),))
    try:
        problems = list(_refusals(connection, generator, config))
        lacking = list(_lack_of_room(connection.api, generator, config))
        stays = connection.cluster["provider"] in _STAYS
    except PlatformError as error:
        return Outlook((_said(error),))
    finally:
        connection.api.close()
    may_grow = "; the cluster may add nodes for them"
    remarks = () if stays else tuple(f"{_WHERE}: {one}{may_grow}" for one in lacking)
    return Outlook(tuple(f"{_WHERE}: {one}" for one in [*problems, *(lacking if stays else ())]), remarks)


def _refusals(connection: Connection, generator: Generator, config: GeneratorCluster) -> Iterator[str]:
    """Rights that are missing, and what the server says to a trial."""
    api, place = connection.api, config.namespace or creating.TRY_IN
    things = [
        token_secret(cluster_objects.NAME, ""),
        cluster_objects.job(
            config, generator.workers, threads=generator.threads, deadline_s=_TRIAL_DEADLINE_S
        ),
    ]
    planned = planned_objects(connection, things, place, origin=_WHERE)
    wanted = rights.needed(config.namespace, [one.owned for one in planned])
    if config.control == FORWARDED:
        wanted += rights.of_forwarding(config.namespace, optional=False)
    lacking = rights.missing(api, wanted)
    yield from rights.told(lacking, f" in context {api.context!r}")
    if lacking:
        yield f"`towtank doctor --context {api.context}` checks rights; docs/kubernetes.md grants them"
        return
    if config.namespace is not None:
        creating.check_namespace(api, config.namespace, token="")
    yield from creating.try_out(api, planned, instead=place if config.namespace is None else None)


def _lack_of_room(api: ApiClient, generator: Generator, config: GeneratorCluster) -> Iterator[str]:
    """Why the nodes there are will not take all workers; nothing where nodes may not be read."""
    nodes = _allowed(api, NODE.path())
    if not nodes:
        return
    if not any(_fits(node, config.node_selector) for node in nodes):
        selector = ", ".join(f"{key}={value}" for key, value in config.node_selector.items())
        names = ", ".join(sorted(str(node["metadata"]["name"]) for node in nodes)[:5])
        yield f"no node that pods may use has the labels of `node_selector` ({selector}); there are {names}"
        return
    cpu = float(generator.threads if config.cpu is None else config.cpu)
    memory = float(config.memory or 0)
    room = room_of(api, cpu=cpu, memory_bytes=memory, selector=config.node_selector, nodes=nodes)
    if sum(room.values()) < generator.workers:
        each = f"{cpu:g} CPU" + (f" and {format_bytes(memory)}" if memory else "")
        found = ", ".join(f"{name}: {count}" for name, count in sorted(room.items()))
        yield (
            f"there is room for {sum(room.values())} of {generator.workers} workers of {each} each ({found}); "
            "`cpu` makes them smaller, fewer `threads` and `workers` too"
        )


def room_of(
    api: ApiClient,
    *,
    cpu: float,
    memory_bytes: float,
    selector: Mapping[str, str] | None = None,
    nodes: Sequence[Json] | None = None,
) -> dict[str, int]:
    """Node that pods may use → how many more pods with these requests it could take; empty where it may not be asked.

    Parameters
    ----------
    api : ApiClient
    cpu, memory_bytes : float
        What each reserves; cores, bytes.
    selector : mapping, optional
        Labels that nodes must have.
    nodes : sequence of Json, optional
        Those that were read already.
    """
    if nodes is None:
        nodes = _allowed(api, NODE.path())
    living = _allowed(api, POD.path(), fieldSelector="status.phase!=Succeeded,status.phase!=Failed")
    return {
        str(node["metadata"]["name"]): free_for(node, living, cpu=cpu, memory_bytes=memory_bytes)
        for node in nodes
        if _fits(node, selector or {})
    }


def _allowed(api: ApiClient, path: str, **params: str) -> list[Json]:
    """All objects of a collection; none where they may not be read."""
    try:
        found, _ = api.list(path, **params)
    except ApiError as error:
        if error.code != 403:
            raise
        return []
    return found


def free_for(node: Json, living: Iterable[Json], *, cpu: float, memory_bytes: float) -> int:
    """How many pods with these requests a node could take besides those that are there.

    Parameters
    ----------
    node : Json
    living : iterable of Json
        Pods that have not ended, of any node.
    cpu, memory_bytes : float
        What each reserves; cores, bytes.
    """
    has = (node.get("status") or {}).get("allocatable") or {}
    there = [pod for pod in living if (pod.get("spec") or {}).get("nodeName") == node["metadata"]["name"]]
    counts = [quantity(has.get("pods", 110)) - len(there)]
    for resource, wanted in (("cpu", cpu), ("memory", memory_bytes)):
        if wanted and resource in has:
            free = quantity(has[resource]) - sum(requested(pod, resource) for pod in there)
            counts.append((free + 1e-9) // wanted)
    return max(0, int(min(counts)))


def requested(pod: Json, resource: str) -> float:
    """What a pod reserves of a resource: all its containers together, or its largest start if that is more."""
    spec = pod.get("spec") or {}
    running = starting = 0.0
    for one in spec.get("initContainers") or []:
        if one.get("restartPolicy") == "Always":  # it goes on beside the others
            running += _request(one, resource)
        else:
            starting = max(starting, running + _request(one, resource))
    running += sum(_request(one, resource) for one in spec.get("containers") or [])
    return max(running, starting) + quantity((spec.get("overhead") or {}).get(resource, 0))


def _request(container: Mapping[str, Json], resource: str) -> float:
    asked = container.get("resources") or {}
    named = {**(asked.get("limits") or {}), **(asked.get("requests") or {})}
    return quantity(named.get(resource, 0))


def _fits(node: Json, selector: Mapping[str, str]) -> bool:
    return takes_pods(node) and selector.items() <= (node["metadata"].get("labels") or {}).items()


def _said(error: PlatformError) -> str:
    return f"{_WHERE}: {error.message}" + (f"; {error.hint}" if error.hint else "")
