"""What is kept of watched objects: the fields that somebody asks for, so that thousands of pods take little memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from towtank.platforms.kubernetes.client import Json

Shape = Mapping[str, "Shape | None"]
"""Key → which keys of its value are kept; None is all of it. For a list it holds of each element."""

_IDENTITY: Shape = dict.fromkeys(("name", "namespace", "uid", "resourceVersion"))
_OBJECT: Shape = {
    **_IDENTITY, **dict.fromkeys(("creationTimestamp", "deletionTimestamp", "labels")),
    "ownerReferences": dict.fromkeys(("kind", "name", "uid", "controller")),
}  # fmt: skip
_CONDITIONS: Shape = dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"))
_CONTAINER: Shape = dict.fromkeys(("name", "image", "resources", "restartPolicy"))
_STATE: Shape = dict.fromkeys((
    "name", "ready", "started", "restartCount", "image", "imageID", "containerID", "state", "lastState",
))  # fmt: skip

OF_POD: Shape = {
    "metadata": _OBJECT,
    "spec": {
        **dict.fromkeys(("nodeName", "restartPolicy", "resources", "overhead")),
        "containers": _CONTAINER, "initContainers": _CONTAINER,
    },
    "status": {
        **dict.fromkeys(("phase", "reason", "message", "podIP")),
        "conditions": _CONDITIONS, "containerStatuses": _STATE, "initContainerStatuses": _STATE,
    },
}  # fmt: skip
"""Pods: about a fifth of what the server sends. Volumes, probes, tolerations and annotations are for nobody here."""
OF_NODE: Shape = {
    "metadata": _OBJECT,
    "spec": dict.fromkeys(("unschedulable", "taints", "providerID")),
    "status": {"conditions": _CONDITIONS, **dict.fromkeys(("allocatable", "addresses"))},
}
"""Nodes: without the images that they have, and without the times of heartbeats."""
OF_EVENT: Shape = {
    "metadata": _IDENTITY,
    "involvedObject": dict.fromkeys(("kind", "name", "uid")),
    **dict.fromkeys(("reason", "message", "lastTimestamp", "eventTime")),
}


def kept(thing: Json, shape: Shape) -> Json:
    """An object with only the keys of a shape.

    Words that many objects share, such as keys, reasons and images, are there once.
    """
    return {key: _part(thing[key], inner) for key, inner in shape.items() if key in thing}


def _part(value: Any, shape: Shape | None) -> Any:  # noqa: ANN401 - whatever JSON has
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, list):
        return [_part(one, shape) for one in value]
    if not isinstance(value, dict):
        return value
    if shape is None:
        return {sys.intern(key): _part(one, None) for key, one in value.items()}
    return kept(value, shape)
