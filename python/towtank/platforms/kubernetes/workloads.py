"""Objects that have pods: how many they want and have, whether they are up, what keeps them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import Json
from towtank.platforms.kubernetes.kinds import KNATIVE
from towtank.platforms.kubernetes.ownership import Owned
from towtank.platforms.kubernetes.parameters import pod_templates

_OWN_STATUS = (
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "Pod",
    "Job",
    "CronJob",
)
_HASH = "pod-template-hash"


@dataclass(frozen=True)
class Workload:
    """An object whose pods have to be ready.

    Parameters
    ----------
    owned : Owned
    """

    owned: Owned

    @property
    def name(self) -> str:
        """``Kind/name``."""
        return self.owned.shown

    def missing(self, thing: Json | None) -> str:  # noqa: PLR0911 - one for each kind
        """What is missing until it is up, in words; empty when it is."""
        if thing is None:
            return f"{self.name} is not there any more"
        kind, status = self.owned.kind, thing.get("status") or {}
        if kind == "CronJob":
            return ""
        if kind == "Pod":
            return (
                ""
                if pods.is_ready(thing) or status.get("phase") == "Succeeded"
                else f"{self.name} is not ready"
            )
        if kind == "Job":
            return "" if _job_is_up(thing) else f"{self.name} has no ready pod yet"
        if kind not in _OWN_STATUS:
            ready = pods.condition(thing, "Ready")
            said = str(ready.get("message") or ready.get("reason") or "it says nothing of being ready")
            return "" if ready.get("status") == "True" else f"{self.name}: {said}"
        wanted, ready_now = replicas(thing)
        if int(status.get("observedGeneration") or 0) < int(thing["metadata"].get("generation") or 0):
            return f"{self.name} was not looked at by its controller yet"
        return "" if ready_now >= wanted else f"{self.name} has {ready_now} of {wanted} pods ready"


def is_workload(thing: Json) -> bool:
    """Whether an object brings pods."""
    return any(True for _ in pod_templates(thing))


def replicas(thing: Json) -> tuple[int, int]:
    """Pods that a controller wants, and those of the newest template that are ready."""
    spec, status = thing.get("spec") or {}, thing.get("status") or {}
    if thing.get("kind") == "DaemonSet" or "desiredNumberScheduled" in status:
        ready, updated = int(status.get("numberReady") or 0), status.get("updatedNumberScheduled")
        return int(status.get("desiredNumberScheduled") or 0), min(ready, int(updated or ready))
    wanted = int(spec["replicas"]) if spec.get("replicas") is not None else 1
    ready = int(status.get("readyReplicas") or 0)
    return wanted, min(ready, int(status.get("updatedReplicas", ready) or 0))


def workload_of(pod: Json) -> str:
    """What brought a pod, as ``Kind/name``: its Deployment rather than that one's ReplicaSet.

    The name of a ReplicaSet is that of its Deployment and the hash that its pods are labelled with.
    """
    metadata = pod["metadata"]
    owners = metadata.get("ownerReferences") or []
    owner = next((one for one in owners if one.get("controller")), owners[0] if owners else None)
    if owner is None:
        return f"Pod/{metadata['name']}"
    kind, name = str(owner.get("kind")), str(owner.get("name"))
    end = f"-{(metadata.get('labels') or {}).get(_HASH)}"
    if kind == "ReplicaSet" and name.endswith(end):
        return f"Deployment/{name.removesuffix(end)}"
    return f"{kind}/{name}"


def failure(thing: Json) -> str:
    """Why a controller cannot make pods, such as a quota; empty when it can."""
    for name in ("ReplicaFailure", "FailedCreate"):
        found = pods.condition(thing, name)
        if found.get("status") == "True":
            return str(found.get("message") or found.get("reason"))
    return ""


def is_knative(owned: Owned) -> bool:
    """Whether Knative brings the pods of an object."""
    return owned.of.group == KNATIVE


def failed_revision(thing: Json) -> str:
    """Why Knative has given up on the newest revision of a Service or Configuration; empty when it has not."""
    if not str(thing.get("apiVersion", "")).startswith(f"{KNATIVE}/"):
        return ""
    ready = pods.condition(thing, "Ready")
    if ready.get("status") != "False":
        return ""
    return str(ready.get("message") or ready.get("reason") or "it says nothing of why")


def pods_of_knative(owned: Owned, living: Iterable[Json]) -> list[Json]:
    """Pods of a Service or Configuration, of all its revisions."""
    return [
        pod
        for pod in living
        if (pod["metadata"].get("labels") or {}).get(f"{KNATIVE}/configuration") == owned.name
    ]


def _job_is_up(job: Json) -> bool:
    status: dict[str, Any] = job.get("status") or {}
    if pods.condition(job, "Complete").get("status") == "True":
        return True
    wanted = int((job.get("spec") or {}).get("parallelism") or 1)
    return int(status.get("ready") or 0) + int(status.get("succeeded") or 0) >= wanted
