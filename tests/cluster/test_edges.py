"""Faults on edges of a real cluster: each is felt by requests and undone; nothing of the proxy is left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from support import small_study as study
from support.cluster_app import config_for, deployed, wait_for
from support.pod_study import kill_under_fault, left_of, way_in, write_study
from towtank.errors import PlatformError
from towtank.platforms.base import LOAD, DeployContext, Edge, EdgeTrouble, FaultMissed
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.store import Results

pytestmark = pytest.mark.cluster

OUTER, INNER, UNUSED = Edge(LOAD, "front"), Edge("front", "app"), Edge("app", "front")


@pytest.fixture
def deployment(
    cluster: Any, context: DeployContext, engine_image: str, toxiproxy_image: str
) -> Iterator[KubernetesDeployment]:
    config = config_for(
        cluster,
        manifests=["manifests/app.yaml", "manifests/front.yaml"],
        set={"Deployment/front:spec.template.spec.containers[front].image": cluster.image},
        targets={"app": "app", "front": "front"},
        edge_proxy={"image": toxiproxy_image, "engine": engine_image},
    )
    with deployed(config, replace(context, edges=(OUTER, INNER, UNUSED))) as made:
        yield made


def url(deployment: KubernetesDeployment, target: str) -> str:
    (instance,) = deployment.targets[target].instances
    return instance.url


def seconds(address: str, timeout_s: float = 20.0) -> float:
    """How long an answer takes, over a connection of its own; infinite without one."""
    begun = time.monotonic()
    try:
        ok = httpx.get(address, trust_env=False, timeout=timeout_s).is_success
    except httpx.HTTPError:
        ok = False
    return time.monotonic() - begun if ok else float("inf")


@pytest.mark.timeout(300)
def test_calls_go_wrong_on_one_edge_and_come_through_again(
    deployment: KubernetesDeployment, cluster: Any, context: DeployContext
) -> None:
    front, app = url(deployment, "front"), url(deployment, "app")
    by_name = f"{front}/fetch?url=http://app/healthz"
    ways = {OUTER: (f"{front}/healthz", f"{app}/healthz"), INNER: (by_name, f"{front}/healthz")}
    for edge, (met, other) in ways.items():
        assert seconds(met) < 10
        undo = deployment.disturb_whole_edge(edge, EdgeTrouble("delay", delay_s=1.0), lasts_s=60)
        assert 1.0 <= seconds(met) < 20
        wait_for(lambda other=other: seconds(other) < 1.0)
        undo()
        wait_for(lambda met=met: seconds(met) < 1.0)
        for kind in ("drop", "abort", "cut"):
            undo = deployment.disturb_whole_edge(edge, EdgeTrouble(kind), lasts_s=60)
            assert seconds(met, 1.0) == float("inf"), kind
            assert seconds(other) < 20
            undo()
            assert seconds(met) < 20, kind
    the_deadline_undoes_it(deployment, by_name)
    undo = deployment.disturb_whole_edge(UNUSED, EdgeTrouble("drop"), lasts_s=60)
    with pytest.raises(FaultMissed, match="no call from app to front went through the proxy"):
        undo()
    assert deployment.events() == []
    the_proxy_is_missed(deployment, cluster, context.token)


def test_orders_go_through_the_api_server_where_there_is_no_route(
    no_route: None, deployment: KubernetesDeployment
) -> None:
    front = f"{url(deployment, 'front')}/healthz"
    undo = deployment.disturb_whole_edge(OUTER, EdgeTrouble("drop"), lasts_s=60)
    assert seconds(front, 1.0) == float("inf")
    undo()
    assert seconds(front) < 20


def the_deadline_undoes_it(deployment: KubernetesDeployment, met: str) -> None:
    undo = deployment.disturb_whole_edge(INNER, EdgeTrouble("drop"), lasts_s=0.0)
    assert seconds(met, 0.5) == float("inf")
    wait_for(lambda: seconds(met, 2.0) < 2.0, within_s=20)
    undo()


def the_proxy_is_missed(deployment: KubernetesDeployment, cluster: Any, token: str) -> None:
    """Without it nothing can be said of the treatment: that is no doing of the system."""
    chosen = f"towtank.dev/role=toxiproxy,towtank.dev/token={token}-edges"
    cluster.kubectl("delete", "pods", "--all-namespaces", "--selector", chosen, "--wait=false")

    def told() -> str:
        try:
            deployment.events()
        except PlatformError as error:
            return error.message
        return ""

    assert "the proxy of the edges is gone" in wait_for(told)


def study_of(
    tmp_path: Path,
    name: str,
    levels: list[str],
    *,
    cluster: Any,
    images: tuple[str, str],
    duration: str,
    lasts: str,
) -> Path:
    """A study of one pod whose calls are dropped or delayed, on the edge between it and the load."""
    engine, toxiproxy = images
    faults = [
        {"kind": "drop", "when": "${{ fault == 'drop' }}", "at": "4s", "for": lasts},
        {"kind": "delay", "when": "${{ fault == 'delay' }}", "at": "4s", "for": lasts, "delay": "300ms"},
    ]
    app = {"deploy": "once", "edge_proxy": {"image": toxiproxy, "engine": engine}}
    return write_study(
        tmp_path, name, levels, faults, cluster=cluster, duration=duration, app=app, order="listed",
        reset="none", answer={"primary": ["p95"], "baseline": "none"},
    )  # fmt: skip


@pytest.mark.timeout(400)
def test_a_study_of_a_slow_edge(
    cluster: Any, engine_image: str, toxiproxy_image: str, tmp_path: Path
) -> None:
    images = (engine_image, toxiproxy_image)
    file = study_of(
        tmp_path, "slow-edge", ["none", "delay"], cluster=cluster, images=images, duration="8s", lasts="2s"
    )
    done = study.towtank("run", file, "--plain", "--no-report", timeout=380)
    assert done.returncode in (0, 6), done.stderr
    runs = list(Results.open(tmp_path / "results" / "slow-edge").runs("complete"))
    assert len(runs) == 4
    for folder in runs:
        told = [event for event in folder.events().to_pylist() if event["source"] == "fault"]
        if folder.record.levels["fault"] == "delay":
            assert [event["kind"] for event in told] == ["fault_began", "fault_undone"], told
            assert any(one.undone_us is not None for one in folder.record.faults)
        else:
            assert told == []
    assert left_of(cluster, "slow-edge", "namespaces,services") == []


@pytest.mark.timeout(300)
def test_a_fault_is_undone_though_towtank_was_killed(
    cluster: Any, engine_image: str, toxiproxy_image: str, tmp_path: Path
) -> None:
    images = (engine_image, toxiproxy_image)
    file = study_of(
        tmp_path, "pod-edge", ["drop", "none"], cluster=cluster, images=images, duration="120s", lasts="100s"
    )
    kill_under_fault(file, lambda: way_in(cluster, "pod-edge", _answers, service="towtank-edge-0"), _answers)
    assert left_of(cluster, "pod-edge", "namespaces,services") == []


def _answers(url: str) -> bool:
    return seconds(url, 1.0) < 1.0
