"""Agents on a real cluster: every node is seen, starts are exact, a lost agent is a gap, nothing is left."""

from __future__ import annotations

import itertools
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from testbed.settings import REGISTRY

from support.cluster import Cluster, eventually
from support.cluster_app import config_for, deployed, patched
from support.helpers import DeclaredHelpers
from towtank.clock import RunClock
from towtank.errors import TelemetryError
from towtank.platforms.base import DeployContext
from towtank.telemetry.agent.source import AgentSource
from towtank.telemetry.base import Event, ObserveContext
from towtank.telemetry.reading import GAP_INTERVALS, GAP_SLACK_S
from towtank.telemetry.sampler import Observation, Sampler

pytestmark = pytest.mark.cluster
KINDS = "namespaces,daemonsets,pods,secrets,leases.coordination.k8s.io"
INTERVAL_S = 0.5
SILENT_US = round((GAP_INTERVALS * INTERVAL_S + GAP_SLACK_S) * 1e6)


class Watching:
    """Agents at work."""

    def __init__(self, deployment: Any, image: str, folder: Path, *, token: str = "") -> None:
        self.token = token or f"tt-agent-{secrets.token_hex(4)}"
        self._clock = RunClock(time.monotonic_ns())
        helpers = DeclaredHelpers(folder, self.token)
        context = ObserveContext(
            self._clock, INTERVAL_S, [], options={"image": image}, deployment=deployment, helpers=helpers
        )
        self._source = Noting()
        self._sampler = Sampler([(self._source, context)])
        self._sampler.start()

    def kinds(self) -> list[str]:
        """Kinds of the events so far."""
        return [event.kind for event in self._source.noted]

    def unix_s(self, t_us: int) -> float:
        """Time of day of a moment of the run."""
        return time.time() - time.monotonic() + self._clock.zero_ns / 1e9 + t_us / 1e6

    def stop(self) -> Observation:
        return self._sampler.stop()


class Noting(AgentSource):
    """The source, whose events can be seen while it is at work."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Event] = []

    def events(self) -> list[Event]:
        found = list(super().events())
        self.noted += found
        return found


def nothing_is_left(cluster: Cluster, token: str) -> None:
    assert cluster.marked(f"towtank.dev/token={token}", KINDS) == []


def values(seen: Observation, instance: str, metric: str) -> list[float]:
    return [one.value for one in seen.samples if (one.instance, one.metric) == (instance, metric)]


def median(numbers: list[float]) -> float:
    return sorted(numbers)[len(numbers) // 2]


@contextmanager
def burning_on(url: str) -> Iterator[None]:
    """The application always has something to do."""
    over = threading.Event()

    def load() -> None:
        with httpx.Client(trust_env=False, timeout=30) as client:
            while not over.is_set():
                client.get(f"{url}/?ms=200")

    thread = threading.Thread(target=load)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.alone  # measures
def test_every_node_is_seen_and_starts_are_exact(
    cluster: Cluster, context: DeployContext, engine_image: str, tmp_path: Path
) -> None:
    """One run for all of it: a pod that burns 0.2 cores, pods that are added, what agents cost, what is left."""
    limits = {"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    with deployed(config_for(cluster, patches=[patched(resources=limits)]), context) as deployment:
        watching = Watching(deployment, engine_image, tmp_path)
        (burning,) = deployment.describe()["pods"]
        url = deployment.targets["app"].instances[0].url
        with burning_on(url):
            place = deployment.describe()["namespace"]["name"]
            time.sleep(6)
        cluster.kubectl("scale", "deployment/app", "--replicas=3", "--namespace", place)
        eventually(
            lambda: sum(step.name == "ready" for step in deployment.steps()) >= 3, 60, "three pods ready"
        )
        time.sleep(2.5)
        told = cluster.get("pods", "--namespace", place)["items"]
        seen = watching.stop()
    nothing_is_left(cluster, watching.token)
    nodes = cluster_nodes(cluster)
    assert seen.gaps == ()
    for node in nodes:
        for metric in ("cpu_cores", "memory_bytes", "network_received_bytes_per_s", "pods_cpu_cores"):
            assert values(seen, f"node/{node}", metric), (node, metric)
    pods_cpu = values(seen, f"node/{burning['node']}", "pods_cpu_cores")
    assert max(pods_cpu) > 0.15
    check_starts(watching, seen, told, burning["name"])
    (facts,) = seen.facts.values()
    assert sorted(one["name"] for one in facts["agents"]) == sorted(nodes)
    assert all(one["clock"]["uncertainty_s"] < 0.05 for one in facts["agents"])
    if cluster.is_testbed:  # all on one machine: there is one clock
        assert all(abs(one["clock"]["offset_s"]) <= one["clock"]["uncertainty_s"] for one in facts["agents"])
    for node in nodes:
        assert median(values(seen, f"node/{node}", "agent_cpu_cores")) < 0.01
        assert max(values(seen, f"node/{node}", "agent_memory_bytes")) < 32 * 2**20


def check_starts(watching: Watching, seen: Observation, told: list[dict[str, Any]], old: str) -> None:
    """Each new pod's container has one start, within a second of what its object says."""
    starts = {event.instance: event for event in seen.events if event.kind == "pod_container_started"}
    by_name = {pod["metadata"]["name"]: pod for pod in told}
    assert set(starts) == set(by_name) - {old}, "what was there before had started before"
    assert len(starts) == 2
    for name, event in starts.items():
        (container,) = by_name[name]["status"]["containerStatuses"]
        detail = json.loads(event.detail)
        assert detail["uid"] == by_name[name]["metadata"]["uid"]
        assert container["containerID"].endswith(detail["container_id"])
        said_s = datetime.fromisoformat(container["state"]["running"]["startedAt"]).timestamp()
        assert -1 <= watching.unix_s(event.t_us) - said_s <= 2, "whole seconds, cut off, and one more"
    assert not [event for event in seen.events if event.kind == "container_times_differ"]


