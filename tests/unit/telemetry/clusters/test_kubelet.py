"""The source `kubelet`: rates over the kubelet's own times, nothing twice, and what happens when one is not heard."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.fake_cluster import FakeCluster, Refusal, meta
from support.fake_telemetry import CORES, MIB, FakeKubelets
from towtank.errors import PlatformError, TelemetryError
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.telemetry import cadvisor
from towtank.telemetry.base import ObserveContext, Sample
from towtank.telemetry.kubelet import KubeletSource

FORBIDDEN = Refusal(403, "Forbidden", 'nodes "n1" is forbidden: cannot get resource "nodes/proxy"')


def table(samples: list[Sample]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for one in samples:
        found.setdefault(one.instance, {})[one.metric] = one.value
    return found


@pytest.fixture
def source(observe: ObserveContext, kubelets: FakeKubelets) -> KubeletSource:
    """A source that was started at second 1000 of the kubelets' clock."""
    kubelets.now_s = 1000.0
    made = KubeletSource()
    made.start(observe)
    return made


def test_rates_are_over_the_kubelets_own_times(source: KubeletSource, kubelets: FakeKubelets) -> None:
    kubelets.now_s = 1010.0  # the reading itself comes at once: its own time plays no part
    found = table(list(source.sample(5)))
    pods = {name: values for name, values in found.items() if not name.startswith("node/")}
    assert len(pods) == 2
    for values in pods.values():
        assert values == pytest.approx(
            {
                "cpu_cores": CORES,  # of the pod's own group: containers and sandbox are within
                "memory_bytes": 32 * MIB,
                "network_received_bytes_per_s": 1000.0,
                "network_sent_bytes_per_s": 2000.0,
                "disk_write_bytes_per_s": 500.0,
                "cpu_throttled_ratio": 0.4,
                "cpu_throttled_s_per_s": 0.3,
            }
        )
    node = found["node/n1"]
    assert node["cpu_cores"] == pytest.approx(1.5)
    assert node["network_received_bytes_per_s"] == pytest.approx(
        7000
    )  # not what passes through veth1 as well


def test_what_was_not_read_anew_is_no_new_sample(source: KubeletSource, kubelets: FakeKubelets) -> None:
    kubelets.now_s = 1010.0
    assert list(source.sample(1))
    assert list(source.sample(2)) == []
    assert 0 < source.facts()["helpers_cost_s"] < 5
    kubelets.now_s = 1012.0
    assert table(list(source.sample(3)))["node/n1"]["cpu_cores"] == pytest.approx(1.5)


def test_a_counter_that_began_anew_has_no_rate_until_it_has_gone_on(
    source: KubeletSource, kubelets: FakeKubelets
) -> None:
    whole = kubelets.cadvisor
    kubelets.now_s = 1010.0
    list(source.sample(1))

    def restarted(node: str) -> str:
        return "\n".join(
            f"{line.rsplit(' ', 2)[0]} {(kubelets.time_s() - 1015) * 2!r} {line.rsplit(' ', 1)[1]}"
            if "container_cpu_usage" in line and 'id="/"' in line else line
            for line in whole(node).splitlines()
        )  # fmt: skip

    kubelets.cadvisor = restarted  # type: ignore[method-assign]
    kubelets.now_s = 1020.0
    assert "cpu_cores" not in table(list(source.sample(2)))["node/n1"]
    kubelets.now_s = 1030.0
    assert table(list(source.sample(3)))["node/n1"]["cpu_cores"] == pytest.approx(2.0)


def test_disks_are_asked_for_now_and_then(source: KubeletSource, kubelets: FakeKubelets) -> None:
    kubelets.now_s = 1060.0
    assert "filesystem_used_bytes" not in table(list(source.sample(1_000_000)))["node/n1"]
    found = table(list(source.sample(60_000_000)))
    assert found["node/n1"]["filesystem_available_bytes"] == 50 * MIB
    assert [v["filesystem_used_bytes"] for name, v in found.items() if name != "node/n1"] == [2 * MIB] * 2
    kubelets.now_s = 1061.0
    list(source.sample(61_000_000))
    assert "filesystem_used_bytes" not in table(list(source.sample(62_000_000))).get("node/n1", {})


