"""The objects of disturbers: a Secret with their token, and a DaemonSet, so that one stands on every node."""

from __future__ import annotations

import base64
from typing import Any

from towtank.platforms.kubernetes.config import Disturber
from towtank.platforms.kubernetes.ownership import PREFIX

NAME = "towtank-disturber"
PORT = 7418
ROLE = f"{PREFIX}/role"
DISTURBER = "disturber"
PRIVILEGED = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}
"""Labels of a namespace of their own: where a cluster is strict by default, this one is not."""
_TOKEN_FOLDER, _JOURNAL = "/token", "/run/towtank/disturb"
_GRACE_S = 15
"""One that is told to end undoes what is on within this."""


def secret(token: str) -> dict[str, Any]:
    """What the disturbers know their orchestrator by."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": NAME},
        "type": "Opaque",
        "data": {"token": base64.b64encode(token.encode()).decode()},
    }


def daemon_set(config: Disturber, marks: dict[str, str]) -> dict[str, Any]:
    """All disturbers; one that was killed is started again, and undoes what it finds in its journal."""
    chosen = {ROLE: DISTURBER, **{key: value for key, value in marks.items() if key == f"{PREFIX}/token"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME},
        "spec": {
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": chosen}, "spec": pod_spec(config)},
        },
    }


def pod_spec(config: Disturber) -> dict[str, Any]:
    """One of them.

    It sees the node's processes (``hostPID``) and enters their namespaces, for which it is privileged; it has no
    service account, a root that it cannot write, and of the node's files one folder, for its journal.
    """
    return {
        "hostPID": True,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_S,
        "nodeSelector": dict(config.node_selector),
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": DISTURBER,
                "image": config.image,
                "args": [
                    "disturb", "--listen", f"0.0.0.0:{PORT}", "--token-file", f"{_TOKEN_FOLDER}/token",
                    "--journal", _JOURNAL,
                ],
                "ports": [{"name": DISTURBER, "containerPort": PORT}],
                "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
                "securityContext": {
                    "privileged": True,
                    "runAsUser": 0,
                    "runAsGroup": 0,
                    "readOnlyRootFilesystem": True,
                },
                "volumeMounts": [
                    {"name": "token", "mountPath": _TOKEN_FOLDER, "readOnly": True},
                    {"name": "journal", "mountPath": _JOURNAL},
                ],
            }
        ],
        "volumes": [
            {"name": "token", "secret": {"secretName": NAME, "defaultMode": 0o400}},
            {"name": "journal", "hostPath": {"path": _JOURNAL, "type": "DirectoryOrCreate"}},
        ],
    }  # fmt: skip
