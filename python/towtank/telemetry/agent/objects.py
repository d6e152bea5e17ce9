"""The objects of agents in a cluster: one DaemonSet."""

from __future__ import annotations

from typing import Any

from towtank.platforms.kubernetes import helper_objects
from towtank.platforms.kubernetes.ownership import ROLE
from towtank.telemetry.agent.options import AgentOptions

NAME = "towtank-agent"
PORT = 7418
AGENT = {ROLE: "agent"}
NAMESPACE_LABELS = {"pod-security.kubernetes.io/enforce": "privileged"}
"""Folders of the host are not for pods of a namespace that says nothing, where a cluster is strict."""
MEMORY_LIMIT = "64Mi"
CPU_REQUEST, MEMORY_REQUEST = "10m", "16Mi"
_HOST = "/host"
_SOCKETS = "/ceph"
_GRACE_S = 2
"""It has nothing to put in order."""


def daemon_set(options: AgentOptions, interval_s: float) -> dict[str, Any]:
    """One agent on every node, whatever keeps other pods off it."""
    return helper_objects.daemon_set(NAME, AGENT, _pod(options, interval_s))


def _pod(options: AgentOptions, interval_s: float) -> dict[str, Any]:
    sockets = [] if options.ceph_sockets is None else ["--ceph-sockets", _SOCKETS]
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_S,
        "nodeSelector": dict(options.node_selector),
        "tolerations": [{"operator": "Exists"}],
        # Some files, such as mountstats of process 1, are for their owner only: it is root, without any capability.
        "securityContext": {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "agent",
                "image": options.image,
                "args": [
                    "agent", "--listen", f"0.0.0.0:{PORT}", "--token-file", helper_objects.TOKEN_FILE,
                    "--interval-ms", str(round(interval_s * 1000)),
                    "--proc", f"{_HOST}/proc", "--sys", f"{_HOST}/sys", *sockets,
                ],
                "ports": [{"name": "agent", "containerPort": PORT}],
                "resources": {
                    "requests": {"cpu": CPU_REQUEST, "memory": MEMORY_REQUEST},
                    "limits": {"memory": MEMORY_LIMIT},
                },
                "securityContext": helper_objects.no_privilege(),
                "volumeMounts": [
                    helper_objects.token_mount(),
                    *(_mounted(name, f"{_HOST}/{name}") for name in ("proc", "sys")),
                    *([_mounted("ceph", _SOCKETS)] if sockets else []),
                ],
            }
        ],
        "volumes": [
            helper_objects.token_volume(NAME, 0o400),
            *(_of_host(name, f"/{name}") for name in ("proc", "sys")),
            *([_of_host("ceph", options.ceph_sockets)] if options.ceph_sockets is not None else []),
        ],
    }  # fmt: skip


def _mounted(name: str, path: str) -> dict[str, Any]:
    """Read-only with all that is mounted below, where the cluster can do that (control groups, debugfs)."""
    return {"name": name, "mountPath": path, "readOnly": True, "recursiveReadOnly": "IfPossible"}


def _of_host(name: str, path: str) -> dict[str, Any]:
    """A folder that is there; nothing is made on a node."""
    return {"name": name, "hostPath": {"path": path, "type": "Directory"}}
