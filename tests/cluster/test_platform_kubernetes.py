"""The Kubernetes platform against a real cluster: what it creates, what it says, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from testbed import components, images
from testbed.settings import REGISTRY, Folders

from support.cluster_app import IMAGE, SUPPORT, config_for, deployed, patched, wait_for
from towtank.campaign.images import KnownImages
from towtank.errors import ChangedError, PlatformError, ReadinessTimeout
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes import rights
from towtank.platforms.kubernetes.platform import KubernetesPlatform

pytestmark = pytest.mark.cluster
PLATFORM = KubernetesPlatform()
ROOT = Path(__file__).resolve().parents[2]


def url_of(deployment: Any) -> str:
    return str(deployment.targets["app"].instances[0].url)


# --- up, there, and gone ----------------------------------------------------------------------------------------


def test_requests_arrive_and_the_way_is_told(cluster: Any, context: DeployContext) -> None:
    with deployed(config_for(cluster, set={"Deployment/app:spec.replicas": 3}), context) as deployment:
        answered = {httpx.get(url_of(deployment), trust_env=False).headers["x-instance"] for _ in range(40)}
        facts = json.loads(json.dumps(deployment.describe()))
        assert answered <= {pod["name"] for pod in facts["pods"]}
        assert len(answered) > 1  # each httpx.get is a connection of its own
        assert facts["instances"][0]["way"] == "node_port"
        assert all(image["id"] for pod in facts["pods"] for image in pod["images"].values())
        assert facts["cluster"]["id"]
        assert list(deployment.events()) == []
        assert deployment.unsettled(cpu_below=None, replicas=True) == ""


def test_steps_of_pods_agree_with_their_own_times(
    cluster: Any, context: DeployContext, fresh_image: str
) -> None:
    wall_ns = time.time_ns() - time.monotonic_ns()
    config = config_for(cluster, set={IMAGE: fresh_image, "Deployment/app:spec.replicas": 4})
    with deployed(config, context) as deployment:
        steps = deployment.steps()
    wanted = ["created", "scheduled", "started", "ready"]
    for pod in {step.pod for step in steps}:
        own = [step for step in steps if step.pod == pod and step.name in wanted]
        assert [step.name for step in own] == wanted
        assert [step.t_ns for step in own] == sorted(step.t_ns for step in own)
        for step in own:
            at = time.mktime(time.strptime(step.object_time, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
            assert -0.5 <= (step.t_ns + wall_ns) / 1e9 - at < 3.0, step
    if cluster.is_testbed:
        assert any("Successfully pulled" in step.detail for step in steps if step.name == "pulled")


def test_two_deployments_and_a_given_namespace(cluster: Any, context: DeployContext, namespace: str) -> None:
    cluster.kubectl("create", "configmap", "theirs", "--namespace", namespace)
    given = config_for(cluster, namespace=namespace)
    other = replace(context, token=f"{context.token}-b", data_dir=context.data_dir / "b")
    with deployed(config_for(cluster), context), deployed(given, other):
        objects = cluster.get("all,leases", "--namespace", namespace)["items"]
        assert all(
            one["metadata"]["labels"]["towtank.dev/token"] == other.token
            for one in objects
            if one["kind"] != "ReplicaSet"
        )
        assert any("exists already" in one for one in PLATFORM.check(given, SUPPORT))
    left = cluster.get("all,leases,configmaps", "--namespace", namespace)["items"]
    assert {one["metadata"]["name"] for one in left} == {"theirs", "kube-root-ca.crt"}


def test_copies_on_a_node(cluster: Any, context: DeployContext) -> None:
    config = config_for(
        cluster,
        set={"Deployment:spec.template.spec.containers[app].image": cluster.image},
        copies=[{"of": ["Deployment/app", "Service/app"], "count": 3}], nodes=1,
        targets={f"part-{number}": f"app-{number}" for number in range(3)},
    )  # fmt: skip
    config = config.model_copy(update={"fields": {k: v for k, v in config.fields.items() if k != IMAGE}})
    with deployed(config, context) as deployment:
        for number in range(3):
            url = deployment.targets[f"part-{number}"].instances[0].url
            said = {httpx.get(url, trust_env=False).headers["x-instance"] for _ in range(10)}
            assert all(name.startswith(f"app-{number}-") for name in said)
        assert len({pod["node"] for pod in deployment.describe()["pods"]}) == 1


def test_processes_on_nodes(cluster: Any, context: DeployContext) -> None:
    """The same binary in k processes on m nodes: k is `copies`, m is `nodes`, and both are numbers."""
    if len(cluster.get("nodes")["items"]) < 2:
        pytest.skip("this cluster has one node; `make testbed-up NODES=2` has two")
    spread = {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"part": "worker"}}, "nodeTaintsPolicy": "Honor",
    }  # fmt: skip
    template = {"metadata": {"labels": {"part": "worker"}}, "spec": {"topologySpreadConstraints": [spread]}}
    for processes, nodes in ((2, 2), (4, 2), (3, 1)):
        config = config_for(
            cluster, nodes=nodes, copies=[{"of": ["Deployment/app", "Service/app"], "count": processes}],
            patches=[
                {"target": f"Deployment/app-{number}", "merge": {"spec": {"template": template}}}
                for number in range(processes)
            ],
            set={"Deployment:spec.template.spec.containers[app].image": cluster.image},
            targets={f"part-{number}": f"app-{number}" for number in range(processes)},
        )  # fmt: skip
        config = config.model_copy(update={"fields": {k: v for k, v in config.fields.items() if k != IMAGE}})
        with deployed(config, context) as deployment:
            pods = deployment.describe()["pods"]
        assert (len(pods), len({pod["node"] for pod in pods})) == (processes, nodes)


def test_an_image_that_is_pushed_anew_under_its_name_is_noticed(
    cluster: Any, context: DeployContext, tmp_path: Path
) -> None:
    if not cluster.is_testbed:
        pytest.skip("images are pushed to the testbed's registry only")
    programs, name = Folders.from_environment().programs, f"hello:{secrets.token_hex(4)}"

    def push() -> str:
        (tmp_path / "mark").write_text(secrets.token_hex(8), "utf-8")
        recipe = images.Recipe(name, {"/hello": programs / "hello", "/mark": tmp_path / "mark"}, ("/hello",))
        packed = images.pack(recipe, tmp_path / "images")
        images.push(packed, components.REGISTRY_ADDRESS)
        return packed.digest

    config = config_for(
        cluster, set={IMAGE: f"{REGISTRY}/{name}"}, patches=[patched(imagePullPolicy="Always")]
    )
    known, digests = KnownImages(), []
    for _ in range(2):
        digests.append(push())
        with deployed(config, context) as deployment:
            assert deployment.images() == {f"{REGISTRY}/{name}": [f"{REGISTRY}/hello@{digests[-1]}"]}
            if len(digests) == 1:
                known.check("shop", deployment)
                known.keep(deployment.describe())
                continue
            with pytest.raises(ChangedError, match=f"(?s)then: .*{digests[0]}.*now: .*{digests[1]}"):
                known.check("shop", deployment)


def test_settled_again_after_scaling(cluster: Any, context: DeployContext) -> None:
    with deployed(config_for(cluster), context) as deployment:
        place = deployment.describe()["namespace"]["name"]
        cluster.kubectl("scale", "deployment/app", "--replicas=3", "--namespace", place)
        wait_for(lambda: "at its baseline it wanted 1" in deployment.unsettled(cpu_below=None, replicas=True))
        cluster.kubectl("scale", "deployment/app", "--replicas=1", "--namespace", place)
        wait_for(lambda: deployment.unsettled(cpu_below=None, replicas=True) == "")
        assert list(deployment.events()) == []  # scaling is no failure


# --- what goes wrong before it is up ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"set": {IMAGE: "registry.testbed/no-such-image:1"}}, "its image cannot be pulled"),
        ({"patches": [patched(env=[{"name": "PORT", "value": "99999"}])]}, "it crashes.*hello: listen tcp"),
        ({"patches": [patched(resources={"requests": {"cpu": "500"}})]}, "no node can take it.*Insufficient cpu"),
        ({"patches": [patched(readinessProbe={"tcpSocket": {"port": 9}})]}, "it runs and is not ready.*Unhealthy"),
        ({"patches": [patched(envFrom=[{"configMapRef": {"name": "none"}}])]}, 'configmap "none" not found'),
    ],
    ids=["image", "crash", "unschedulable", "probe", "config"],
)  # fmt: skip
def test_why_it_does_not_come_up_is_said(
    cluster: Any, context: DeployContext, keys: dict[str, Any], words: str
) -> None:
    import re

    config = config_for(cluster, ready={"timeout": "15s"}, **keys)
    with deployed(config, context, ready=False) as deployment, pytest.raises(PlatformError) as caught:
        deployment.wait_ready(cancelled=lambda: None)
    assert re.search(words, caught.value.message, re.DOTALL), caught.value.message
    assert "its events:" in caught.value.message
    assert caught.value.hint


def test_a_quota_that_is_exceeded_is_named(cluster: Any, context: DeployContext, tmp_path: Path) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "1"}},
    }
    (tmp_path / "quota.yaml").write_text(yaml.safe_dump(quota))
    (tmp_path / "app.yaml").write_text((SUPPORT / "manifests" / "app.yaml").read_text())
    config = config_for(
        cluster, manifests=["quota.yaml", "app.yaml"], set={"Deployment/app:spec.replicas": 3}
    )  # fmt: skip
    small = replace(context, root=tmp_path)
    with (
        deployed(config, small, ready=False) as deployment,
        pytest.raises(PlatformError, match="exceeded quota: small"),
    ):
        deployment.wait_ready(cancelled=lambda: None)


def test_what_the_server_would_refuse_is_known_before(cluster: Any, context: DeployContext) -> None:
    wrong = config_for(cluster, set={"Deployment/app:spec.selector.matchLabels.app": "another"})
    (problem,) = PLATFORM.check(wrong, SUPPORT)
    assert "manifests/app.yaml:2: Deployment/app was refused" in problem
    assert "selector" in problem
    with pytest.raises(PlatformError, match="Deployment/app was refused"):
        PLATFORM.deploy(wrong, context)
    unknown = config_for(cluster, patches=[{"target": "Service/app", "merge": {"kind": "Servise"}}])
    assert "did you mean Service" in PLATFORM.check(unknown, SUPPORT)[0]


# --- under load ---------------------------------------------------------------------------------------------------


def test_an_out_of_memory_kill_is_the_treatments_result(cluster: Any, context: DeployContext) -> None:
    with deployed(config_for(cluster, set={"Deployment/app:spec.replicas": 2}), context) as deployment:
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url_of(deployment)}/allocate?mib=200", trust_env=False, timeout=20)
        (event,) = wait_for(deployment.events)
        assert event.kind == "oom_killed"
        assert event.detail["of"] == 2
        assert event.instance in {pod["name"] for pod in deployment.describe()["pods"]}


@pytest.mark.alone  # breaks a part of the cluster
def test_the_api_server_may_be_restarted_meanwhile(cluster: Any, context: DeployContext) -> None:
    if not cluster.is_testbed:
        pytest.skip("only the testbed's API server may be ended")
    with deployed(config_for(cluster), context) as deployment:
        command = [sys.executable, "-m", "testbed", "restart", "node1", "kube-apiserver"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
        (pod,) = deployment.describe()["pods"]
        place = deployment.describe()["namespace"]["name"]
        wait_for(lambda: list(deployment.events()) == [])
        cluster.kubectl("delete", "pod", pod["name"], "--namespace", place, "--wait=false")
        wait_for(lambda: any(step.name == "gone" and step.pod == pod["name"] for step in deployment.steps()))
        assert list(deployment.events()) == []


# --- rights ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def account(cluster: Any, namespace: str, tmp_path: Path) -> Callable[..., Any]:
    """The cluster with the rights of a ServiceAccount in the namespace of the test."""

    def made(granted: str = "") -> Any:
        if granted:
            cluster.kubectl("apply", "--filename", "-", text=granted)
        else:
            cluster.kubectl("create", "serviceaccount", "towtank", "--namespace", namespace)
        token = cluster.kubectl("create", "token", "towtank", "--namespace", namespace).strip()
        kubeconfig = yaml.safe_load(Path(cluster.kubeconfig).read_text("utf-8"))
        (used,) = [one["context"] for one in kubeconfig["contexts"] if one["name"] == cluster.context]
        used["user"] = "account"
        kubeconfig["users"] = [{"name": "account", "user": {"token": token}}]
        (tmp_path / "account").write_text(yaml.safe_dump(kubeconfig))
        return replace(cluster, kubeconfig=str(tmp_path / "account"))

    return made


def test_the_rights_of_the_page_are_enough(
    cluster: Any, context: DeployContext, namespace: str, account: Callable[..., Any]
) -> None:
    granted = rights.manifest(namespace).replace("name: towtank", f"name: {namespace}").replace(
        f"kind: ServiceAccount\nmetadata: {{name: {namespace}", "kind: ServiceAccount\nmetadata: {name: towtank"
    ).replace(f"kind: ServiceAccount, name: {namespace}", "kind: ServiceAccount, name: towtank")  # fmt: skip
    try:
        limited = account(granted)
        config = config_for(limited, namespace=namespace)
        assert list(PLATFORM.check(config, SUPPORT)) == []
        with deployed(config, context) as deployment:
            assert httpx.get(url_of(deployment), trust_env=False).status_code == 200
            assert deployment.describe()["watches"] == {}
        lacking = PLATFORM.check(config_for(limited), SUPPORT)
        assert any("delete namespaces in the whole cluster" in one for one in lacking)
    finally:
        cluster.kubectl("delete", "clusterrole,clusterrolebinding", namespace)


def test_doctor_tells_what_the_cluster_is(cluster: Any) -> None:
    command = [sys.executable, "-c", "from towtank.cli.main import main; main()", "doctor", "--json"]
    where = ["--context", cluster.context, "--kubeconfig", cluster.kubeconfig]
    done = subprocess.run([*command, *where], capture_output=True, text=True, check=True, timeout=60)
    found = {one["name"]: one for one in json.loads(done.stdout)}
    assert found["cluster"]["state"] == found["nodes"]["state"] == "ok"
    assert " v1." in found["cluster"]["found"]


def test_without_rights_the_missing_ones_are_named(
    context: DeployContext, namespace: str, account: Callable[..., Any]
) -> None:
    config = config_for(account(), namespace=namespace)
    problems = PLATFORM.check(config, SUPPORT)
    (missing,) = [one for one in problems if f"deployments.apps in namespace {namespace}" in one]
    assert "create" in missing
    with pytest.raises(PlatformError, match="forbidden"):
        PLATFORM.deploy(config, context)


def test_credentials_that_are_not_accepted(cluster: Any, tmp_path: Path) -> None:
    kubeconfig = yaml.safe_load(Path(cluster.kubeconfig).read_text("utf-8"))
    for user in kubeconfig["users"]:
        user["user"] = {"token": "expired"}
    (tmp_path / "expired").write_text(yaml.safe_dump(kubeconfig))
    (problem,) = PLATFORM.check(config_for(replace(cluster, kubeconfig=str(tmp_path / "expired"))), SUPPORT)
    assert "are not accepted: expired, or of another cluster" in problem


# --- a dead Towtank ---------------------------------------------------------------------------------------------------

DEPLOY = """
import sys, time
from pathlib import Path
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.platform import KubernetesPlatform
config, token, data, root = sys.argv[1:]
context = DeployContext("shop", token, Path(data), Path(data), Path(root))
deployment = KubernetesPlatform().deploy(KubernetesConfig.model_validate_json(config), context)
deployment.wait_ready(cancelled=lambda: None)
print("ready", flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("given", [False, True], ids=["own-namespace", "given-namespace"])
def test_what_a_killed_towtank_left_is_swept(
    cluster: Any, context: DeployContext, request: pytest.FixtureRequest, *, given: bool
) -> None:
    namespace = request.getfixturevalue("namespace") if given else None
    config = config_for(cluster, namespace=namespace)
    command = [
        sys.executable, "-c", DEPLOY, config.model_dump_json(by_alias=True), context.token, str(context.data_dir),
        str(SUPPORT),
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(PlatformError, match="is still used by"):
            PLATFORM.sweep_noted(context.token, context.data_dir)
        os.kill(process.pid, signal.SIGKILL)
    assert PLATFORM.sweep_noted(context.token, context.data_dir) > 0
    assert PLATFORM.sweep_noted(context.token, context.data_dir) == 0
    if given:
        left = cluster.get("all,leases,endpoints", "--namespace", namespace)["items"]
        assert left == []


def test_a_namespace_in_use_is_refused(cluster: Any, context: DeployContext, namespace: str) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "towtank-other", "namespace": namespace, "labels": {"towtank.dev/token": "other"}},
        "spec": {"holderIdentity": "desk/17", "leaseDurationSeconds": 1},
    }  # fmt: skip
    cluster.kubectl("apply", "--filename", "-", text=json.dumps(lease))
    with pytest.raises(
        PlatformError, match=f"the namespace '{namespace}' is in use: the deployment other is in it"
    ):
        PLATFORM.deploy(config_for(cluster, namespace=namespace), context)


def test_never_ready_is_a_timeout(cluster: Any, context: DeployContext) -> None:
    config = config_for(cluster, ready={"http": "/resolve?name=no.such.name.invalid", "timeout": "8s"})
    with (
        deployed(config, context, ready=False) as deployment,
        pytest.raises(
            ReadinessTimeout, match=r"app-0 at http://.* was not ready within 8 s; its pods are, but GET"
        ),
    ):
        deployment.wait_ready(cancelled=lambda: None)
