"""Campaigns whose deployments are in a cluster (in memory here): kept facts, settling, sweeping, changed places."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import replace

import pytest

from support.campaign_bench import make_plan
from support.fake_cluster import FakeCluster, FakeServer, Refusal, listening_port
from support.fake_telemetry import FakeKubelets
from towtank.analysis import analyse
from towtank.campaign.evidence import Outcomes, can_tell_foreign_load, of_system
from towtank.campaign.intents import Intents
from towtank.campaign.settle import settle
from towtank.campaign.stopping import StopRequest
from towtank.clock import boot_id
from towtank.design.model import Observe, Settle, SettleUntil
from towtank.errors import ChangedError, PlatformError, TelemetryError
from towtank.platforms.base import DeployContext, Instance, SystemEvent, Target, sweep
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.platform import KubernetesPlatform
from towtank.store import Results

APP = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: app}]}}}
---
apiVersion: v1
kind: Service
metadata: {name: app}
spec: {type: NodePort, ports: [{port: 80}]}
"""


@pytest.fixture
def cluster():
    with listening_port() as port:
        yield FakeCluster(node_port=port)


@pytest.fixture
def server(cluster):
    with FakeServer(cluster) as running:
        yield running


@pytest.fixture
def plan(bench, server):
    """Two runs of one deployment in the cluster."""
    bench.platform = KubernetesPlatform()
    (bench.root / "app.yaml").write_text(APP)
    server.write_kubeconfig(bench.root / "kubeconfig")
    keys = {
        "platform": "kubernetes",
        "context": "fake",
        "kubeconfig": "kubeconfig",
        "manifests": ["app.yaml"],
    }
    made = make_plan(("one",), blocks=2, settle=Settle(until=SettleUntil(replicas="baseline"), timeout="5s"))
    (treatment,) = made.treatments
    spec = treatment.spec.model_copy(update={"deployment": KubernetesConfig.model_validate(keys)})
    return replace(made, treatments=(replace(treatment, spec=spec),))


def left(cluster):
    return {name for kind, _, name in cluster.store if kind in ("namespaces", "deployments")} - {
        "default",
        "kube-system",
    }


def record(bench, run):
    return json.loads((bench.folder / "runs" / run / "run.json").read_text())


def test_a_campaign_deploys_keeps_the_facts_and_leaves_nothing(bench, plan, cluster):
    bench.run(plan)
    assert list(bench.verdicts().values()) == ["valid/intact"] * 2
    facts = record(bench, "b01-one-a1")["deployment"]
    assert facts["cluster"]["context"] == "fake"
    assert facts["instances"][0]["way"] == "node_port"
    assert facts["objects"] == ["Service/app", "Deployment/app"]
    assert left(cluster) == set()
    assert list((bench.folder / "intents").glob("*")) == []
    assert not (bench.folder / "scratch").exists()


@pytest.mark.parametrize("here", [True, False])
def test_a_cluster_on_this_machine_is_no_foreign_load(bench, plan, cluster, here):
    """What the pods of a cluster in namespaces use cannot be told from what others use."""
    boot = boot_id() if here else "another"
    cluster.change("nodes", "", "n1", lambda node: node["status"]["nodeInfo"].update(bootID=boot))
    seen = []
    platform = bench.platform
    deploy = platform.deploy

    def keep(*arguments):
        seen.append(deploy(*arguments))
        return seen[-1]

    platform.deploy = keep
    bench.run(plan)
    (instance,) = seen[0].targets["app"].instances
    assert instance.shares_machine is here
    away = replace(
        instance, url="http://192.0.2.1:80"
    )  # as the address of a namespace is none of this machine
    assert can_tell_foreign_load([Target("app", (away,))]) is not here


def test_what_happened_to_pods_is_on_the_system_axis(bench, plan, cluster):
    def kill():
        pod = cluster.all("pods")[0]
        ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "containerID": "c1"}}
        cluster.change(
            "pods", pod["metadata"]["namespace"], pod["metadata"]["name"],
            lambda thing: thing["status"]["containerStatuses"][0].update(restartCount=1, lastState=ended),
        )  # fmt: skip
        time.sleep(0.3)

    bench.told.during_load = lambda: bench.told.runs[-1] == "b01-one-a1" and kill()
    bench.run(plan)
    assert list(bench.verdicts().values()) == ["valid/collapsed", "valid/intact"]


def test_a_context_that_was_bent_elsewhere_is_not_continued(bench, plan, cluster):
    bench.run(plan)
    cluster.change("namespaces", "", "kube-system", lambda one: one["metadata"].update(uid="another"))
    with pytest.raises(ChangedError, match=r"places\.kubernetes fake"):
        bench.run(plan)


def test_problems_stop_it_before_anything_is_created(bench, plan, cluster):
    cluster.denied = {("create", "deployments")}
    with pytest.raises(PlatformError, match=r"the right to create deployments\.apps") as caught:
        bench.run(plan)
    assert caught.value.hint == "nothing was started"
    assert left(cluster) == set()


def test_what_could_not_be_put_away_after_a_failed_start_is_found_the_next_time(bench, plan, cluster):
    cluster.refuses["Deployment/app"] = Refusal(403, "Forbidden", "exceeded quota: small")
    cluster.denied = {("delete", "namespaces")}
    bench.platform.check = lambda *_: ()  # it was fine a moment ago
    with pytest.raises(PlatformError, match="does not fit into the quota"):
        bench.run(plan)
    assert len(left(cluster)) == 1
    cluster.denied = set()
    cluster.refuses.clear()
    bench.run(plan)
    assert any("ended 1 object(s) on kubernetes" in note for note in bench.told.notes)
    assert left(cluster) == set()