def test_a_lost_agent_is_a_gap_and_its_successor_goes_on(
    cluster: Cluster, context: DeployContext, engine_image: str, tmp_path: Path
) -> None:
    with deployed(config_for(cluster), context) as deployment:
        watching = Watching(deployment, engine_image, tmp_path)
        time.sleep(1.5)
        selector = ("--selector", f"towtank.dev/token={watching.token}")
        victim = cluster.get("pods", "--all-namespaces", *selector)["items"][0]
        node, place = victim["spec"]["nodeName"], victim["metadata"]["namespace"]
        name = victim["metadata"]["name"]
        cluster.kubectl("delete", "pod", name, "--namespace", place, "--grace-period=0", "--force")
        eventually(lambda: "agent_back" in watching.kinds(), 60, "the agent's successor is reached")
        time.sleep(1.5)
        seen = watching.stop()
    nothing_is_left(cluster, watching.token)
    lost = [event for event in seen.events if event.kind == "agent_lost"]
    assert [event.instance for event in lost] == [f"node/{node}"]
    gaps = [gap for gap in seen.gaps if f"node/{node}" in gap.reason]
    times = sorted({one.t_us for one in seen.samples if one.instance == f"node/{node}"})
    silent = [pair for pair in itertools.pairwise(times) if pair[1] - pair[0] > SILENT_US]
    # A successor may be up before a reading is missed: then nothing is.
    for begin, end in silent:
        assert any(gap.from_us - 1000 <= begin and end <= gap.to_us + 1000 for gap in gaps), (
            silent,
            seen.gaps,
        )
    (back,) = [event for event in seen.events if event.kind == "agent_back"]
    assert times[0] < lost[0].t_us < times[-1], "and goes on afterwards"
    assert times[-1] > back.t_us


@pytest.mark.usefixtures("no_route")
def test_agents_are_heard_through_the_api_server_where_there_is_no_route(
    cluster: Cluster, context: DeployContext, engine_image: str, tmp_path: Path
) -> None:
    with deployed(config_for(cluster), context) as deployment:
        watching = Watching(deployment, engine_image, tmp_path)
        time.sleep(4)
        seen = watching.stop()
    nothing_is_left(cluster, watching.token)
    (facts,) = seen.facts.values()
    nodes = cluster_nodes(cluster)
    assert {one["name"]: one["control"] for one in facts["agents"]} == dict.fromkeys(nodes, "port_forward")
    for node in nodes:
        assert values(seen, f"node/{node}", "memory_bytes"), node
    if cluster.is_testbed:  # all on one machine: there is one clock, though it is known less well this way
        assert all(abs(one["clock"]["offset_s"]) <= one["clock"]["uncertainty_s"] for one in facts["agents"])


def test_an_image_that_is_not_there_is_said_and_nothing_is_left(
    cluster: Cluster, context: DeployContext, tmp_path: Path
) -> None:
    with deployed(config_for(cluster), context) as deployment:
        missing = f"{REGISTRY}/{secrets.token_hex(8)}:1"
        token = f"tt-agent-{secrets.token_hex(4)}"
        with pytest.raises(TelemetryError, match="its image cannot be pulled"):
            Watching(deployment, missing, tmp_path, token=token)
    nothing_is_left(cluster, token)


def cluster_nodes(cluster: Cluster) -> list[str]:
    return [one["metadata"]["name"] for one in cluster.get("nodes")["items"]]