def test_foreign_pods_are_left_out(
    source: KubeletSource, kubelets: FakeKubelets, cluster: FakeCluster, observe: ObserveContext
) -> None:
    namespace = observe.deployment.view().namespace  # type: ignore[union-attr]
    stranger = {**meta("v1", "Pod", "stranger", namespace), "spec": {"nodeName": "n1", "containers": []}}
    cluster.put("pods", namespace, {**stranger, "status": {}})
    kubelets.now_s = 1010.0
    list(source.sample(1))
    kubelets.now_s = 1020.0
    assert "stranger" not in table(list(source.sample(2)))


def test_a_kubelet_that_is_not_heard_is_told_and_the_others_go_on(
    source: KubeletSource, kubelets: FakeKubelets, cluster: FakeCluster
) -> None:
    def to_another(pod: Any) -> None:
        pod["spec"]["nodeName"] = "n2"

    first = cluster.all("pods")[0]
    cluster.change("pods", first["metadata"]["namespace"], first["metadata"]["name"], to_another)
    kubelets.refusals["/nodes/n2/"] = Refusal(503, "ServiceUnavailable", "dial tcp: connection refused")
    for second in (1010.0, 1020.0):
        kubelets.now_s = second
        found = table(list(source.sample(round(second))))
    assert "node/n1" in found
    (event,) = source.events()
    assert (event.kind, event.instance) == ("not_read", "node/n2")
    assert "connection refused" in event.message


def test_no_kubelet_at_all_is_a_failure_that_the_sampler_tells(
    source: KubeletSource, kubelets: FakeKubelets
) -> None:
    kubelets.refusals["/proxy/"] = Refusal(502, "BadGateway", "dial tcp: connection refused")
    with pytest.raises(PlatformError, match="connection refused"):
        source.sample(1)
    kubelets.refusals.clear()
    kubelets.now_s = 1020.0
    assert list(source.sample(2))


def test_what_may_not_be_read_is_refused_before_the_run(
    make: Callable[..., KubernetesConfig], root: Path, cluster: FakeCluster, kubelets: FakeKubelets
) -> None:
    assert list(KubeletSource().look_ahead_at({}, [make()], root)) == []
    kubelets.refusals["/proxy/"] = FORBIDDEN
    (problem,) = KubeletSource().look_ahead_at({}, [make()], root)
    assert "the kubelet cannot be asked through the API server" in problem
    cluster.denied = {("get", "nodes/proxy")}
    (problem,) = KubeletSource().look_ahead_at({}, [make()], root)
    assert problem.startswith("context fake: the right to get nodes/proxy in the whole cluster")


def test_a_refusal_at_the_start_says_what_to_do(observe: ObserveContext, kubelets: FakeKubelets) -> None:
    kubelets.refusals["/proxy/"] = FORBIDDEN
    with pytest.raises(TelemetryError, match=r"telemetry source 'kubelet'.*forbidden") as caught:
        KubeletSource().start(observe)
    assert "towtank doctor --context fake" in str(caught.value.hint)


def test_nonsense_is_a_failure_with_what_was_answered(source: KubeletSource, kubelets: FakeKubelets) -> None:
    kubelets.summary = lambda _node: ["no", "summary"]  # type: ignore[method-assign,return-value,assignment]
    with pytest.raises(TelemetryError, match="node n1 answered something that is no summary"):
        source.sample(60_000_000)


def test_a_deployment_elsewhere_yields_nothing_and_says_so(observe: ObserveContext) -> None:
    source = KubeletSource()
    source.start(replace(observe, deployment=object()))
    assert list(source.sample(1)) == []
    assert [event.kind for event in source.events()] == ["not_observable"]


