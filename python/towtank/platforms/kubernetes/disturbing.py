"""Faults on pods: which stand behind a target, how one is killed, and how its CPU is taken away while it runs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from towtank.errors import PlatformError
from towtank.platforms.base import Filling, Undo
from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json
from towtank.platforms.kubernetes.config import KubernetesTarget
from towtank.platforms.kubernetes.kinds import POD, SERVICE
from towtank.units import parse_cores

_TRIES = 8
"""The status of a pod is written all the time: a change may have to be made anew on a newer version."""


def behind(api: ApiClient, namespace: str, target: KubernetesTarget, living: Iterable[Json]) -> list[str]:
    """Names of the ready pods that a target's Service chooses; behind other ways those of the whole deployment."""
    selector: Mapping[str, Any] = {}
    if target.service is not None:
        service = api.get(SERVICE.path(namespace, target.service))
        selector = (service.get("spec") or {}).get("selector") or {}
    return sorted(
        str(pod["metadata"]["name"])
        for pod in living
        if pods.is_ready(pod) and selector.items() <= (pod["metadata"].get("labels") or {}).items()
    )


def has_cpu_limits(pod: Json) -> bool:
    """Whether every container of a pod has a CPU limit: only then it can be resized, and resized back."""
    return all(_limits_cpu(one) for one in pod["spec"]["containers"])


def _limits_cpu(container: Json) -> bool:
    return "cpu" in ((container.get("resources") or {}).get("limits") or {})


def with_volume(pod: Json, folder: str) -> str:
    """Id of the running container that has a volume mounted at a folder, or above it.

    Raises
    ------
    PlatformError
        There is none.
    """
    mounted: dict[str, str] = {}
    for container in pod["spec"]["containers"]:
        for mount in container.get("volumeMounts") or []:
            if not mount.get("readOnly"):
                mounted.setdefault(str(mount["mountPath"]).rstrip("/") or "/", container["name"])
    wanted = PurePosixPath(folder)
    holder = next((name for path, name in mounted.items() if wanted.is_relative_to(path)), None)
    if holder is None or ".." in wanted.parts:
        raise PlatformError(
            f"pod {pod['metadata']['name']} has no volume at {folder!r}; it has {', '.join(mounted) or 'none'}",
            hint="`folder` of the fault `disk` is the path of a volume in the pod, or one below it",
        )
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    found: Json = next((one for one in statuses if one.get("name") == holder), {})
    if (found.get("state") or {}).get("running") is None:
        raise PlatformError(f"container {holder} of pod {pod['metadata']['name']} does not run")
    return str(found.get("containerID") or "").rpartition("/")[2]


def disk_fault(pod: Json, filling: Filling) -> Json:
    """A volume is filled, in the words of a disturber.

    Raises
    ------
    PlatformError
        The pod has no such volume.
    """
    return {
        "kind": "disk", "containers": [with_volume(pod, filling.folder)], "pod": str(pod["metadata"]["uid"]),
        "folder": filling.folder, "bytes": filling.size_bytes, "leave_bytes": filling.leave_bytes,
        "leave_shared_bytes": filling.leave_shared_bytes,
    }  # fmt: skip


def kill(api: ApiClient, namespace: str, pod: Json, grace_s: float) -> None:
    """Delete a pod, by its UID; whoever owns it makes another."""
    metadata = pod["metadata"]
    path = POD.path(namespace, str(metadata["name"]))
    if not api.delete(path, str(metadata["uid"]), grace_s=round(grace_s)):
        raise PlatformError(f"the pod {metadata['name']} was gone before it could be killed")


def limit_cpu(api: ApiClient, namespace: str, name: str, cores: float) -> Undo:
    """Resize a running pod in place, each of its containers to so many cores; undone, it gets back what it had.

    Raises
    ------
    PlatformError
        The cluster does not resize pods in place; or a container has no CPU limit: one that was given to a running
        container cannot be taken from it again.
    """
    had: dict[str, Json] = {}
    path = f"{POD.path(namespace, name)}/resize"
    uid = ""

    def lower(pod: Json) -> None:
        nonlocal uid
        uid = str(pod["metadata"]["uid"])
        for container in pod["spec"]["containers"]:
            if not _limits_cpu(container):
                raise PlatformError(
                    f"container {container['name']} of pod {name} has no CPU limit; one that it is given while it runs "
                    "could not be taken from it again",
                    hint="write one into its manifest, or `patches` it: resources.limits.cpu; or give the deployment a "
                    "`disturber`, which needs none",
                )
        for container in pod["spec"]["containers"]:
            had[container["name"]] = copy.deepcopy(container.get("resources") or {})
            container["resources"] = lowered(container.get("resources") or {}, cores)

    def give_back(pod: Json) -> None:
        if str(pod["metadata"]["uid"]) == uid:
            for container in pod["spec"]["containers"]:
                container["resources"] = had[container["name"]]

    try:
        _change(api, path, POD.path(namespace, name), lower)
    except ApiError as error:
        raise PlatformError(
            f"the CPU of pod {name} cannot be limited while it runs: {error.said}",
            hint="resizing in place needs Kubernetes 1.33 or newer",
        ) from error

    def undo() -> None:
        try:
            _change(api, path, POD.path(namespace, name), give_back)
        except ApiError as error:
            if error.code != 404:  # a pod that is gone takes its limit along
                raise

    return undo


def lowered(resources: Json, cores: float) -> Json:
    """Resources of a container with a lower CPU limit; its request equals it afterwards only if it did before.

    Raises
    ------
    PlatformError
        It has no more than that anyhow.
    """
    found = copy.deepcopy(resources)
    limits, requests = found["limits"], found.setdefault("requests", {})
    had = parse_cores(str(limits["cpu"]))
    if had <= cores:
        raise PlatformError(
            f"a container may use {limits['cpu']} CPU at most already, so that {_milli(cores)} would take nothing away",
            hint="let `cores` of the fault be less than the limit of every container",
        )
    asked = parse_cores(str(requests.get("cpu", limits["cpu"])))
    is_guaranteed = asked == had
    limits["cpu"] = _milli(cores)
    if is_guaranteed:
        requests["cpu"] = limits["cpu"]
    elif asked >= cores:
        requests["cpu"] = _milli(cores / 2)
    return found


def _milli(cores: float) -> str:
    return f"{max(1, round(cores * 1000))}m"


def _change(api: ApiClient, path: str, whole: str, edit: Callable[[Json], None]) -> None:
    for left in range(_TRIES - 1, -1, -1):
        pod = api.get(whole)
        edit(pod)
        try:
            api.replace(path, pod)
        except ApiError as error:
            if error.code != 409 or not left:
                raise
        else:
            return
