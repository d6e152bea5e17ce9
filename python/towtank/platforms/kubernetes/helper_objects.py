"""What the objects of all helpers in a cluster are made of: a Secret with their token, a DaemonSet of pods."""

from __future__ import annotations

import base64
from typing import Any

_NOBODY = 65532
_FOLDER = "/token"
TOKEN_FILE = f"{_FOLDER}/token"


def token_secret(name: str, token: str) -> dict[str, Any]:
    """What helpers know their orchestrator by."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "type": "Opaque",
        "data": {"token": base64.b64encode(token.encode()).decode()},
    }


def token_volume(name: str, mode: int) -> dict[str, Any]:
    """The Secret as a volume of a pod."""
    return {"name": "token", "secret": {"secretName": name, "defaultMode": mode}}


def token_mount() -> dict[str, Any]:
    """Where a container has it."""
    return {"name": "token", "mountPath": _FOLDER, "readOnly": True}


def nobody() -> dict[str, Any]:
    """What a pod runs as that needs no rights on its node."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _NOBODY,
        "runAsGroup": _NOBODY,
        "fsGroup": _NOBODY,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def no_privilege() -> dict[str, Any]:
    """What a container may that needs no privilege, and writes into its volumes only."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def daemon_set(name: str, chosen: dict[str, str], pod: dict[str, Any]) -> dict[str, Any]:
    """One pod on every node; `chosen` are the labels that it knows its own by."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": chosen}, "spec": pod},
        },
    }
