"""A whole deployment against an API server in memory: what is created, in which order, and that nothing is left."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.fake_cluster import FakeCluster, FakeServer, Refusal, meta, waiting_status
from towtank.errors import Interrupted, PlatformError, ReadinessTimeout
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes import client, creating, lease, readiness
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.lease import HOLDER
from towtank.platforms.kubernetes.ownership import TOKEN, Note
from towtank.platforms.kubernetes.platform import KubernetesPlatform

Make = Callable[..., KubernetesConfig]
PLATFORM = KubernetesPlatform()


def never() -> None:
    """Nobody cancels."""


def patched(**merge: object) -> dict[str, object]:
    """A patch of the only Service."""
    return {"target": "Service/app", "merge": merge}


def left(cluster: FakeCluster) -> set[str]:
    """Everything but what was there at the beginning."""
    return {f"{kind}/{name}" for kind, _, name in cluster.store} - {
        "namespaces/default", "namespaces/kube-system", "nodes/n1",
    }  # fmt: skip


def renewed(token: str) -> bool:
    """Whether anybody renews a Lease still: a deployment that was given up must not look as if it were in use."""
    return any(thread.name == f"towtank-lease {token}" for thread in threading.enumerate())


def test_everything_is_labelled_tried_first_and_removed(
    cluster: FakeCluster, make: Make, context: DeployContext
) -> None:
    config = make(set={"Deployment/app:spec.replicas": 3})
    deployment = PLATFORM.deploy(config, context)
    try:
        deployment.wait_ready(cancelled=never)
        assert {thing["metadata"]["labels"].get(TOKEN) for thing in cluster.all("pods")} == {context.token}
        assert len(cluster.all("pods")) == 3
        for kind in ("namespaces", "deployments", "services", "leases"):
            mine = [t for t in cluster.all(kind) if t["metadata"]["labels"].get(TOKEN) == context.token]
            assert len(mine) == 1, kind
            assert mine[0]["metadata"]["labels"]["towtank.dev/experiment"] == "a-study"
        writes = [line for line in cluster.log if line.startswith("POST") and "selfsubject" not in line]
        namespace = cluster.all("leases")[0]["metadata"]["namespace"]
        base = f"/namespaces/{namespace}"
        assert writes == [
            "POST /api/v1/namespaces",
            f"POST /apis/coordination.k8s.io/v1{base}/leases",
            f"POST /api/v1{base}/services dry-run",
            f"POST /apis/apps/v1{base}/deployments dry-run",
            f"POST /api/v1{base}/services",
            f"POST /apis/apps/v1{base}/deployments",
        ]
        facts = json.loads(json.dumps(deployment.describe()))
        assert facts["set"] == [{"object": "Deployment/app", "path": "spec.replicas", "was": 1, "now": 3}]
        assert facts["instances"][0]["way"] == "node_port"
        assert facts["cluster"]["version"] == "v1.34.4"
        assert len(facts["pods"]) == 3
        note = Note.read(context.data_dir)
        assert note is not None
        assert [one.shown for one in note.things] == ["Service/app", "Deployment/app"]
    finally:
        deployment.remove()
    assert left(cluster) == set()
    assert not (context.data_dir / Note.FILE).exists()
    assert list(deployment.events()) == []


def test_a_given_namespace_is_left_there_with_everything_foreign_in_it(
    cluster: FakeCluster, make: Make, context: DeployContext
) -> None:
    cluster.put("namespaces", "", meta("v1", "Namespace", "mine"))
    cluster.put("configmaps", "mine", meta("v1", "ConfigMap", "theirs", "mine"))
    cluster.put("persistentvolumeclaims", "mine", meta("v1", "PersistentVolumeClaim", "theirs", "mine"))
    claim = meta("v1", "PersistentVolumeClaim", "of-ours", "mine", {TOKEN: context.token})
    deployment = PLATFORM.deploy(make(namespace="mine"), context)
    cluster.put("persistentvolumeclaims", "mine", claim)
    deployment.wait_ready(cancelled=never)
    deployment.remove()
    assert left(cluster) == {"namespaces/mine", "configmaps/theirs", "persistentvolumeclaims/theirs"}


def test_what_exists_already_is_an_error_and_stays(
    cluster: FakeCluster, make: Make, context: DeployContext
) -> None:
    cluster.put("namespaces", "", meta("v1", "Namespace", "mine"))
    theirs = cluster.put("services", "mine", meta("v1", "Service", "app", "mine"))
    config = make(namespace="mine")
    assert any(
        "app.yaml:18: Service/app exists already" in problem
        for problem in PLATFORM.check(config, context.root)
    )
    with pytest.raises(PlatformError, match="Service/app exists already and is not this deployment's"):
        PLATFORM.deploy(config, context)
    assert left(cluster) == {"namespaces/mine", "services/app"}
    assert cluster.store["services", "mine", "app"]["metadata"]["uid"] == theirs["metadata"]["uid"]


def test_a_failure_half_way_removes_what_was_created(
    cluster: FakeCluster, make: Make, context: DeployContext
) -> None:
    cluster.refuses["Deployment/app"] = Refusal(403, "Forbidden", "exceeded quota: small, requested: pods=1")
    with pytest.raises(
        PlatformError, match="Deployment/app does not fit into the quota of its namespace: exceeded"
    ):
        PLATFORM.deploy(make(), context)
    assert left(cluster) == set()


def test_a_server_that_lets_nobody_in_for_a_moment_is_waited_for(
    cluster: FakeCluster, make: Make, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 429 says that nothing was done: also what is created is asked for again."""
    monkeypatch.setattr(client, "_RETRY_PAUSE_S", 0.01)
    cluster.busy = 3
    PLATFORM.deploy(make(), context).remove()
    assert (cluster.busy, left(cluster)) == (0, set())
    monkeypatch.setattr(client, "RETRY_FOR_S", 0.05)
    cluster.busy = 10**6
    with pytest.raises(PlatformError, match="Too many requests, please try again later"):
        PLATFORM.deploy(make(), context)
    cluster.busy = 0
    assert left(cluster) == set()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"context": "fkae"}, "there is no context 'fkae' in .*; known are fake; did you mean 'fake'"),
        ({"kubeconfig": "nowhere"}, "there is no file"),
        ({"manifests": ["nowhere.yaml"]}, "nowhere.yaml cannot be read"),
        ({"set": {"Deployment/app:spec.replica": 1}}, "matches no field .* nearest is 'Deployment/app:spec.replicas'"),
        ({"namespace": "nowhere"}, "there is no namespace 'nowhere' in context 'fake'"),
        ({"targets": {"app": "shop"}}, "names the Service 'shop', which the deployment does not have; it has app"),
        ({"nodes": 2}, r"`nodes: 2`: the cluster of context 'fake' has 1 node\(s\) that pods may use: n1"),
        ({"patches": [patched(kind="Servise")]}, "has no kind 'Servise'; did you mean Service"),
        ({"patches": [patched(apiVersion="x/v9")]}, "does not know 'x/v9'"),
        ({"patches": [patched(metadata={"namespace": "other"})]}, "Service/app belongs to the namespace 'other'"),
    ],
)  # fmt: skip
def test_bad_input_is_found_before_anything_is_created(
    cluster: FakeCluster, make: Make, context: DeployContext, keys: dict[str, object], words: str
) -> None:
    config = make(**keys)
    (problem,) = PLATFORM.check(config, context.root)
    assert re.search(words, problem), problem
    with pytest.raises(PlatformError):
        PLATFORM.deploy(config, context)
    assert left(cluster) == set()
    harmless = ("dry-run", "selfsubjectaccessreviews")
    writes = [line for line in cluster.log if line.startswith(("POST", "PUT", "DELETE"))]
    assert [line for line in writes if not any(word in line for word in harmless)] == []


