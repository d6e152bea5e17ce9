"""An experiment over 500 nodes and 5,000 pods without machines: what towtank itself takes stays bounded."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from testbed import machineless
from testbed.errors import NotPossibleError
from testbed.settings import NAME, Folders

from support import small_study
from support.cluster import eventually
from support.fake_nodes import TAINT, TYPE, FakeNodes
from support.footprint import Footprint
from support.servers import Quiet, on_loopback, serving
from towtank.store.results import Results, RunFolder

pytestmark = [pytest.mark.cluster, pytest.mark.alone, pytest.mark.timeout(1800)]
NODES, PODS, RATE, LOAD_S = 500, 5_000, 20, 90
MOST_BYTES, MOST_CORES = 300e6, 1.0
COME, GO = 10, 5
"""Nodes that are added during the load, and how many of those are removed again."""
KILLED = 100
"""Pods that are deleted during the load; others take their place."""


class Hello(Quiet):
    """What the load asks: the only thing that answers here."""

    def answer(self) -> None:
        self.server.got.append(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


@dataclass(frozen=True)
class Outcome:
    """What became of the experiment, and what it took; instants are of the wall clock."""

    run: RunFolder
    root: Path
    footprint: Footprint
    begun_s: float
    loaded_s: float
    kept_s: float
    """When the run was kept; what follows is its analysis and the report."""
    ended_s: float

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.run.events().to_pylist() if one["kind"] == kind]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folders = Folders.from_environment()
    try:
        machineless.check(folders)
    except NotPossibleError as missing:
        pytest.skip(f"a cluster without machines is not possible here: {missing}")
    with machineless.cluster(folders, tmp_path_factory.mktemp("machineless")) as found:
        yield found


@pytest.fixture(scope="module")
def outcome(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One experiment with one run, in which nodes come and go and pods are replaced."""
    nodes = FakeNodes(NAME, kubeconfig)
    nodes.add(f"fake-{number}" for number in range(NODES))
    eventually(lambda: nodes.ready() == NODES, 120, "fake nodes are Ready")
    with serving() as serve:
        server = serve(on_loopback(Hello))
        study = write_study(tmp_path_factory.mktemp("study"), kubeconfig, server.server_address[1])
        begun = time.time()
        process = small_study.start("run", study)
        footprint = Footprint(process.pid)
        try:
            eventually(
                lambda: len(server.got) > RATE or process.poll() is not None, 480, "the load has begun"
            )
            loaded = time.time()
            if process.poll() is None:
                disturb(nodes)
            said, complained = process.communicate(timeout=900)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
            footprint.stop()
            nodes.api.close()
        ended = time.time()
    assert process.returncode in (0, 6), said + complained
    results = Results.open(study.parent / "results" / "scale")
    (run,) = results.runs("all")
    kept = (run.path / "run.json").stat().st_mtime
    return Outcome(run, results.path, footprint, begun, loaded, kept, ended)


def write_study(folder: Path, kubeconfig: Path, port: int) -> Path:
    pod = {
        "terminationGracePeriodSeconds": 1,
        "tolerations": [TAINT],
        "containers": [
            {"name": "app", "image": "made-up", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
        ],
    }
    app = {"app": "many"}
    things = [
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "many"},
            "spec": {
                "replicas": PODS, "selector": {"matchLabels": app},
                "template": {"metadata": {"labels": app}, "spec": pod},
            },
        },
        {
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "many"},
            "spec": {"type": "LoadBalancer", "selector": {"app": "none"}, "ports": [{"name": "http", "port": port}]},
        },
    ]  # fmt: skip
    (folder / "many.yaml").write_text(yaml.safe_dump_all(things))
    experiment = {
        "experiment": "scale",
        "question": "What does it take to watch 5,000 pods on 500 nodes?",
        "repetitions": 1,
        "deployments": {
            "many": {
                "platform": "kubernetes", "context": NAME, "kubeconfig": str(kubeconfig), "manifests": ["many.yaml"],
                "targets": {"app": {"service": "many", "address": "127.0.0.1"}}, "ready": {"timeout": "420s"},
            }
        },
        "workloads": {
            "look": {
                "timeout": "2s",
                "load": {"model": "open", "rate": f"{RATE}/s", "duration": f"{LOAD_S}s"},
                "journey": {"steps": [{"name": "get", "path": "/"}]},
            }
        },
        "reset": "none",
        "settle": {"timeout": "60s", "until": {"replicas": "baseline"}, "hold": "1s"},
        "observe": [{"kubernetes": {"interval": "1s"}}],
        "generator": {"nice": 0},
    }  # fmt: skip
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(experiment, sort_keys=False))
    return path


