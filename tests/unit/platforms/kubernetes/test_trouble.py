"""What goes wrong in a cluster while a deployment comes up, is watched, or goes: who says it, and in which words."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.fake_cluster import FakeCluster, FakeServer, Refusal, ready_status
from towtank.errors import PlatformError, ReadinessTimeout, RemovalTimeout
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes import client, creating, readiness
from towtank.platforms.kubernetes.client import ApiClient, ApiError, parse_event
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.platforms.kubernetes.platform import KubernetesPlatform

Make = Callable[..., KubernetesConfig]
PLATFORM = KubernetesPlatform()
UNBOUND = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for for seconds, in case it is better soon, is given up at once."""
    monkeypatch.setattr(client, "RETRY_FOR_S", 0.2)
    monkeypatch.setattr(readiness, "FAILURE_AFTER_S", 0.1)


def never() -> None:
    """Nobody cancels."""


# --- while it is watched ------------------------------------------------------------------------------------------


def test_a_lease_that_was_deleted_is_known_at_once(
    cluster: FakeCluster, make: Make, context: DeployContext
) -> None:
    deployment = PLATFORM.deploy(make(), context)
    try:
        deployment.wait_ready(cancelled=never)
        assert list(deployment.events()) == []
        ((_, namespace, name),) = [key for key in cluster.store if key[0] == "leases"]
        cluster.drop("leases", namespace, name)
        with pytest.raises(PlatformError, match=f"the Lease {name} in namespace {namespace} was deleted"):
            deployment.events()
    finally:
        deployment.remove()


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (Refusal(503, "ServiceUnavailable", "shutting down"), "shutting down"),
        (Refusal(401, "Unauthorized", "Unauthorized"), "are not accepted: expired"),
    ],
)
def test_a_silent_watch_is_not_believed(
    cluster: FakeCluster, make: Make, context: DeployContext, refusal: Refusal, words: str
) -> None:
    """Its watches are open and tell nothing; whether anything could be told is asked."""
    deployment = PLATFORM.deploy(make(), context)
    try:
        deployment.wait_ready(cancelled=never)
        cluster.answers = lambda path: refusal if "/leases/" in path else None
        with pytest.raises(PlatformError, match=words):
            deployment.events()
        cluster.answers = lambda _path: None
        assert list(deployment.events()) == []
    finally:
        cluster.answers = lambda _path: None
        deployment.remove()


def test_a_line_that_was_cut_off_begins_the_watch_anew() -> None:
    with pytest.raises(ApiError, match="a line was cut off") as caught:
        parse_event('{"type": "MODIFIED", "object": {"meta')
    assert caught.value.code not in (401, 403, 404, 410), "what ends a watch, or forgets where it was"


# --- while it comes up ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (
            Refusal(
                422, "Invalid", "ValidatingAdmissionPolicy 'few' with binding 'few' denied request: too many"
            ),
            "Deployment/app was refused: .*'few'.* denied request: too many; a policy of the cluster",
        ),
        (
            Refusal(403, "Forbidden", 'violates PodSecurity "restricted:latest"'),
            "Deployment/app was refused: violates PodSecurity .*; a policy of the cluster",
        ),
        (
            Refusal(403, "Forbidden", 'User "dev" cannot create resource "deployments"'),
            "Deployment/app may not be created: .*towtank doctor --context fake",
        ),
    ],
    ids=["policy", "pod-security", "rights"],
)
def test_policies_are_told_from_missing_rights(
    cluster: FakeCluster, make: Make, context: DeployContext, refusal: Refusal, words: str
) -> None:
    cluster.refuses["Deployment/app"] = refusal
    (problem,) = PLATFORM.check(make(), context.root)
    assert re.search(words, problem), problem
    assert ("doctor" in problem) == ("cannot" in refusal.message)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ('pods "app-1" is forbidden: exceeded quota: small', "raise the quota or ask for less"),
        ('admission webhook "policy.example" denied the request', creating.POLICY_HINT),
    ],
)
def test_pods_that_are_refused_are_not_waited_for(
    cluster: FakeCluster, make: Make, context: DeployContext, said: str, hint: str
) -> None:
    deployment = PLATFORM.deploy(make(ready={"timeout": "20s"}), context)
    try:
        ((_, namespace, name),) = [key for key in cluster.store if key[0] == "deployments"]
        refused = {"type": "ReplicaFailure", "status": "True", "message": said}
        status = {"observedGeneration": 1, "readyReplicas": 0, "conditions": [refused]}
        cluster.change("deployments", namespace, name, lambda thing: thing.update(status=status))
        with pytest.raises(PlatformError, match="its pods are refused") as caught:
            deployment.wait_ready(cancelled=never)
        assert said in caught.value.message
        assert caught.value.hint == hint
    finally:
        deployment.remove()