def test_a_field_that_nobody_knows_is_said(cluster: FakeCluster, make: Make, context: DeployContext) -> None:
    """A server that is not asked to be strict drops it: the treatments of a factor would be the same."""
    words = 'app.yaml:[0-9]+: Service/app was refused: .*unknown field "spec.sesionAffinity"'
    config = make(patches=[patched(spec={"sesionAffinity": "ClientIP"})])
    (problem,) = PLATFORM.check(config, context.root)
    assert re.search(words, problem), problem
    with pytest.raises(PlatformError, match=words):
        PLATFORM.deploy(config, context)
    assert left(cluster) == set()


def test_missing_rights_are_named_before_anything_is_created(
    cluster: FakeCluster, make: Make, context: DeployContext
) -> None:
    cluster.denied = {("create", "namespaces"), ("create", "deployments"), ("watch", "replicasets")}
    problems = PLATFORM.check(make(), context.root)
    assert (
        "the right to create namespaces in the whole cluster (to make a namespace for each deployment)"
        in problems[0]
    )
    assert "the right to create deployments.apps in the whole cluster" in problems[1]
    assert "towtank doctor --context fake" in problems[2]
    assert len(problems) == 3


def test_a_token_that_is_not_accepted_is_said(make: Make, context: DeployContext, server: FakeServer) -> None:
    server.token = "secret"
    (problem,) = PLATFORM.check(make(), context.root)
    assert "the credentials of context 'fake' are not accepted: expired, or of another cluster" in problem


