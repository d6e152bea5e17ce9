"""Telemetry of a real cluster: what the sources see of an application that is scaled and loaded."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from support.cluster_app import SUPPORT, config_for, deployed, patched
from towtank.analysis import requested as of_requests
from towtank.analysis.requested import crowded, read_requested
from towtank.analysis.resources import deployment_samples, node_samples
from towtank.analysis.usage import run_usage
from towtank.clock import RunClock
from towtank.platforms.base import DeployContext
from towtank.store.run_record import Window
from towtank.telemetry import registry
from towtank.telemetry.base import Event, LooksAtDeployments, ObserveContext
from towtank.telemetry.sampler import Observation, Sampler

pytestmark = pytest.mark.cluster
SOURCES = ("kubernetes", "kubelet", "metrics-server")


class Watched:
    """Sources at work on a deployment."""

    def __init__(self, deployment: Any, *names: str, interval_s: float = 1.0) -> None:
        self.clock = RunClock(time.monotonic_ns())
        context = ObserveContext(self.clock, interval_s, [], deployment=deployment)
        self.sampler = Sampler([(registry.create(name), context) for name in names])
        self.sampler.start()

    def stop(self) -> Observation:
        return self.sampler.stop()


@contextmanager
def kept_busy(deployment: Any, query: str, users: int = 1) -> Iterator[None]:
    """Users who ask again as soon as they are answered."""
    over = threading.Event()
    url = deployment.targets["app"].instances[0].url

    def ask() -> None:
        with httpx.Client(trust_env=False, timeout=30) as client:
            while not over.is_set():
                client.get(f"{url}/?{query}")

    threads = [threading.Thread(target=ask) for _ in range(users)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def series(seen: Observation, source: str, metric: str) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for one in seen.samples:
        if one.source == source and one.metric == metric:
            found.setdefault(one.instance, []).append((one.t_us, one.value))
    return found


def of_kind(seen: Observation, kind: str) -> list[Event]:
    return [event for event in seen.events if event.kind == kind]


@pytest.mark.parametrize("name", SOURCES)
def test_nothing_speaks_against_observing_it(cluster: Any, name: str) -> None:
    source = registry.create(name)
    assert isinstance(source, LooksAtDeployments)
    assert list(source.look_ahead_at({}, [config_for(cluster)], SUPPORT)) == []


def test_scaling_is_seen_as_it_happens(cluster: Any, context: DeployContext) -> None:
    with deployed(config_for(cluster), context) as deployment:
        watched = Watched(deployment, "kubernetes", interval_s=0.5)
        place = deployment.describe()["namespace"]["name"]
        asked_us = watched.clock.now_us()
        cluster.kubectl("scale", "deployment/app", "--replicas=4", "--namespace", place)
        until = time.monotonic() + 60
        while sum(step.name == "ready" for step in deployment.steps()) < 4:
            assert time.monotonic() < until
            time.sleep(0.1)
        time.sleep(1.2)
        seen = watched.stop()
    desired = series(seen, "kubernetes", "replicas_desired")
    ready = series(seen, "kubernetes", "replicas_ready")
    assert [value for _, value in desired["Deployment/app"]][-1] == 4
    assert [value for _, value in ready[""]][-1] == 4
    assert ready["Deployment/app"] == ready[""]
    assert series(seen, "kubernetes", "nodes_ready")[""][-1][1] >= 1
    (scaled,) = of_kind(seen, "scaled")
    assert json.loads(scaled.detail) == {"from": 1, "to": 4}
    assert scaled.t_us >= asked_us
    new = {event.instance for event in of_kind(seen, "pod_created") if event.t_us > asked_us}
    assert len(new) == 3
    for pod in new:
        steps = [event for event in seen.events if event.instance == pod]
        own = [event.kind for event in steps if event.kind not in ("pod_pulling", "pod_pulled")]
        assert own == ["pod_created", "pod_scheduled", "pod_started", "pod_ready"]
        assert scaled.t_us <= steps[0].t_us + 500_000, (
            "messages of two watches may overtake each other a little"
        )
        assert json.loads(steps[0].detail)["workload"] == "Deployment/app"


@pytest.mark.alone  # measures
def test_kubelets_and_metrics_server_agree_on_a_busy_pod(cluster: Any, context: DeployContext) -> None:
    """A pod with a limit of 0.2 cores that always has something to do uses 0.2, and is held back."""
    limits = {"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    with deployed(config_for(cluster, patches=[patched(resources=limits)]), context) as deployment:
        with kept_busy(deployment, "ms=200"):
            watched = Watched(deployment, "kubelet", "metrics-server")
            time.sleep(75)  # five windows of the metrics server; a kubelet looks once in 10 to 15 s
            seen = watched.stop()
        (pod,) = [one["name"] for one in deployment.describe()["pods"]]
        (node,) = [one["node"] for one in deployment.describe()["pods"]]
    assert not of_kind(seen, "source_failed")
    cpu = [value for _, value in series(seen, "kubelet", "cpu_cores")[pod]]
    assert len(cpu) >= 3
    assert sorted(cpu)[len(cpu) // 2] == pytest.approx(0.2, abs=0.05)
    of_node = [value for _, value in series(seen, "kubelet", "cpu_cores")[f"node/{node}"]]
    assert sorted(of_node)[len(of_node) // 2] > 0.15
    assert max(value for _, value in series(seen, "kubelet", "cpu_throttled_ratio")[pod]) > 0.3
    memory = [value for _, value in series(seen, "kubelet", "memory_bytes")[pod]]
    assert all(2**20 < value < 64 * 2**20 for value in memory)
    assert max(value for _, value in series(seen, "kubelet", "network_received_bytes_per_s")[pod]) > 0
    assert series(seen, "kubelet", "filesystem_available_bytes")[f"node/{node}"][0][1] > 0
    told = [value for _, value in series(seen, "metrics-server", "cpu_cores")[pod]]
    assert told[-1] == pytest.approx(0.2, abs=0.06)
    stamps = [value for _, value in series(seen, "metrics-server", "timestamp_unix_s")[pod]]
    assert stamps == sorted(set(stamps)), "a sample that is repeated is not a new one"
    assert all(1 < value < 60 for _, value in series(seen, "metrics-server", "window_s")[pod])


def test_pods_that_use_more_than_they_request_are_told(
    cluster: Any, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that asks for hardly anything and is busy: what the cluster says of it is enough for the finding.

    The nodes of a testbed are one machine, so how much of one it gets depends on what else that does: a tenth counts.
    """
    monkeypatch.setattr(of_requests, "BUSY_RATIO", 0.1)
    requests = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    with (
        deployed(config_for(cluster, patches=[patched(resources=requests)]), context) as deployment,
        kept_busy(deployment, "ms=500", users=8),
    ):
        watched = Watched(deployment, "kubernetes", "kubelet")
        time.sleep(50)
        seen = watched.stop()
    samples = seen.samples.to_arrow()
    window = Window(start_us=10_000_000, end_us=50_000_000, drained_us=0)
    mine, nodes = deployment_samples(samples), node_samples(samples)
    usage = run_usage(mine, nodes, dict.fromkeys(set(mine["instance"]), "Deployment/app"), window)
    requested = read_requested(samples, window)
    assert requested.cores == {"Deployment/app": pytest.approx(0.01)}
    assert requested.unscheduled == 0
    assert all(cores > 0 for cores in requested.offered_cores.values())
    (one,) = crowded(requested, usage, run_id="r", treatment="t")
    assert (one.workload, one.requested) == ("Deployment/app", pytest.approx(0.01))
    assert one.used >= of_requests.LEAST_CORES
    assert one.busy_ratio >= of_requests.BUSY_RATIO


def test_what_an_autoscaler_sees_is_kept(cluster: Any, context: DeployContext) -> None:
    with deployed(config_for(cluster), context) as deployment:
        place = deployment.describe()["namespace"]["name"]
        command = ("autoscale", "deployment/app", "--cpu=60%", "--min=1", "--max=3", "--namespace", place)
        if cluster.kubectl(*command, fails=True) == "":
            cluster.kubectl(*("--cpu-percent=60" if one == "--cpu=60%" else one for one in command))
        watched = Watched(deployment, "kubernetes")
        time.sleep(45)
        seen = watched.stop()
    assert series(seen, "kubernetes", "target_ratio")["HorizontalPodAutoscaler/app/cpu"][-1][1] == 0.6
    assert series(seen, "kubernetes", "replicas_most")["HorizontalPodAutoscaler/app"][-1][1] == 3
    assert series(seen, "kubernetes", "seen_ratio")["HorizontalPodAutoscaler/app/cpu"][-1][1] >= 0
