"""The source `metrics-server`: its own timestamps and windows, nothing twice, and clear words where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.fake_cluster import FakeCluster, Refusal
from support.fake_telemetry import CORES, MIB, FakeKubelets
from towtank.errors import TelemetryError
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.telemetry.base import ObserveContext
from towtank.telemetry.metrics_server import MetricsServerSource, duration_s

NONE = Refusal(404, "NotFound", "the server could not find the requested resource")
AWAY = Refusal(403, "Forbidden", 'pods.metrics.k8s.io is forbidden: User "dev" cannot list resource "pods"')


@pytest.fixture
def source(observe: ObserveContext, kubelets: FakeKubelets) -> MetricsServerSource:
    kubelets.now_s = 1000.0
    made = MetricsServerSource()
    made.start(observe)
    return made


def test_a_sample_keeps_its_timestamp_and_window_and_is_taken_once(
    source: MetricsServerSource, kubelets: FakeKubelets
) -> None:
    assert list(source.sample(1)) == []  # what was there at the start is not new
    kubelets.now_s = 1015.5
    found = list(source.sample(2))
    assert {one.t_us for one in found} == {2}
    by_instance = {
        name: {o.metric: o.value for o in found if o.instance == name} for name in {o.instance for o in found}
    }
    assert by_instance.pop("node/n1") == {
        "cpu_cores": 1.5, "memory_bytes": 900 * MIB, "window_s": 15.25, "timestamp_unix_s": 1015.5,
    }  # fmt: skip
    assert list(by_instance.values()) == 2 * [
        {"cpu_cores": 2 * CORES, "memory_bytes": 64 * MIB, "window_s": 15.25, "timestamp_unix_s": 1015.5}
    ]
    assert list(source.sample(3)) == []


def test_nodes_without_pods_of_the_deployment_only_when_asked_for(
    observe: ObserveContext, kubelets: FakeKubelets, cluster: FakeCluster
) -> None:
    node = cluster.all("nodes")[0]
    other = {**node, "metadata": {"name": "n2", "labels": {}}}
    cluster.put("nodes", "", other)
    for chosen, wanted in (("used", {"node/n1"}), ("all", {"node/n1", "node/n2"})):
        kubelets.now_s = 1000.0
        source = MetricsServerSource()
        source.start(replace(observe, options={"nodes": chosen}))
        kubelets.now_s = 1015.0
        seen = {one.instance for one in source.sample(1)}
        assert {name for name in seen if name.startswith("node/")} == wanted


def test_a_run_that_saw_nothing_new_is_told(source: MetricsServerSource) -> None:
    source.sample(1)
    source.close()
    (event,) = source.events()
    assert event.kind == "nothing_seen"
    assert "nothing new about any of the 2 pods" in event.message


def test_a_cluster_without_metrics_server_is_said_before_the_run(
    make: Callable[..., KubernetesConfig], root: Path, cluster: FakeCluster, kubelets: FakeKubelets
) -> None:
    assert list(MetricsServerSource().look_ahead_at({}, [make()], root)) == []
    cluster.denied = {("list", "pods")}
    (problem,) = MetricsServerSource().look_ahead_at({}, [make()], root)
    assert "the right to list pods.metrics.k8s.io in the whole cluster" in problem
    kubelets.refusals["/apis/metrics.k8s.io"] = NONE
    (problem,) = MetricsServerSource().look_ahead_at({}, [make()], root)
    assert problem == (
        "context fake: the cluster has no metrics API: install metrics-server, or leave the source out"
    )


@pytest.mark.parametrize(("refusal", "words"), [(NONE, "has no metrics API"), (AWAY, "cannot list resource")])
def test_why_it_cannot_be_read_is_said_at_the_start(
    observe: ObserveContext, kubelets: FakeKubelets, refusal: Refusal, words: str
) -> None:
    kubelets.refusals["/apis/metrics.k8s.io"] = refusal
    with pytest.raises(TelemetryError, match=f"'metrics-server'.*{words}") as caught:
        MetricsServerSource().start(observe)
    assert caught.value.hint


def test_nonsense_is_a_failure_with_what_was_answered(
    source: MetricsServerSource, kubelets: FakeKubelets, cluster: FakeCluster
) -> None:
    cluster.answers = lambda path: b"<html>" if "metrics.k8s.io" in path else None
    with pytest.raises(TelemetryError, match="answered something that is no list: b'<html>'"):
        source.sample(1)


@pytest.mark.parametrize(
    ("text", "seconds"), [("15.032s", 15.032), ("1m0.5s", 60.5), ("450ms", 0.45), ("1h2m3s", 3723), ("", 0)]
)
def test_durations_of_go(text: str, seconds: float) -> None:
    assert duration_s(text) == pytest.approx(seconds)