def test_an_api_server_that_is_away_is_said(
    make: Make, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    from towtank.platforms.kubernetes import client

    monkeypatch.setattr(client, "RETRY_FOR_S", 0.2)
    config = make()
    gone = context.root / "gone"
    gone.write_text(Path(str(config.kubeconfig)).read_text().replace("127.0.0.1", "127.0.0.2"))
    (problem,) = PLATFORM.check(make(kubeconfig=str(gone)), context.root)
    assert "the API server of context 'fake' at http://127.0.0.2" in problem
    assert "does not answer" in problem


def test_cluster_scoped_objects_need_their_name_said(
    cluster: FakeCluster, make: Make, context: DeployContext
) -> None:
    (context.root / "role.yaml").write_text(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reader}\n"
    )
    (context.root / "space.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: mine}\n")
    keys = {"manifests": ["app.yaml", "role.yaml"]}
    with pytest.raises(
        PlatformError, match=r"role\.yaml:1: ClusterRole/reader belongs to the whole cluster"
    ) as caught:
        PLATFORM.deploy(make(**keys), context)
    assert caught.value.hint == "allow it by name: `cluster_scoped: [ClusterRole/reader]`"
    with pytest.raises(PlatformError, match="does not bring its own namespace"):
        PLATFORM.deploy(
            make(manifests=["app.yaml", "space.yaml"], cluster_scoped=["Namespace/mine"]), context
        )
    deployment = PLATFORM.deploy(make(**keys, cluster_scoped=["ClusterRole/reader"]), context)
    assert ("clusterroles", "", "reader") in cluster.store
    deployment.remove()
    assert left(cluster) == set()


def test_a_namespace_in_use_is_refused(cluster: FakeCluster, make: Make, context: DeployContext) -> None:
    cluster.put("namespaces", "", meta("v1", "Namespace", "mine"))
    other = meta("coordination.k8s.io/v1", "Lease", "towtank-other", "mine", {TOKEN: "other"})
    other["spec"] = {"holderIdentity": "desk/17", "leaseDurationSeconds": 0, "renewTime": "t"}
    cluster.put("leases", "mine", other)
    (problem,) = PLATFORM.check(make(namespace="mine"), context.root)
    assert (
        "the namespace 'mine' is in use: the deployment other is in it, left behind by a towtank that ended"
        in problem
    )
    other["metadata"]["annotations"] = {HOLDER: lease.holder()}
    mine = make(namespace="mine")
    PLATFORM.deploy(mine, context).remove()  # another deployment of this very process is no stranger
    cluster.change("namespaces", "", "mine", lambda thing: thing.update(status={"phase": "Terminating"}))
    with pytest.raises(PlatformError, match="is being deleted"):
        PLATFORM.deploy(mine, context)


# --- a dead Towtank ---------------------------------------------------------------------------------------------


