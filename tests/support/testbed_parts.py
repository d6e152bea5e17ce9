"""Breaking components of the testbed, and having them back: held still, or ended for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from testbed.record import Process, Record
from testbed.settings import Folders

from support.cluster import Cluster, eventually, run_testbed

READY_WITHIN_S = 100.0


def part(node: str, name: str) -> Process:
    """A component that runs."""
    record = Record.load(Folders.from_environment().record)
    found = record.get(node, name) if record is not None else None
    assert found is not None, f"{name} of {node} does not run"
    return found


@contextmanager
def held(node: str, name: str) -> Iterator[None]:
    """A component hangs: it is there and does nothing."""
    process = part(node, name)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@contextmanager
def away(node: str, name: str) -> Iterator[None]:
    """A component has ended, and is started again after a while."""
    part(node, name).end()
    try:
        yield
    finally:
        restart(node, name)


def restart(node: str, name: str) -> None:
    """A component ends and comes back at once."""
    done = run_testbed("restart", node, name)
    assert done.returncode == 0, done.stderr


def last_node(cluster: Cluster) -> str:
    """A node to break: the control plane is on the first."""
    return str(max(one["metadata"]["name"] for one in cluster.get("nodes")["items"]))


def wait_whole(cluster: Cluster) -> None:
    """Until everything is as before: all nodes ready and in use, the add-ons ready."""

    def whole() -> bool:
        nodes = cluster.get("nodes")["items"]
        ready = all(
            any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
            and not node["spec"].get("unschedulable")
            for node in nodes
        )
        addons = cluster.get("deployments", "--namespace", "kube-system")["items"]
        return ready and all(one["status"].get("readyReplicas") == one["spec"]["replicas"] for one in addons)

    eventually(whole, READY_WITHIN_S, "every node and add-on is ready again")
