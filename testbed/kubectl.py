"""Speaking to the cluster from the host with its own kubectl, and waiting for what it says."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from string import Template
from typing import Any

from testbed.errors import NotReadyError, TestbedError
from testbed.settings import CLUSTER_DOMAIN, DNS_SERVICE, HERE, NAME, REGISTRY, Folders, Options
from testbed.shell import run

STEP_S = 0.1
MANIFESTS = HERE / "manifests"
ADDONS = ("dns", "metrics-server")


def kubectl(folders: Folders, *words: str, text: str | None = None) -> str:
    """Run kubectl on the testbed's own context and no other."""
    own = [
        "--kubeconfig",
        str(folders.kubeconfig),
        "--context",
        NAME,
        "--cache-dir",
        str(folders.state / "kubectl"),
    ]
    return run([folders.programs / "kubectl", *own, *words], text=text)


def wait_for(what: str, holds: Callable[[], bool], timeout_s: float, because: Callable[[], str]) -> None:
    """Ask again and again until it holds; `holds` ends the wait early with a `NotReadyError` of its own.

    Raises
    ------
    NotReadyError
        After `timeout_s`, with the reason that `because` gives then.
    """
    deadline = time.monotonic() + timeout_s
    last = ""
    while time.monotonic() < deadline:
        try:
            if holds():
                return
        except NotReadyError:
            raise  # waiting longer does not help
        except (TestbedError, OSError, json.JSONDecodeError, subprocess.SubprocessError) as early:
            last = str(early)
        time.sleep(STEP_S)
    raise NotReadyError(f"{what} was not reached within {timeout_s:g} s. {because()} {last}".strip())


def api_answers(folders: Folders) -> bool:
    """Whether the API server calls itself ready."""
    return kubectl(folders, "get", "--raw", "/readyz") == "ok"


def nodes_ready(folders: Folders, options: Options, since: Mapping[str, float]) -> bool:
    """Whether every node of the testbed is Ready; nodes without machines may be there besides.

    Of a node in `since` only what it said after that time (seconds of the epoch) counts: its kubelet was started then,
    and what the API server still has may be the former one's. The others speak every few minutes only.
    """
    answer = json.loads(kubectl(folders, "get", "--raw", "/api/v1/nodes"))
    names = {node.name for node in options.all_nodes()}
    ready = 0
    for node in answer["items"]:
        if node["metadata"]["name"] not in names:
            continue
        from_then = int(since.get(node["metadata"]["name"], 0))
        for condition in node["status"].get("conditions", []):
            said = datetime.fromisoformat(condition["lastHeartbeatTime"]).timestamp()
            ready += condition["type"] == "Ready" and condition["status"] == "True" and said >= from_then
    return ready == options.nodes


def deployment_ready(folders: Folders, namespace: str, name: str) -> bool:
    """Whether all replicas of a deployment are ready."""
    address = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    found: dict[str, Any] = json.loads(kubectl(folders, "get", "--raw", address))
    return bool(found["status"].get("readyReplicas") == found["spec"]["replicas"])


def apply_addons(folders: Folders, options: Options) -> bool:
    """Create DNS and metrics-server, or bring them back to what their manifests say; True when that is done."""
    values = {
        "CLUSTER_DOMAIN": CLUSTER_DOMAIN,
        "DNS_SERVICE": str(DNS_SERVICE),
        "REGISTRY": REGISTRY,
        "METRICS_S": str(options.metrics_s),
    }
    for name in ADDONS:
        apply(folders, filled(name, values))
    return True


def filled(name: str, values: Mapping[str, str]) -> str:
    """A manifest of the testbed with what differs from start to start."""
    return Template((MANIFESTS / f"{name}.yaml").read_text("utf-8")).substitute(values)


def apply(folders: Folders, text: str) -> None:
    """Create objects, or bring them back to what is written here."""
    kubectl(folders, "apply", "--server-side", "--force-conflicts", "-f", "-", text=text)


def deployments_ready(folders: Folders, namespace: str) -> bool:
    """Whether all replicas of every deployment of a namespace are ready, and there is one."""
    found = json.loads(kubectl(folders, "get", "--raw", f"/apis/apps/v1/namespaces/{namespace}/deployments"))
    return bool(found["items"]) and all(map(_is_ready, found["items"]))


def _is_ready(deployment: dict[str, Any]) -> bool:
    status, generation = deployment["status"], deployment["metadata"]["generation"]
    wanted = deployment["spec"]["replicas"]
    current = status.get("observedGeneration") == generation and status.get("updatedReplicas") == wanted
    return bool(current and status.get("readyReplicas") == wanted == status.get("replicas"))