def abandoned(make: Make, context: DeployContext, monkeypatch: pytest.MonkeyPatch, **keys: object) -> None:
    """A deployment whose Towtank was killed: its Lease is of a process that is not there."""
    monkeypatch.setattr(lease, "holder", lambda: lease.machine_id() + "/another-boot/1/1")
    deployment = PLATFORM.deploy(make(**keys), context)
    monkeypatch.undo()
    for watcher in deployment._seen.watchers.values():
        watcher.close()
    deployment._lease.close()
    deployment._api.close()


def test_sweeping_removes_what_carries_the_token_and_nothing_else(
    cluster: FakeCluster, make: Make, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.put("namespaces", "", meta("v1", "Namespace", "mine"))
    abandoned(make, context, monkeypatch, namespace="mine")
    assert {"services/app", "deployments/app"} < left(cluster)
    cluster.drop("services", "mine", "app")  # somebody took the name meanwhile
    cluster.put("services", "mine", meta("v1", "Service", "app", "mine"))
    assert PLATFORM.sweep_noted("another-token", context.data_dir) == 0
    assert PLATFORM.sweep_noted(context.token, context.data_dir.parent) == 2
    assert left(cluster) == {"namespaces/mine", "services/app"}
    assert PLATFORM.sweep_noted(context.token, context.data_dir) == 0


def test_sweeping_leaves_what_somebody_uses(
    cluster: FakeCluster, make: Make, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandoned(make, context, monkeypatch)
    ((_, namespace, name),) = [key for key in cluster.store if key[0] == "leases"]
    mark = f"{lease.machine_id()}/{lease.boot_id()}/1/{lease._start_ticks(1)}"  # pid 1 lives
    cluster.change("leases", namespace, name, lambda one: one["metadata"].update(annotations={HOLDER: mark}))
    with pytest.raises(PlatformError, match="is still used by"):
        PLATFORM.sweep_noted(context.token, context.data_dir)
    assert ("namespaces", "", namespace) in cluster.store


def test_sweeping_another_cluster_is_refused(
    cluster: FakeCluster, make: Make, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandoned(make, context, monkeypatch)
    cluster.change("namespaces", "", "kube-system", lambda one: one["metadata"].update(uid="another"))
    with pytest.raises(PlatformError, match="points to another cluster than when the deployment"):
        PLATFORM.sweep_noted(context.token, context.data_dir)
    assert PLATFORM.place(make(), context.root) == ("fake", "another (upstream v1.34.4)")


def test_a_lease_elsewhere_is_given_its_time(
    cluster: FakeCluster, make: Make, context: DeployContext
) -> None:
    from towtank.platforms.kubernetes.connection import connect

    config = make()
    api = connect("fake", config.kubeconfig, None).api
    one = meta("coordination.k8s.io/v1", "Lease", "l", "default")
    one["spec"] = {"holderIdentity": "desk/1", "leaseDurationSeconds": 30, "renewTime": "a"}
    cluster.put("leases", "default", one)
    slept: list[float] = []
    assert lease.live_holder(api, one, sleep=slept.append) == ""
    assert slept == [30.0]

    def renewing(_: float) -> None:
        cluster.change("leases", "default", "l", lambda thing: thing["spec"].update(renewTime="b"))

    assert lease.live_holder(api, one, sleep=renewing) == "desk/1"
    api.close()


def test_what_does_not_go_away_is_named_with_what_holds_it(
    cluster: FakeCluster, make: Make, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.put("namespaces", "", meta("v1", "Namespace", "mine"))
    deployment = PLATFORM.deploy(make(namespace="mine"), context)
    cluster.change(
        "services", "mine", "app", lambda one: one["metadata"].update(finalizers=["example.com/hold"])
    )
    monkeypatch.setattr(creating.delete_all, "__kwdefaults__", {"timeout_s": 0.2, "sleep": time.sleep})
    with pytest.raises(PlatformError, match=r"Service/app is still there .* finalizers example.com/hold"):
        deployment.remove()
    assert not renewed(context.token)
    assert deployment._api.opened() is not deployment._api, (
        "its connections are closed; another attempt opens its own"
    )
    cluster.change("services", "mine", "app", lambda one: one["metadata"].pop("finalizers"))
    cluster.change("services", "mine", "app", lambda one: one["metadata"].pop("deletionTimestamp"))
    deployment.remove()
    assert left(cluster) == {"namespaces/mine"}


# --- not ready ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (
            waiting_status("ImagePullBackOff", "Back-off: rpc error: manifest unknown"), PlatformError,
            r"cannot come up: pod app-\d+ on node n1 \(container app\): its image cannot be pulled: .*manifest unknown",
        ),
        (
            waiting_status("CrashLoopBackOff", "", restarts=4, last={"exitCode": 137, "reason": "OOMKilled"}),
            PlatformError,
            r"it crashes: it ended \(the kernel killed it for want of memory\) and was started again 4 .*it said some",
        ),
        (
            waiting_status("CreateContainerConfigError", 'configmap "c" not found'), PlatformError,
            'a container cannot be made: configmap "c" not found',
        ),
        (waiting_status("ContainerCreating"), ReadinessTimeout, "was not ready within 500 ms .*it has not started"),
    ],
)  # fmt: skip
def test_why_it_is_not_ready_is_said(  # noqa: PLR0917 - fixtures and parameters
    cluster: FakeCluster, make: Make, context: DeployContext, monkeypatch: pytest.MonkeyPatch,
    status: Callable[[dict[str, object]], dict[str, object]], kind: type[PlatformError], words: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(readiness, "HOPELESS_AFTER_S", 0.1)
    cluster.pod_status = status
    deployment = PLATFORM.deploy(make(ready={"timeout": "500ms"}), context)
    try:
        with pytest.raises(kind) as caught:
            deployment.wait_ready(cancelled=never)
    finally:
        deployment.remove()
    assert type(caught.value) is kind
    assert re.search(words, caught.value.message, re.DOTALL), caught.value.message
    assert caught.value.hint


def test_events_of_the_pod_are_in_the_error(cluster: FakeCluster, make: Make, context: DeployContext) -> None:
    cluster.pod_status = waiting_status("ContainerCreating")
    deployment = PLATFORM.deploy(make(ready={"timeout": "300ms"}), context)
    (pod,) = cluster.all("pods")
    for number, (kind, message) in enumerate([("Normal", "fine"), ("Warning", "no such\x1b[31m volume")]):
        event = meta("v1", "Event", f"e{number}", pod["metadata"]["namespace"])
        event |= {"type": kind, "reason": "FailedMount", "message": message}
        event["involvedObject"] = {
            "kind": "Pod",
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
        }
        cluster.put("events", pod["metadata"]["namespace"], event)
    try:
        with pytest.raises(ReadinessTimeout, match=r"its events:\n  \| FailedMount: no such volume$"):
            deployment.wait_ready(cancelled=never)
    finally:
        deployment.remove()


def test_pods_that_a_quota_refuses(
    cluster: FakeCluster, make: Make, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "FAILURE_AFTER_S", 0.1)
    deployment = PLATFORM.deploy(make(), context)
    ((_, namespace, _),) = [key for key in cluster.store if key[0] == "deployments"]
    status = {
        "observedGeneration": 1,
        "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: small"}],
    }
    cluster.change("deployments", namespace, "app", lambda one: one.update(status=status))
    try:
        with pytest.raises(
            PlatformError, match="has 0 of 1 pods ready: its pods are refused: exceeded quota: small"
        ):
            deployment.wait_ready(cancelled=never)
    finally:
        deployment.remove()


def test_waiting_for_pods_can_be_cancelled(cluster: FakeCluster, make: Make, context: DeployContext) -> None:
    cluster.pod_status = waiting_status("ContainerCreating")
    deployment = PLATFORM.deploy(make(), context)

    def stop() -> None:
        raise Interrupted("the user asked to stop")

    with pytest.raises(Interrupted):
        deployment.wait_ready(cancelled=stop)
    deployment.remove()
    assert left(cluster) == set()
