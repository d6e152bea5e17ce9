"""Components of the testbed that break while the load is on: what Towtank rides out, and what spoils a run."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster import Cluster, eventually
from support.cluster_app import SUPPORT, config_for, deployed
from support.testbed_parts import away, held, last_node, restart, wait_whole
from support.troubled_study import Study, carried_out, goes_on, reasons
from towtank.campaign.reasons import EVENT_KINDS
from towtank.errors import PlatformError
from towtank.platforms.base import DeployContext

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.timeout(300)]


@pytest.fixture
def broken(cluster: Cluster) -> Iterator[Cluster]:
    """The testbed, of which a part will be broken; whole again afterwards."""
    if not cluster.is_testbed:
        pytest.skip("breaks components of the cluster: only those of the testbed may be")
    yield cluster
    wait_whole(cluster)


def on_last_node(cluster: Cluster) -> dict[str, Any]:
    """Keys that put the application on the last node."""
    pinned = {
        "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": last_node(cluster)}}}}
    }
    return {"patches": [{"target": "Deployment/app", "merge": pinned}]}


def drain_its_node(study: Study) -> None:
    """As an administrator does who is about to work on a node; only pods of this study go."""
    (pod,) = study.cluster.get("pods", "--namespace", study.namespace())["items"]
    node = pod["spec"]["nodeName"]
    try:
        study.cluster.kubectl("drain", node, f"--pod-selector={study.selector}", "--timeout=60s")
    finally:
        study.cluster.kubectl("uncordon", node)


def test_a_drained_node_is_the_treatments_result(broken: Cluster, tmp_path: Path) -> None:
    study = Study(broken, tmp_path, seconds=8)
    record = carried_out(study, drain_its_node)
    found = reasons(record, "system")
    assert "Eviction API: evicting" in found["evicted"], record["verdicts"]
    assert record["verdicts"]["system"] in ("degraded", "collapsed")
    assert "platform_lost" not in reasons(record, "instrument")
    goes_on(study, repeated=False)


def test_a_node_that_is_lost_is_the_treatments_result(broken: Cluster, tmp_path: Path) -> None:
    """Its kubelet hangs: after 50 s of silence the cluster gives the node up, and takes its pods out of the Service."""
    study = Study(broken, tmp_path, seconds=66, keys=on_last_node(broken))
    node = last_node(broken)

    def silence(_: Study) -> None:
        with held(node, "kubelet"):
            eventually(
                lambda: "NotReady" in broken.kubectl("get", "node", node, "--no-headers"), 64, "the node is given up"
            )  # fmt: skip
            time.sleep(2)

    record = carried_out(study, silence)
    found = reasons(record, "system")
    assert f"node {node} is not ready" in found["node_not_ready"]
    assert "stopped posting node status" in found["node_not_ready"]
    assert "platform_lost" not in reasons(record, "instrument")
    wait_whole(broken)
    goes_on(study, repeated=False)


# --- what Towtank rides out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("component", ["kubelet", "kube-apiserver"])
def test_a_component_that_is_back_at_once_costs_nothing(
    broken: Cluster, tmp_path: Path, component: str
) -> None:
    kubelet = component == "kubelet"
    node = last_node(broken) if kubelet else "node1"
    study = Study(broken, tmp_path, seconds=14, keys=on_last_node(broken) if kubelet else {})
    record = carried_out(study, lambda _: restart(node, component))
    assert not set(EVENT_KINDS) & set(reasons(record, "system")), record["verdicts"]
    assert "platform_lost" not in reasons(record, "instrument")
    if not kubelet:
        gaps = record["deployment"]["watches"]["pods"]["gaps_s"]
        assert gaps, "the watch broke off, and that is told"
        assert 0 < max(gaps) < 20
    goes_on(study, repeated=False)


def test_an_api_server_that_stays_away_spoils_the_run(broken: Cluster, tmp_path: Path) -> None:
    study = Study(broken, tmp_path, seconds=4)

    def end_it(started: Study) -> None:
        with away("node1", "kube-apiserver"):
            time.sleep(started.seconds + 24)  # its end, and the 20 s for which it is waited for

    record = carried_out(study, end_it, codes=(4, 6))
    assert record["verdicts"]["instrument"] == "invalid"
    assert "the API server of context" in reasons(record, "instrument")["platform_lost"]
    assert "is it up?" in reasons(record, "instrument")["platform_lost"]
    wait_whole(broken)
    again = goes_on(study, repeated=True)
    assert "platform_lost" not in reasons(again, "instrument")


def test_an_api_server_that_hangs_is_not_believed(broken: Cluster, tmp_path: Path) -> None:
    """Connections to it stay open, and no watch ever learns of it."""
    token = f"tt-test-{secrets.token_hex(4)}"
    context = DeployContext("shop", token, tmp_path / "data", tmp_path / "logs", SUPPORT, experiment="hangs")
    with deployed(config_for(broken), context) as deployment:
        with (
            held("node1", "kube-apiserver"),
            pytest.raises(PlatformError, match=r"does not answer: .*timed out"),
        ):
            deployment.events()
        eventually(lambda: list(deployment.events()) == [], 30, "it is heard again")
    assert broken.get("namespaces", "--selector", f"towtank.dev/token={token}")["items"] == []
