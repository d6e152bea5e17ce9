"""The objects of workers in a cluster: one Indexed Job."""

from __future__ import annotations

from typing import Any

from towtank.design.generator_model import GeneratorCluster
from towtank.platforms.kubernetes import helper_objects
from towtank.platforms.kubernetes.ownership import ROLE, TOKEN

NAME = "towtank-workers"
PORT = 7417
GENERATOR = "generator"
INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation by which the Job numbers its pods."""
_WORK_FOLDER = "/work"
_GRACE_S = 15
"""A worker that is told to end writes its logs within this."""


def job(config: GeneratorCluster, count: int, *, threads: int, deadline_s: int) -> dict[str, Any]:
    """All workers: each runs once and never again, and all of them end at the deadline."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": NAME},
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            "backoffLimit": 0,
            "activeDeadlineSeconds": deadline_s,
            "template": {
                "metadata": {"labels": {ROLE: GENERATOR}},
                "spec": _pod(config, threads, deadline_s),
            },
        },
    }


def _pod(config: GeneratorCluster, threads: int, deadline_s: int) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_S,
        "nodeSelector": dict(config.node_selector),
        "affinity": {"podAntiAffinity": _apart()},
        "securityContext": helper_objects.nobody(),
        "containers": [
            {
                "name": "worker",
                "image": config.image,
                "args": [
                    "worker", "--listen", f"0.0.0.0:{PORT}", "--token-file", helper_objects.TOKEN_FILE,
                    "--dir", _WORK_FOLDER, "--deadline-s", str(deadline_s),
                ],
                "ports": [{"name": "worker", "containerPort": PORT}],
                "resources": _resources(config, threads),
                "securityContext": helper_objects.no_privilege(),
                "volumeMounts": [
                    helper_objects.token_mount(),
                    {"name": "work", "mountPath": _WORK_FOLDER},
                ],
            }
        ],
        "volumes": [
            helper_objects.token_volume(NAME, 0o440),
            {"name": "work", "emptyDir": {}},
        ],
    }  # fmt: skip


def _resources(config: GeneratorCluster, threads: int) -> dict[str, Any]:
    """What is reserved; CPU is never limited, since a limit would stop the generator for parts of each 100 ms."""
    cpu = threads if config.cpu is None else config.cpu
    requests: dict[str, str] = {"cpu": f"{round(cpu * 1000)}m"}
    if config.memory is None:
        return {"requests": requests}
    memory = str(config.memory)
    return {"requests": {**requests, "memory": memory}, "limits": {"memory": memory}}


def _apart() -> dict[str, Any]:
    """Rather not on a node with anything of a deployment of ours, and rather not two workers on one."""
    system = [
        {"key": TOKEN, "operator": "Exists"},
        {"key": ROLE, "operator": "NotIn", "values": [GENERATOR]},
    ]
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            _term(100, {"matchExpressions": system}),
            _term(10, {"matchLabels": {ROLE: GENERATOR}}),
        ]
    }


def _term(weight: int, selector: dict[str, Any]) -> dict[str, Any]:
    return {
        "weight": weight,
        "podAffinityTerm": {
            "labelSelector": selector,
            "namespaceSelector": {},
            "topologyKey": "kubernetes.io/hostname",
        },
    }
