"""Load from inside a cluster: workers as one Indexed Job, against a deployment in the same cluster."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from testbed.settings import REGISTRY

from support.cluster import Cluster
from support.fleets import begin, never, open_load
from towtank.design.generator_model import GeneratorCluster
from towtank.errors import EngineError
from towtank.load import find_engine
from towtank.load.workers import Fleet, Shipment, WorkerLost, WorkersNotReady, cluster_objects
from towtank.load.workers import cluster as workers_in_cluster
from towtank.load.workers.cluster import Cluster as Place
from towtank.platforms.base import DeployContext

pytestmark = pytest.mark.cluster
WORKERS, PER_S = 3, 60


@pytest.fixture
def config(cluster: Cluster, engine_image: str) -> GeneratorCluster:
    return GeneratorCluster(
        context=cluster.context, kubeconfig=cluster.kubeconfig, image=engine_image, cpu=0.05
    )


@pytest.fixture
def fleet_of(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., tuple[Fleet, Path]]]:
    """Make a fleet in the cluster; nothing of it is left afterwards."""
    tokens = []

    def make(config: GeneratorCluster, url: str, seconds: float) -> tuple[Fleet, Path]:
        token = f"tt-test-{secrets.token_hex(4)}"
        tokens.append(token)
        context = DeployContext(
            "workers", token, tmp_path / token, tmp_path, tmp_path, experiment="worker tests"
        )
        job = open_load(url, seconds=seconds, per_s=PER_S, arrivals="uniform")
        fleet = Fleet(
            Place(config, context, threads=1), WORKERS, lambda _: job, Shipment(), deadline_s=200,
            output=tmp_path / f"{token}-requests", engine=find_engine(),
        )  # fmt: skip
        return fleet, tmp_path / f"{token}-requests.parquet"

    yield make
    for token in tokens:
        for kind in ("namespaces", "jobs", "pods", "secrets", "leases.coordination.k8s.io"):
            found = cluster.get(kind, "--all-namespaces", "--selector", f"towtank.dev/token={token}")["items"]
            assert found == [], (kind, [one["metadata"]["name"] for one in found])


@pytest.fixture
def url(cluster: Cluster, namespace: str) -> str:
    """A Service that is answered, reached from inside only."""
    cluster.kubectl("run", "hello", f"--image={cluster.image}", "--namespace", namespace, "--port=8080")
    cluster.kubectl("expose", "pod", "hello", "--port=80", "--target-port=8080", "--namespace", namespace)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/hello", "--namespace", namespace, "--timeout=120s")
    return f"http://hello.{namespace}.svc.cluster.local"


@pytest.mark.parametrize("control", ["direct", "port_forward", "no route"])
def test_load_from_inside(
    config: GeneratorCluster, fleet_of: Any, url: str, control: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if control == "no route":
        control = "port_forward"
        monkeypatch.setattr(workers_in_cluster, "connected", no_route)
    else:
        config = config.model_copy(update={"control": control})
    fleet, requests = fleet_of(config, url, 2.0)
    with fleet:
        begin(fleet)
        done = fleet.wait_done(timeout_s=90, cancelled=never)
        facts = fleet.facts()["generators"]
    assert done.counts["by_outcome"] == {"answered": 2 * PER_S}
    rows = pq.read_table(requests, columns=["user", "worker"])
    assert [u % WORKERS for u in rows["user"].to_pylist()] == rows["worker"].to_pylist()
    assert [one["worker"] for one in facts] == list(range(WORKERS))
    assert all(
        one["kind"] == "cluster" and one["node"] and one["clock"]["uncertainty_us"] < 50_000 for one in facts
    )
    assert {one["control"] for one in facts} == {control}
    # The pods of one machine's nodes have its clock.
    assert all(abs(one["clock"]["offset_us"]) <= one["clock"]["uncertainty_us"] + 1 for one in facts)


def no_route(host: str, port: int) -> Any:
    """What happens where pods cannot be reached."""
    raise EngineError(f"the worker at {host}:{port} cannot be reached") from OSError(113, "No route to host")


def test_a_pod_that_is_killed_makes_no_half_run(
    cluster: Cluster, config: GeneratorCluster, fleet_of: Any, url: str
) -> None:
    fleet, requests = fleet_of(config, url, 60.0)
    with fleet:
        begin(fleet)
        time.sleep(2)
        victim = fleet.facts()["generators"][1]
        cluster.kubectl(
            "delete", "pod", victim["name"], "--namespace", victim["namespace"], "--grace-period=0", "--force"
        )
        # The Job has failed with that pod, and ends the others: whose end is seen first is theirs to say.
        with pytest.raises(WorkerLost, match=r"worker \d on node \S+ was lost: "):
            fleet.wait_done(timeout_s=90, cancelled=never)
    assert not requests.exists()


def test_an_image_that_is_not_there_is_said_and_nothing_is_left(
    config: GeneratorCluster, fleet_of: Any
) -> None:
    missing = config.model_copy(update={"image": f"{REGISTRY}/{secrets.token_hex(8)}:1"})
    fleet, _ = fleet_of(missing, "http://192.0.2.1", 1.0)
    with fleet, pytest.raises(WorkersNotReady, match="its image cannot be pulled"):
        fleet.wait_ready(cancelled=never)


def test_a_worker_that_ends_at_once_is_not_waited_for(
    config: GeneratorCluster, fleet_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = cluster_objects.job

    def without_work(*about: Any, **more: Any) -> dict[str, Any]:
        made = plain(*about, **more)
        made["spec"]["template"]["spec"]["containers"][0]["args"] = ["dance"]
        return made

    monkeypatch.setattr(cluster_objects, "job", without_work)
    fleet, _ = fleet_of(config, "http://192.0.2.1", 1.0)
    with (
        fleet,
        pytest.raises(WorkersNotReady, match=r"(?s)a worker ended before .*exit code 2.*unrecognized"),
    ):
        fleet.wait_ready(cancelled=never)
