"""Rights: what is asked of the API server, what is said when one is missing, and the manifest that grants them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from support.fake_cluster import FakeCluster, FakeServer, Refusal
from support.fake_telemetry import FakeKubelets
from towtank.cli.main import build_app
from towtank.platforms.kubernetes import rights
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.platform import KubernetesPlatform

DOCS = Path(__file__).parents[4] / "docs" / "kubernetes.md"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(build_app(list(arguments)), list(arguments))


def doctor(*arguments: str) -> list[dict[str, str]]:
    done = run("doctor", "--json", *arguments)
    assert done.exit_code == 0, done.output
    found: list[dict[str, str]] = json.loads(done.stdout)
    return found


def test_doctor_says_what_a_cluster_is_and_which_rights_are_missing(
    cluster: FakeCluster, make: Callable[..., KubernetesConfig]
) -> None:
    kubelets = FakeKubelets(cluster)
    where = ["--context", "fake", "--kubeconfig", str(make().kubeconfig)]
    found = {one["name"]: one for one in doctor(*where)}
    assert {name: one["state"] for name, one in found.items()} == dict.fromkeys(
        ("cluster", "nodes", "metrics", "kubelets", "workers", "rights"), "ok"
    )
    assert "upstream v1.34.4" in found["cluster"]["found"]
    cluster.denied = {("watch", "replicasets")}
    optional = {one["name"]: one for one in doctor(*where)}
    assert (optional["rights"]["state"], optional["right"]["state"]) == ("limited", "limited")
    kubelets.refusals["/proxy/"] = Refusal(503, "ServiceUnavailable", "dial tcp: connection refused")
    unheard = {one["name"]: one for one in doctor(*where)}["kubelets"]
    assert (unheard["state"], "connection refused" in unheard["found"]) == ("limited", True)
    kubelets.refusals.clear()
    cluster.denied = {("create", "namespaces")}
    lacking = [one for one in doctor(*where) if one["name"] == "right"]
    assert [one["state"] for one in lacking] == ["missing"]
    assert lacking[0]["found"].startswith("create namespaces in the whole cluster")
    cluster.denied = {("create", "leases"), ("update", "leases"), ("get", "services")}
    lacking = [one["found"] for one in doctor(*where) if one["name"] == "right"]
    assert [one.partition(" in the")[0] for one in lacking] == [
        "get services", "create, update leases.coordination.k8s.io", "get services"
    ]  # fmt: skip
    cluster.denied = {("create", "namespaces")}
    cluster.put("namespaces", "", {"kind": "Namespace", "metadata": {"name": "mine"}})
    assert all(one["state"] == "ok" for one in doctor(*where, "--namespace", "mine"))
    (gone,) = [one for one in doctor(*where, "--namespace", "yours") if one["state"] != "ok"]
    assert (gone["name"], gone["state"]) == ("namespace", "missing")
    assert "there is no namespace 'yours'" in gone["found"]


def test_what_stands_in_brackets_is_not_lost_in_the_table(
    cluster: FakeCluster, make: Callable[..., KubernetesConfig]
) -> None:
    cluster.denied = {("get", "nodes/proxy")}
    done = run("doctor", "--context", "fake", "--kubeconfig", str(make().kubeconfig))
    assert "[kubelet]" in done.stdout, done.stdout


def test_logs_are_refused_before_anything_is_created_where_they_may_not_be_read(
    cluster: FakeCluster, make: Callable[..., KubernetesConfig], root: Path
) -> None:
    cluster.denied = {("get", "pods/log")}
    (problem, hint) = KubernetesPlatform().check(make(), root)
    assert "the right to get pods/log in the whole cluster (to keep and count what pods write" in problem
    assert "logs: false" in problem
    assert "doctor" in hint
    assert list(KubernetesPlatform().check(make(logs=False), root)) == []


@pytest.mark.parametrize(
    "helper",
    [
        {"disturber": {"image": "engine:1"}},
        {"edge_proxy": {"image": "toxiproxy:1", "engine": "engine:1"}},
    ],
    ids=lambda helper: next(iter(helper)),
)
def test_helpers_that_are_only_reached_through_the_api_server_need_the_right_to_that(
    cluster: FakeCluster, make: Callable[..., KubernetesConfig], root: Path, helper: dict[str, dict[str, str]]
) -> None:
    cluster.denied = {("create", "pods/portforward")}
    assert list(KubernetesPlatform().check(make(**helper), root)) == []
    ((key, about),) = helper.items()
    problems = list(KubernetesPlatform().check(make(**{key: {**about, "control": "port_forward"}}), root))
    assert problems[0].startswith("the right to create pods/portforward in the whole cluster (for orders to")


def test_doctor_takes_no_cluster_by_default(
    make: Callable[..., KubernetesConfig], server: FakeServer
) -> None:
    done = run("doctor", "--kubeconfig", str(make().kubeconfig))
    assert done.exit_code == 2
    (found,) = doctor("--context", "another", "--kubeconfig", str(make().kubeconfig))
    assert found["state"] == "missing"
    assert "there is no context 'another'" in found["found"]


@pytest.mark.parametrize("namespace", [None, "study"])
def test_the_manifest_grants_exactly_what_is_needed(namespace: str | None) -> None:
    documents = list(yaml.safe_load_all(rights.manifest(namespace)))
    granted = {
        (verb, group, resource, one["metadata"].get("namespace", ""))
        for one in documents
        if one["kind"] in ("Role", "ClusterRole")
        for rule in one["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert granted == {(r.verb, r.group, r.resource, r.namespace) for r in rights.needed(namespace)}


def test_the_page_has_these_manifests() -> None:
    text = DOCS.read_text("utf-8")
    assert rights.manifest() in text
    assert rights.manifest("study") in text
