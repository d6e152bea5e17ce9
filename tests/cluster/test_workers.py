"""Load from inside a cluster: workers as one Indexed Job, against a deployment in the same cluster."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import t as student_t
from testbed.settings import REGISTRY

from support.cluster import Cluster
from support.fleets import begin, carry_out, never, open_load
from towtank.design.generator_model import GeneratorCluster
from towtank.load import find_engine
from towtank.load.workers import Fleet, Shipment, WorkerLost, WorkersNotReady, cluster_objects
from towtank.load.workers.cluster import Cluster as Place
from towtank.load.workers.places import Local
from towtank.platforms.base import DeployContext

pytestmark = pytest.mark.cluster
WORKERS, PER_S = 3, 60
LOG = logging.getLogger(__name__)


@pytest.fixture
def config(cluster: Cluster, engine_image: str) -> GeneratorCluster:
    return GeneratorCluster(
        context=cluster.context, kubeconfig=cluster.kubeconfig, image=engine_image, cpu=0.05
    )


@pytest.fixture
def fleet_of(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., tuple[Fleet, Path]]]:
    """Make a fleet in the cluster; nothing of it is left afterwards."""
    tokens = []

    def make(
        config: GeneratorCluster, url: str, seconds: float, workers: int = WORKERS, *, local: bool = False
    ) -> tuple[Fleet, Path]:
        token = f"tt-test-{secrets.token_hex(4)}"
        tokens.append(token)
        context = DeployContext(
            "workers", token, tmp_path / token, tmp_path, tmp_path, experiment="worker tests"
        )
        job = open_load(url, seconds=seconds, per_s=PER_S, arrivals="uniform")
        inside = Place(config, context, threads=1)
        fleet = Fleet(
            Local(find_engine(), logs=tmp_path, mark=token) if local else inside,
            workers, lambda _: job, Shipment(), deadline_s=200,
            output=tmp_path / f"{token}-requests", engine=find_engine(),
        )  # fmt: skip
        return fleet, tmp_path / f"{token}-requests.parquet"

    yield make
    chosen = f"towtank.dev/token in ({','.join(tokens)})"
    assert (
        not tokens or cluster.marked(chosen, "namespaces,jobs,pods,secrets,leases.coordination.k8s.io") == []
    )


@pytest.fixture
def url(cluster: Cluster, namespace: str) -> str:
    """A Service that is answered, reached from inside only."""
    cluster.kubectl("run", "hello", f"--image={cluster.image}", "--namespace", namespace, "--port=8080")
    cluster.kubectl("expose", "pod", "hello", "--port=80", "--target-port=8080", "--namespace", namespace)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/hello", "--namespace", namespace, "--timeout=120s")
    return f"http://hello.{namespace}.svc.cluster.local"


@pytest.mark.parametrize("control", ["direct", "port_forward", "no route"])
def test_load_from_inside(
    config: GeneratorCluster, fleet_of: Any, url: str, control: str, request: pytest.FixtureRequest
) -> None:
    if control == "no route":
        control = "port_forward"
        request.getfixturevalue("no_route")
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


PERCENTILES = (50, 90, 99)
ROUNDS = 4
BUSIEST = 0.2
"""Share of a core that a worker may use where its latencies are the target's and not its own."""


@dataclass(frozen=True)
class Seen:
    """What workers have done together."""

    due: np.ndarray
    outcomes: dict[str, int]
    latency_us: np.ndarray
    busiest_cores: float

    @classmethod
    def of(cls, fleet: Fleet, requests: Path) -> Seen:
        """Carry the load out."""
        with fleet:
            _, done = carry_out(fleet)
        parts = ("lag_us", "wait_us", "ttfb_us", "after_ttfb_us")
        rows = pq.read_table(requests, columns=["scheduled_us", "user", *parts])
        due = np.column_stack([rows["scheduled_us"].to_numpy(), rows["user"].to_numpy()])
        latency_us = sum(rows[name].to_numpy().astype(np.int64) for name in parts)
        busiest = done.self_["cpu_cores_max_1s"]
        return cls(
            due, done.counts["by_outcome"], np.percentile(latency_us, PERCENTILES),
            max(busiest) if isinstance(busiest, list) else busiest,
        )  # fmt: skip


@pytest.mark.alone  # measures
@pytest.mark.timeout(400)
@pytest.mark.parametrize("local", [False, True], ids=["in-the-cluster", "local"])
def test_four_workers_are_one_generator(
    cluster: Cluster, config: GeneratorCluster, fleet_of: Any, url: str, namespace: str, *, local: bool
) -> None:
    """The same arrivals at the same instants, the same counts; latencies differ by no more than rounds do."""
    if local:
        if not cluster.is_testbed:
            pytest.skip("services of this cluster cannot be reached from here")
        service = cluster.get("service", "hello", "--namespace", namespace)
        url = f"http://{service['spec']['clusterIP']}"

    def of(workers: int) -> Seen:
        seen = Seen.of(*fleet_of(config, url, 4.0, workers, local=local))
        assert seen.outcomes == {"answered": 4 * PER_S}
        return seen

    for _ in range(3):  # another's load falls on some rounds and not on others
        rounds = [(of(1), of(4)) for _ in range(ROUNDS)]
        for one, four in rounds:
            assert np.array_equal(one.due, four.due)
        change = np.log([four.latency_us / one.latency_us for one, four in rounds])
        error = student_t.ppf(0.995, ROUNDS - 1) * change.std(axis=0, ddof=1) / np.sqrt(ROUNDS)
        busiest = max(seen.busiest_cores for pair in rounds for seen in pair)
        shown = {p: (round(float(np.exp(c)), 3), round(float(np.exp(e)), 3)) for p, c, e in
                 zip(PERCENTILES, change.mean(axis=0), error, strict=True)}  # fmt: skip
        medians = [np.median([pair[k].latency_us for pair in rounds], axis=0).round() for k in (0, 1)]
        LOG.info("four ÷ one: %s; medians %s and %s µs; busiest %s of a core", shown, *medians, busiest)
        if (np.abs(change.mean(axis=0)) <= np.maximum(error, 0.05)).all() and busiest <= BUSIEST:
            return
    pytest.fail(f"the percentiles of four workers are not those of one: {shown}, busiest {busiest} of a core")


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