def disturb(nodes: FakeNodes) -> None:
    """Pods are replaced, and then nodes come and some of them go again, as an autoscaler of nodes has it."""
    pods = next(page for page, _ in nodes.api.pages("/api/v1/pods"))
    for pod in pods[:KILLED]:
        place, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        nodes.api.delete(f"/api/v1/namespaces/{place}/pods/{name}", pod["metadata"]["uid"], grace_s=0)
    time.sleep(2)  # new nodes are the emptiest: pods that are still to be placed would go with them
    come = [f"late-{number}" for number in range(COME)]
    nodes.add(come)
    eventually(lambda: nodes.ready() == NODES + COME, LOAD_S - 30, "later nodes are Ready")
    nodes.remove(come[:GO])


def test_memory_and_processor_time_stay_bounded_while_the_cluster_is_watched(outcome: Outcome) -> None:
    """From the first pod to the last; analysis and report come when nothing is measured any more."""
    watching = outcome.footprint.peak(outcome.begun_s, outcome.kept_s)
    reporting = outcome.footprint.peak(outcome.kept_s, outcome.ended_s)
    cores = outcome.footprint.cores(outcome.begun_s, outcome.kept_s)
    stored = sum(path.stat().st_size for path in outcome.root.rglob("*") if path.is_file())
    figures = {
        "MB while watching": {name: round(held / 1e6, 1) for name, held in watching.bytes_of.items()},
        "MB for analysis and report": {
            name: round(held / 1e6, 1) for name, held in reporting.bytes_of.items()
        },
        "cores while watching": round(cores, 3),
        "cores under load": round(outcome.footprint.cores(outcome.loaded_s, outcome.loaded_s + LOAD_S), 3),
        "MB stored": round(stored / 1e6, 2),
        "s until the load, until kept, until the end": [
            round(instant - outcome.begun_s, 1)
            for instant in (outcome.loaded_s, outcome.kept_s, outcome.ended_s)
        ],
    }
    sys.stdout.write(json.dumps(figures) + "\n")  # pytest -rP shows it
    assert watching.held_bytes < MOST_BYTES, figures
    assert cores < MOST_CORES, figures
    assert stored < 20e6, figures


def test_every_pod_is_seen_and_samples_do_not_grow_with_pods(outcome: Outcome) -> None:
    assert len({one["instance"] for one in outcome.events("pod_ready")}) >= PODS
    assert not outcome.events("pod_steps_left_out")
    samples = outcome.run.samples().to_pylist()
    ready = [one["value"] for one in samples if (one["instance"], one["metric"]) == ("", "replicas_ready")]
    assert max(ready) == PODS
    of_pods = {one["instance"] for one in samples} - {""}
    assert {name.partition("/")[0] for name in of_pods} == {"Deployment", "node"}
    assert len(samples) < 100 * LOAD_S + 2 * (NODES + COME)


def test_nodes_that_come_and_go_are_told_with_their_instants(outcome: Outcome) -> None:
    added, removed = outcome.events("node_added"), outcome.events("node_removed")
    assert {one["instance"] for one in added} == {f"node/late-{number}" for number in range(COME)}
    assert {one["instance"] for one in removed} == {f"node/late-{number}" for number in range(GO)}
    assert all(0 < one["t_us"] < (LOAD_S + 60) * 1_000_000 for one in added)
    assert max(one["t_us"] for one in added) < min(one["t_us"] for one in removed)
    assert {json.loads(one["detail"])["machine"] for one in added} == {TYPE}
    samples = outcome.run.samples().to_pylist()
    counts = [one["value"] for one in samples if (one["instance"], one["metric"]) == ("", "nodes")]
    assert (counts[0], max(counts), counts[-1]) == (NODES, NODES + COME, NODES + COME - GO)