def test_a_volume_that_never_comes_is_not_a_lack_of_nodes(
    cluster: FakeCluster, make: Make, context: DeployContext
) -> None:
    def waits(pod: dict[str, Any]) -> dict[str, Any]:
        found = ready_status(pod)
        found["phase"] = "Pending"
        found["conditions"] = [{"type": "PodScheduled", "status": "False", "message": UNBOUND}]
        found["containerStatuses"] = []
        return found

    cluster.pod_status = waits
    deployment = PLATFORM.deploy(make(ready={"timeout": "0.5s"}), context)
    try:
        with pytest.raises(ReadinessTimeout, match=f"a volume is missing: {UNBOUND}") as caught:
            deployment.wait_ready(cancelled=never)
        assert caught.value.hint == "is there a StorageClass that provides it?"
    finally:
        deployment.remove()


# --- while it goes ----------------------------------------------------------------------------------------------------


def test_pods_that_become_fewer_are_waited_for_and_that_is_told(
    cluster: FakeCluster, make: Make, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of pods take longer than any one thing that is not stuck."""
    deployment = PLATFORM.deploy(make(set={"Deployment/app:spec.replicas": 4}), context)
    place = cluster.all("pods")[0]["metadata"]["namespace"]

    def go_on(_seconds: float) -> None:
        left = [name for kind, within, name in cluster.store if (kind, within) == ("pods", place)]
        if left:
            cluster.drop("pods", place, left[0])
        else:
            cluster.change("namespaces", "", place, lambda thing: thing["metadata"].update(finalizers=[]))
            cluster.remove("namespaces", "", place)

    cluster.change("namespaces", "", place, lambda thing: thing["metadata"].update(finalizers=["kubernetes"]))
    monkeypatch.setitem(creating.delete_all.__kwdefaults__, "timeout_s", 0.0)
    monkeypatch.setitem(creating.delete_all.__kwdefaults__, "sleep", go_on)
    assert deployment.removal_events() == []
    deployment.remove()
    told = [re.sub(r"after .*? (\d+ of)", r"\1", event.message) for event in deployment.removal_events()]
    assert [words.partition(" objects")[0] for words in told] == ["4 of 5", "3 of 4", "2 of 3", "1 of 2"]
    assert {event.kind for event in deployment.removal_events()} == {"removal_slow"}
    assert not [key for key in cluster.store if "towtank" in key[2]]


def test_what_holds_a_namespace_is_said_and_it_goes_when_that_is_gone(
    cluster: FakeCluster, make: Make, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(creating.delete_all.__kwdefaults__, "timeout_s", 0.3)
    deployment = PLATFORM.deploy(make(), context)
    ((_, _, name),) = [key for key in cluster.store if key[0] == "namespaces" and "towtank" in key[2]]
    cluster.change("namespaces", "", name, lambda thing: thing["metadata"].update(finalizers=["a.example/b"]))
    with pytest.raises(RemovalTimeout, match=f"{name} is still there .*finalizers a.example/b") as caught:
        deployment.remove()
    assert "towtank clean" in str(caught.value.hint)
    cluster.change("namespaces", "", name, lambda thing: thing["metadata"].update(finalizers=[]))
    cluster.remove("namespaces", "", name)
    deployment.remove()
    assert not [key for key in cluster.store if "towtank" in key[2]]


# --- credentials ------------------------------------------------------------------------------------------------------


@pytest.fixture
def user(server: FakeServer, tmp_path: Path) -> Callable[..., ApiClient]:
    """A client of the cluster, whose server wants the token `one`, with these credentials."""
    server.token = "one"

    def made(**credentials: Any) -> ApiClient:
        content = yaml.safe_load(server.write_kubeconfig(tmp_path / "kubeconfig").read_text())
        content["users"][0]["user"] = credentials
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(content))
        return ApiClient(find_context("fake", str(tmp_path / "kubeconfig")))

    return made


PRINTS = """\
import json, os, pathlib
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert info["kind"] == "ExecCredential"
token = pathlib.Path(__file__).with_name("token").read_text().strip()
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": {"token": token}}))
"""


@pytest.mark.parametrize("content", ["", "hello world\n", "contexts: [5]\n"])
def test_a_kubeconfig_that_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "kubeconfig").write_text(content)
    with pytest.raises(PlatformError, match=r"kubeconfig cannot be read as a kubeconfig: ") as caught:
        find_context("fake", str(tmp_path / "kubeconfig"))
    assert "object has no attribute" not in caught.value.message, caught.value.message


def test_a_cluster_without_a_server_is_not_looked_for_on_this_machine(
    server: FakeServer, tmp_path: Path
) -> None:
    path = server.write_kubeconfig(tmp_path / "kubeconfig")
    content = yaml.safe_load(path.read_text())
    del content["clusters"][0]["cluster"]["server"]
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(PlatformError, match=r"the cluster '.*' of the context 'fake' in .* has no `server`"):
        find_context("fake", str(path))


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_program_gives_another_token_when_the_first_has_expired(
    server: FakeServer, user: Callable[..., ApiClient], tmp_path: Path, version: str
) -> None:
    (tmp_path / "gives.py").write_text(PRINTS)
    (tmp_path / "token").write_text("one\n")
    program = {
        "apiVersion": f"client.authentication.k8s.io/{version}", "command": sys.executable,
        "args": [str(tmp_path / "gives.py")], "interactiveMode": "Never",
    }  # fmt: skip
    api = user(exec=program)
    assert api.get("/version")
    server.token = "two"
    with pytest.raises(PlatformError, match="are not accepted: expired"):
        api.get("/version")
    (tmp_path / "token").write_text("two\n")
    assert api.get("/version")
    api.close()


def test_a_token_file_is_read_again_and_lies_beside_the_kubeconfig(
    server: FakeServer, user: Callable[..., ApiClient], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("one\n")
    api = user(tokenFile="token")
    assert api.get("/version")
    server.token = "two"
    (tmp_path / "token").write_text("two\n")
    assert api.get("/version")
    api.close()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ({"command": "no-such-program-gives-tokens"}, "No such file or directory: 'no-such-program"),
        ({"command": sys.executable, "args": ["-c", "print('hello')"]}, "no ExecCredential"),
        ({"command": sys.executable, "args": ["-c", "print('{}')"]}, "no ExecCredential"),
        ({"command": sys.executable, "args": ["-c", "exit('log in')"]}, "returned 1: log in"),
    ],
    ids=["missing", "no-json", "no-token", "fails"],
)
def test_a_program_that_gives_no_token_is_said(
    user: Callable[..., ApiClient], program: dict[str, Any], words: str
) -> None:
    api = user(exec={"apiVersion": "client.authentication.k8s.io/v1", **program})
    for ask in (
        lambda: api.get("/version"),
        lambda: api.stream("/version", {}, read_timeout_s=5).__enter__(),
    ):
        with pytest.raises(PlatformError, match=f"(?s)its credentials could not be had: .*{words}") as caught:
            ask()
        assert "kubectl --context fake" in str(caught.value.hint)
    api.close()
