"""Whether a deployment is back at its baseline: replicas, autoscalers, nodes, CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from towtank.errors import PlatformError
from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json
from towtank.platforms.kubernetes.kinds import AUTOSCALER, METRICS_API, NODE
from towtank.platforms.kubernetes.quantities import quantity
from towtank.platforms.kubernetes.without_load import pods_without_load
from towtank.platforms.kubernetes.workloads import Workload, is_knative, pods_of_knative, replicas
from towtank.units import format_ratio

NODE_METRICS = f"{METRICS_API}/nodes"


class NodeCount(NamedTuple):
    """Nodes of a cluster: all that are there, whoever pays for them, and those that are Ready."""

    there: int
    ready: int


@dataclass(frozen=True)
class Baseline:
    """What a deployment was when it had just become ready.

    Parameters
    ----------
    replicas : mapping
        Workload → pods that it wanted; of Knative's, those that it keeps without load.
    nodes : NodeCount, optional
        None where nodes may not be read.
    """

    replicas: Mapping[str, int]
    nodes: NodeCount | None

    @classmethod
    def take(cls, api: ApiClient, workloads: Sequence[Workload]) -> Baseline:
        """Look at it now.

        Raises
        ------
        PlatformError
        """
        found = {one.name: api.find(one.owned.path) for one in workloads}
        wanted = {name: replicas(thing)[0] for name, thing in found.items() if thing and _has_replicas(thing)}
        for one in workloads:
            thing = found[one.name]
            if thing is not None and is_knative(one.owned):
                wanted[one.name] = pods_without_load(thing)
        return cls(wanted, _count_nodes(api))


def _has_replicas(thing: Json) -> bool:
    return "replicas" in (thing.get("spec") or {}) or "desiredNumberScheduled" in (thing.get("status") or {})


def _count_nodes(api: ApiClient) -> NodeCount | None:
    there = ready = 0
    try:
        for page, _ in api.pages(NODE.path()):
            there += len(page)
            ready += sum(pods.holds(node, "Ready") for node in page)
    except ApiError as error:
        if error.code == 403:
            return None
        raise
    return NodeCount(there, ready)


def off_baseline(
    api: ApiClient, namespace: str, workloads: Sequence[Workload], baseline: Baseline, living: Sequence[Json]
) -> Iterator[str]:
    """What differs from the baseline, in words.

    Raises
    ------
    PlatformError
    """
    for one in workloads:
        thing = api.find(one.owned.path)
        words = one.missing(thing)
        if words:
            yield words
        elif is_knative(one.owned):
            now = len(pods_of_knative(one.owned, living))
            if now != baseline.replicas.get(one.name, now):
                yield f"{one.name} has {now} pods, and without load it keeps {baseline.replicas[one.name]}"
        elif thing is not None and one.name in baseline.replicas:
            wanted, _ = replicas(thing)
            if wanted != baseline.replicas[one.name]:
                yield f"{one.name} wants {wanted} pods, at its baseline it wanted {baseline.replicas[one.name]}"
    leaving = sum(map(pods.is_leaving, living))
    if leaving:
        yield f"{leaving} pod(s) are still ending"
    yield from _busy_autoscalers(api, namespace)
    nodes, then = _count_nodes(api), baseline.nodes
    if nodes is None or then is None:
        return
    if nodes.ready != then.ready:
        yield f"{nodes.ready} nodes are ready, at the baseline {then.ready}"
    if nodes.there != then.there:
        yield f"{nodes.there} nodes are there, at the baseline {then.there}"


def _busy_autoscalers(api: ApiClient, namespace: str) -> Iterator[str]:
    """Autoscalers that are about to scale: what they see is above their target."""
    try:
        found, _ = api.list(AUTOSCALER.path(namespace))
    except ApiError as error:
        if error.code in (403, 404):
            return
        raise
    for autoscaler in found:
        name = autoscaler["metadata"]["name"]
        status = autoscaler.get("status") or {}
        current, desired = status.get("currentReplicas"), status.get("desiredReplicas")
        if desired and current != desired:
            yield f"autoscaler {name} goes from {current} to {desired} replicas"
        targets = {
            str(one["resource"]["name"]): (one["resource"].get("target") or {}).get("averageUtilization")
            for one in (autoscaler.get("spec") or {}).get("metrics") or []
            if one.get("resource")
        }
        for metric in status.get("currentMetrics") or []:
            resource = (metric or {}).get("resource") or {}
            target = targets.get(str(resource.get("name")))
            seen = (resource.get("current") or {}).get("averageUtilization")
            if target is not None and seen is not None and seen > target:
                yield f"autoscaler {name} sees {resource.get('name')} at {seen} %, above its target of {target} %"


def busy_nodes(api: ApiClient, living: Sequence[Json], below_ratio: float) -> Iterator[str]:
    """Nodes with pods of the deployment whose CPU is above a bound, by the metrics API.

    Raises
    ------
    PlatformError
        There are no metrics to judge by.
    """
    ours = {str((pod.get("spec") or {}).get("nodeName")) for pod in living} - {"None"}
    try:
        metrics, _ = api.list(NODE_METRICS)
        nodes, _ = api.list(NODE.path())
    except ApiError as error:
        raise PlatformError(
            f"`cpu_below` cannot be judged: the cluster's metrics may not or cannot be read: {error.said}",
            hint="install metrics-server, grant the right (docs/kubernetes.md), or leave `cpu_below` out",
        ) from error
    capacity = {
        str(node["metadata"]["name"]): quantity(
            (node.get("status") or {}).get("allocatable", {}).get("cpu", 0)
        )
        for node in nodes
    }
    used = {str(one["metadata"]["name"]): quantity((one.get("usage") or {}).get("cpu", 0)) for one in metrics}
    for name in sorted(ours):
        if name not in used:
            yield f"node {name} has no metrics yet"
        elif capacity.get(name) and used[name] / capacity[name] > below_ratio:
            share = format_ratio(used[name] / capacity[name])
            yield f"CPU of node {name} is at {share}, wanted below {format_ratio(below_ratio)}"
