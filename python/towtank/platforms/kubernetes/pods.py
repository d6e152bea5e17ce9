"""What the state of a pod means: why it does not start, how its containers ended. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from towtank.platforms.kubernetes.client import Json

TroubleKind = Literal[
    "image_pull",
    "bad_config",
    "crash_loop",
    "unschedulable",
    "probe_failing",
    "volume",
    "quota",
    "evicted",
    "pending",
]
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_CONFIG = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError")
_HOPELESS_IMAGE = re.compile(
    r"not found|manifest unknown|no such host|invalid reference|unauthori[sz]ed|denied|pull access|InvalidImageName"
    r"|is not present with pull policy",
    re.IGNORECASE,
)
_VOLUME = re.compile(r"persistentvolumeclaim|persistent volumes? to bind|volume node affinity", re.IGNORECASE)
"""What the scheduler says where no node can give a pod its volumes."""
CRASHES = 3
"""A container that crashed this often before it was ready will go on crashing."""


@dataclass(frozen=True)
class Trouble:
    """Why a pod is not ready.

    Parameters
    ----------
    kind : str
    words : str
        What the cluster says.
    hopeless : bool
        Waiting longer will not mend it.
    container : str
        Which container; empty for the pod.
    """

    kind: TroubleKind
    words: str
    hopeless: bool = False
    container: str = ""


@dataclass(frozen=True)
class Ending:
    """How a container ended."""

    container: str
    container_id: str
    reason: str
    exit_code: int
    signal: int
    prepares: bool = False
    """Whether it was one of those that prepare a pod, one after another, before its main containers start."""

    @property
    def as_meant(self) -> bool:
        """Whether it did what it was there for: preparing ends."""
        return self.prepares and self.exit_code == 0

    @property
    def how(self) -> str:
        """In words."""
        if self.reason == "OOMKilled":
            return "the kernel killed it for want of memory"
        if self.signal:
            return f"killed by signal {self.signal}"
        return f"exit code {self.exit_code}" + (
            f" ({self.reason})" if self.reason not in ("", "Error", "Completed") else ""
        )


def condition(thing: Json, name: str) -> Json:
    """A condition of an object; empty when it has none of that name."""
    for one in (thing.get("status") or {}).get("conditions") or []:
        if one.get("type") == name:
            return dict(one)
    return {}


def holds(thing: Json, name: str) -> bool:
    """Whether an object says that one of its conditions is true."""
    return condition(thing, name).get("status") == "True"


def is_ready(pod: Json) -> bool:
    """Whether a pod takes requests."""
    return holds(pod, "Ready") and not is_leaving(pod)


def is_leaving(pod: Json) -> bool:
    """Whether somebody has deleted it."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_done(pod: Json) -> bool:
    """Whether it has run to its end."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def main_containers(pod: Json) -> list[Json]:
    """States of the containers that run beside each other."""
    found: list[Json] = (pod.get("status") or {}).get("containerStatuses") or []
    return found


def containers(pod: Json) -> Iterator[Json]:
    """States of all containers, those of the start first."""
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or []
    yield from main_containers(pod)


def endings(pod: Json) -> Iterator[Ending]:
    """Containers of a pod that have ended, the last time each; an ending is known by its container id."""
    spec = pod.get("spec") or {}
    preparing = {
        str(one.get("name"))
        for one in spec.get("initContainers") or []
        if one.get("restartPolicy") != "Always"
    }
    for one in containers(pod):
        for state in (one.get("state") or {}, one.get("lastState") or {}):
            ended = state.get("terminated")
            if ended:
                yield Ending(
                    str(one.get("name")), str(ended.get("containerID") or ""), str(ended.get("reason") or ""),
                    int(ended.get("exitCode") or 0), int(ended.get("signal") or 0), str(one.get("name")) in preparing,
                )  # fmt: skip


def restarts(pod: Json) -> int:
    """How often containers of a pod were started again."""
    return sum(int(one.get("restartCount") or 0) for one in containers(pod))


def trouble(pod: Json) -> Trouble | None:
    """Why a pod is not ready; None when it is, or has run to its end well."""
    status = pod.get("status") or {}
    if is_ready(pod) or status.get("phase") == "Succeeded":
        return None
    if status.get("reason") == "Evicted":
        return Trouble("evicted", str(status.get("message") or "evicted"))
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        words = str(scheduled.get("message") or scheduled.get("reason"))
        return Trouble("volume" if _VOLUME.search(words) else "unschedulable", words)
    for one in containers(pod):
        found = _container_trouble(one)
        if found is not None:
            return found
    for one in containers(pod):
        if (one.get("state") or {}).get("running") and not one.get("ready"):
            started = one.get("started")
            words = (
                "it runs and its readiness probe fails"
                if started
                else "it runs and has not passed its startup probe"
            )
            return Trouble("probe_failing", words, container=str(one.get("name")))
    return Trouble("pending", f"phase {status.get('phase') or 'unknown'}")


def _container_trouble(one: Json) -> Trouble | None:
    name = str(one.get("name"))
    state = one.get("state") or {}
    waiting = state.get("waiting") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    if reason in _IMAGE:
        hopeless = bool(_HOPELESS_IMAGE.search(f"{reason} {message}"))
        return Trouble(
            "image_pull", f"{one.get('image')}: {message or reason}", hopeless=hopeless, container=name
        )
    if reason in _CONFIG:
        return Trouble(
            "bad_config", message or reason, hopeless=reason == "CreateContainerConfigError", container=name
        )
    ended = state.get("terminated") or (one.get("lastState") or {}).get("terminated")
    count = int(one.get("restartCount") or 0)
    if ended and (count or reason == "CrashLoopBackOff" or int(ended.get("exitCode") or 0)):
        how = Ending(
            name,
            "",
            str(ended.get("reason") or ""),
            int(ended.get("exitCode") or 0),
            int(ended.get("signal") or 0),
        ).how
        words = f"it ended ({how}) and was started again {count} time(s)"
        return Trouble("crash_loop", words, hopeless=count >= CRASHES, container=name)
    return None


def images(living: Iterable[Json]) -> dict[str, list[str]]:
    """Image as pods name it → digests that nodes really run under that name.

    The name is that of the pod's `spec`: its status may have another one of the same image.
    """
    found: dict[str, set[str]] = {}
    for pod in living:
        spec = pod.get("spec") or {}
        named = {
            one.get("name"): str(one.get("image"))
            for one in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
        }
        for one in containers(pod):
            if one.get("imageID") and one.get("name") in named:
                found.setdefault(named[one["name"]], set()).add(str(one["imageID"]))
    return {name: sorted(digests) for name, digests in sorted(found.items())}


def shown(pod: Json) -> dict[str, Any]:
    """Facts of a pod for run.json."""
    status = pod.get("status") or {}
    return {
        "name": pod["metadata"]["name"],
        "node": (pod.get("spec") or {}).get("nodeName"),
        "ip": status.get("podIP"),
        "restarts": restarts(pod),
        "images": {
            str(one.get("name")): {"image": one.get("image"), "id": one.get("imageID")}
            for one in containers(pod)
        },
    }