def test_a_recorded_answer_of_a_kubelet() -> None:
    """Of v1.34.4 on control groups of version 1: pressure is written, and always 0."""
    text = (Path(__file__).parents[3] / "data" / "kubelet" / "cadvisor.txt").read_text()
    found = [row for row in cadvisor.rows(text, "kube-system") if isinstance(row, cadvisor.Row)]
    assert found == list(cadvisor.rows(text, "kube-system"))  # nothing is damaged
    levels = {(row.pod, row.level) for row in found if row.name == "container_cpu_usage_seconds_total"}
    pod = "coredns-84ccb48d9-ng6cw"
    assert levels == {("", "pod"), (pod, "pod"), (pod, "container"), (pod, "other")}
    (whole,) = [row for row in found if row[:3] == ("container_cpu_usage_seconds_total", pod, "pod")]
    assert (whole.value, whole.t_ms) == (0.631270381, 1795309440484)
    received = [row for row in found if row.name == "container_network_receive_bytes_total"]
    assert [(row.pod, row.value) for row in received] == [("", 119626003.0), (pod, 202270.0)]
    assert not [row for row in found if "pressure" in row.name]
    assert list(cadvisor.rows(text, "default")) == [row for row in found if not row.pod]


def test_lines_are_chosen_and_damaged_ones_left_out() -> None:
    good = 'container_cpu_usage_seconds_total{container="",id="/a",image="",name="",namespace="ns",pod="p"} 1.5 12'
    text = "\n".join(
        [
            "# HELP container_cpu_usage_seconds_total", good, good.replace('"ns"', '"other"'),
            'container_cpu_usage_seconds_total{namespace="ns",pod="p"', "container_last_seen{} 1",
            good.replace(" 12", ""),
        ]
    )  # fmt: skip
    first, broken, second = cadvisor.rows(text, "ns")
    assert isinstance(second, cadvisor.Row)
    assert isinstance(broken, cadvisor.Damaged)
    assert broken[:2] == ("container_cpu_usage_seconds_total", "p")
    assert first == cadvisor.Row("container_cpu_usage_seconds_total", "p", "pod", "/a ", 1.5, 12)
    assert second.t_ms is None
    assert json.dumps(first)


@pytest.mark.parametrize("number", ["1.2.3", "NaN", "+Inf", "", "1 99999999999999999999"])
def test_a_damaged_line_costs_its_own_number_and_no_other(
    source: KubeletSource, kubelets: FakeKubelets, number: str
) -> None:
    whole, start = kubelets.cadvisor, "container_cpu_usage_seconds_total"

    def garbled(node: str) -> str:
        lines = whole(node).splitlines()
        return "\n".join(
            f"{line.rsplit(' ', 2)[0]} {number}" if line.startswith(start) and 'id="/"' in line else line
            for line in lines
        )

    kubelets.cadvisor = garbled  # type: ignore[method-assign]
    kubelets.now_s = 1010.0
    found = table(list(source.sample(1)))
    assert "cpu_cores" not in found["node/n1"]
    assert found["node/n1"]["memory_bytes"]
    assert [values["cpu_cores"] for name, values in found.items() if name != "node/n1"] == [
        pytest.approx(CORES)
    ] * 2
    kubelets.now_s = 1020.0
    list(source.sample(2))
    (event,) = source.events()
    assert (event.kind, event.instance) == ("damaged_lines", "node/n1")
    assert start in event.message
    assert source.facts()["damaged_lines"] == 2


@pytest.mark.parametrize("disk", [{"usedBytes": "much"}, ["no", "disk"], "none"])
def test_a_summary_with_nonsense_within_fails_that_node_alone(
    source: KubeletSource, kubelets: FakeKubelets, disk: Any
) -> None:
    kubelets.summary = lambda _node: {"node": {"fs": disk}}  # type: ignore[method-assign,return-value,assignment]
    with pytest.raises(TelemetryError, match="node n1 answered something that is no summary"):
        source.sample(60_000_000)
