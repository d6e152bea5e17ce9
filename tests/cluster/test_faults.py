"""Faults on a real cluster: a pod is killed and another comes, CPU is taken away in place; a study of it is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support import small_study as study
from support.cluster_app import config_for, deployed, patched, wait_for
from support.pod_study import write_study
from towtank.analysis.summaries import summarise_run
from towtank.platforms.base import DeployContext
from towtank.store import Results

pytestmark = pytest.mark.cluster

KILL = {"kind": "${{ fault }}", "at": "5s"}


@pytest.mark.parametrize("grace_s", [0.0, 1.0])
def test_a_killed_pod_is_gone_and_another_comes(cluster: Any, context: DeployContext, grace_s: float) -> None:
    config = config_for(cluster, set={"Deployment/app:spec.replicas": 2})
    with deployed(config, context) as deployment:
        before = list(deployment.victims("app"))
        assert len(before) == 2
        deployment.kill_instance(before[0], grace_s=grace_s)
        wait_for(lambda: before[0] not in deployment.victims("app"), within_s=90.0)
        after = wait_for(lambda: len(found := deployment.victims("app")) == 2 and found, within_s=90.0)
        assert before[1] in after
        assert deployment.events() == [], "what we killed did not crash"


def test_cpu_is_taken_from_a_running_pod_and_given_back(cluster: Any, context: DeployContext) -> None:
    limited = patched(resources={"limits": {"cpu": "500m"}})
    with deployed(config_for(cluster, patches=[limited]), context) as deployment:
        (name,) = deployment.victims("app")
        namespace = deployment.describe()["namespace"]["name"]

        def limit() -> Any:
            """What the kubelet says is in force."""
            (pod,) = cluster.get("pods", "--namespace", namespace)["items"]
            (status,) = pod["status"]["containerStatuses"]
            assert (pod["metadata"]["name"], status["restartCount"]) == (name, 0)
            return (status.get("resources") or {}).get("limits", {}).get("cpu", "none")

        wait_for(lambda: limit() == "500m", within_s=90.0)
        undo = deployment.limit_cpu(name, 0.03)
        wait_for(lambda: limit() == "30m", within_s=90.0)
        undo()
        wait_for(lambda: limit() == "500m", within_s=90.0)
        assert deployment.victims("app") == [name], "it is the same pod, and ready"


@pytest.mark.timeout(550)
def test_a_study_of_killing_the_only_pod(cluster: Any, tmp_path: Path) -> None:
    file = write_study(
        tmp_path, "pod-kill", ["none", "kill"], [KILL], cluster=cluster, duration="16s", seed=5
    )
    done = study.towtank("run", file, "--plain", "--no-report", timeout=500)
    assert done.returncode in (0, 6), done.stderr
    found: dict[str, list[dict[str, Any]]] = {"none": [], "kill": []}
    for folder in Results.open(tmp_path / "results" / "pod-kill").runs("complete"):
        values = summarise_run(folder).summary.values
        (fault,) = folder.record.faults
        assert (fault.began_us is None) == (folder.record.levels["fault"] == "none"), folder.record.verdicts
        found[folder.record.levels["fault"]].append(values)
        if fault.began_us is not None:
            assert fault.instances[0].startswith("app-")
            events = folder.events().to_pylist()
            assert [e["kind"] for e in events if e["source"] == "fault"] == ["fault_began"]
            assert json.loads(next(e["detail"] for e in events if e["source"] == "fault"))["kind"] == "kill"
    assert len(found["none"]) == len(found["kill"]) == 2
    for killed in found["kill"]:
        assert killed["fault_failures"].value > 0
        assert killed["time_to_recover"].value > 0.2
    assert all(quiet["availability"].value > 0.9 for quiet in found["none"])


def test_what_a_fault_needs_is_said_in_the_plan(tmp_path: Path) -> None:
    write_study(tmp_path, "pod-kill", ["none", "partition"], [KILL], cluster=None, duration="16s")
    done = study.towtank("plan", tmp_path)
    assert done.returncode == 3
    assert "the fault 'partition' needs the deployment's key 'edge_proxy', and 'app' has none" in done.stderr