def test_what_cannot_be_swept_now_is_found_the_next_time(bench, plan, cluster, server):
    """A note must outlive a command that could not reach the cluster."""
    platform = KubernetesPlatform()
    intent = Intents(bench.folder).declare("deployment", "one", platform="kubernetes", scratch=True)
    data = bench.folder / intent.scratch / "data"
    config = plan.treatments[0].spec.deployment
    deployment = platform.deploy(config, DeployContext("one", intent.token, data, data, bench.root))
    deployment._lease.close()
    for watcher in deployment._seen.watchers.values():
        watcher.close()
    deployment._api.close()
    ((_, place, name),) = [key for key in cluster.store if key[0] == "leases"]
    cluster.change("leases", place, name, lambda one: one["metadata"].update(annotations={}))
    cluster.change("leases", place, name, lambda one: one["spec"].update(leaseDurationSeconds=0))

    cluster.denied = {("delete", "namespaces")}
    (failed,) = Intents(bench.folder).sweep(lambda _, *what: sweep(platform, *what))
    assert "could not be swept" in failed.message
    cluster.denied = set()
    (swept,) = Intents(bench.folder).sweep(lambda _, *what: sweep(platform, *what))
    assert swept.ended == 1
    assert left(cluster) == set()


def test_settling_asks_who_knows_its_baseline():
    class Busy:
        def __init__(self):
            self.said = ["2 pods too many", ""]

        def unsettled(self, *, cpu_below, replicas):
            assert (cpu_below, replicas) == (None, True)
            return self.said.pop(0) if len(self.said) > 1 else self.said[0]

    rule = Settle(until=SettleUntil(replicas="baseline"), timeout="10s")
    assert settle(rule, {}, StopRequest(), Busy()).reached
    never = Busy()
    never.said = ["2 pods too many"]
    short = Settle(until=SettleUntil(replicas="baseline"), timeout="300ms")
    assert "2 pods too many" in settle(short, {}, StopRequest(), never).problem
    assert settle(Settle(timeout="10s"), {}, StopRequest(), never).reached  # nothing was asked for


def test_an_event_says_of_how_many_instances_it_is_one():
    targets = {"app": Target("app", (Instance("app-0", "http://127.0.0.1:1"),))}
    one = SystemEvent(1, "oom_killed", "app-x", "killed", {"of": 4})
    two = SystemEvent(2, "oom_killed", "app-y", "killed", {"of": 4})
    assert next(iter(of_system([one, one, two], targets, Outcomes()))).value == 0.5
    evicted = SystemEvent(1, "evicted", "app-x", "evicted")
    assert next(iter(of_system([evicted], targets, Outcomes()))).value == 1


def test_scratch_of_what_is_pending_is_kept(bench):
    bench.platform.lost = False
    keep = Intents(bench.folder).declare("deployment", "old", platform="journal", scratch=True)
    (bench.folder / keep.scratch).mkdir(parents=True)
    bench.platform.sweep = lambda token: (_ for _ in ()).throw(PlatformError("the cluster is away"))
    bench.run(make_plan(("one",), blocks=1))
    assert (bench.folder / keep.scratch).is_dir()


OBSERVED = tuple(
    Observe(source=name, interval="50ms", options={}) for name in ("kubernetes", "kubelet", "metrics-server")
)


def observed(plan):
    (treatment,) = plan.treatments
    spec = treatment.spec.model_copy(update={"observe": OBSERVED})
    return replace(plan, treatments=(replace(treatment, spec=spec),))


def test_what_telemetry_sees_of_a_cluster_is_kept_and_analysed(bench, plan, cluster):
    FakeKubelets(cluster)
    bench.engine(everywhere={"duration_s": 0.5})  # some intervals of the sources, on a busy machine too
    bench.run(observed(plan))
    results = Results.open(bench.folder)
    for run in results.runs():
        samples = run.samples().to_pydict()
        assert {str(name) for name in samples["source"]} == {"kubernetes", "kubelet", "metrics-server"}
        kinds = {str(kind) for kind in run.events().to_pydict()["kind"]}
        assert {"pod_created", "pod_ready"} <= kinds
        assert "source_failed" not in kinds
    found = analyse(results)
    assert found.treatments[0].estimates["pods_ready"].mean == 1
    assert set(found.usage.name) == {"Deployment/app", "node/n1"}
    assert set(found.pod_starts.under_load) == {False}


def test_telemetry_that_would_see_nothing_stops_it_before_anything_is_created(bench, plan, cluster):
    FakeKubelets(cluster).refusals["/apis/metrics.k8s.io"] = Refusal(404, "NotFound", "not found")
    with pytest.raises(
        TelemetryError, match=r"observe metrics-server: context fake: the cluster has no metrics API"
    ):
        bench.run(observed(plan))
    assert left(cluster) == set()


def test_kubelets_that_fall_silent_make_a_finding_and_no_crash(bench, plan, cluster):
    kubelets = FakeKubelets(cluster)
    plain, numbers = kubelets.answer, itertools.count(1)

    def answer(path):
        """Only the first look and that at the start of the first run, then not for a moment."""
        if "/proxy/metrics" in path and next(numbers) in (3, 4):
            return Refusal(502, "BadGateway", "the kubelet is away")
        return plain(path)

    cluster.answers = answer
    bench.run(observed(plan))
    first, *others = Results.open(bench.folder).runs()  # on a busy machine some are invalid, and repeated
    reasons = {one.name: one for one in first.record.verdicts.instrument_reasons}
    assert "kubelet" in reasons["telemetry_failed"].message
    assert not reasons["telemetry_failed"].severe  # suspect
    assert "the kubelet is away" in " ".join(first.events().to_pydict()["message"])
    assert others
    for other in others:
        assert "telemetry_failed" not in {one.name for one in other.record.verdicts.instrument_reasons}
