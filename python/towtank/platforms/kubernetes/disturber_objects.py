"""The objects of disturbers: a DaemonSet, so that one stands on every node."""

from __future__ import annotations

from typing import Any

from towtank.platforms.kubernetes import helper_objects
from towtank.platforms.kubernetes.config import Disturber
from towtank.platforms.kubernetes.ownership import ROLE, TOKEN

NAME = "towtank-disturber"
PORT = 7418
DISTURBER = "disturber"
PRIVILEGED = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}
"""Labels of a namespace of their own: where a cluster is strict by default, this one is not."""
_JOURNAL = "/run/towtank/disturb"
_GRACE_S = 15
"""One that is told to end undoes what is on within this."""


def daemon_set(config: Disturber, token: str) -> dict[str, Any]:
    """All disturbers; one that was killed is started again, and undoes what it finds in its journal."""
    return helper_objects.daemon_set(NAME, {ROLE: DISTURBER, TOKEN: token}, pod_spec(config))


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
                **container(config.image, PORT, _JOURNAL),
                "securityContext": {
                    "privileged": True,
                    "runAsUser": 0,
                    "runAsGroup": 0,
                    "readOnlyRootFilesystem": True,
                },
                "volumeMounts": [
                    helper_objects.token_mount(),
                    {"name": "journal", "mountPath": _JOURNAL},
                ],
            }
        ],
        "volumes": [
            helper_objects.token_volume(NAME, 0o400),
            {"name": "journal", "hostPath": {"path": _JOURNAL, "type": "DirectoryOrCreate"}},
        ],
    }  # fmt: skip


def container(image: str, port: int, journal: str) -> dict[str, Any]:
    """A disturber itself, without its rights and mounts; also where it stands beside something else.

    Parameters
    ----------
    image : str
        Of the engine.
    port : int
    journal : str
        Folder in it.
    """
    return {
        "name": DISTURBER,
        "image": image,
        "args": [
            "disturb", "--listen", f"0.0.0.0:{port}", "--token-file", helper_objects.TOKEN_FILE, "--journal", journal,
        ],
        "ports": [{"name": DISTURBER, "containerPort": port}],
        "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
    }  # fmt: skip
