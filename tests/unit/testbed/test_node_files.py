"""What a component is told to read is there, on its own node, for its owner only, and says the right thing."""

from __future__ import annotations

import json
import os
import re
import ssl
from pathlib import Path

import pytest
from testbed import certificates, components, node_files
from testbed.settings import INSIDE_CONFIG, NAME, REGISTRY, Folders, Options

OPTIONS = Options(nodes=2, hpa_sync_s=5, kwok=True)
INSIDE = re.compile(rf"{INSIDE_CONFIG}/([A-Za-z0-9_./-]+)")


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Folders:
    made = Folders(tmp_path_factory.mktemp("testbed"))
    certificates.make(made, OPTIONS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_files, "cni_folder", lambda: "/usr/lib/cni")
        for node in OPTIONS.all_nodes():
            node_files.write(made.node(node) / "etc", node, OPTIONS)
    return made


@pytest.fixture(autouse=True)
def all_programs_are_there(monkeypatch):
    monkeypatch.setattr(components, "find", lambda program: f"/usr/bin/{program}")


@pytest.mark.parametrize("node", OPTIONS.all_nodes(), ids=lambda node: node.name)
def test_every_file_that_is_named_exists_on_that_node(folders, node):
    own = folders.node(node) / "etc"
    named = {
        name
        for component in components.of_node(node, OPTIONS)
        for word in component.command
        for name in INSIDE.findall(word)
    }
    for name in ("kubelet.json", "proxy.json", "containerd.toml"):
        named |= set(INSIDE.findall((own / name).read_text("utf-8")))
    assert {"kubelet.kubeconfig", "ca.crt", "cni"} <= named
    assert [name for name in sorted(named) if not (own / name).exists()] == []


def test_only_the_first_node_has_the_control_plane_and_its_keys(folders):
    first, second = OPTIONS.all_nodes()
    assert {c.name for c in components.of_node(second, OPTIONS)} == {"containerd", "kubelet", "kube-proxy"}
    assert (folders.node(first) / "etc" / "ca.key").exists()
    assert not list((folders.node(second) / "etc").glob("ca.key"))


def test_kwok_runs_beside_the_control_plane_where_it_was_asked_for():
    first = OPTIONS.all_nodes()[0]
    (kwok,) = [c for c in components.of_node(first, OPTIONS) if c.name == "kwok"]
    assert f"--kubeconfig={INSIDE_CONFIG}/kwok.kubeconfig" in kwok.command
    assert "kwok" not in {c.name for c in components.of_node(first, Options())}
    assert "kwok" not in certificates.users(Options())


def test_keys_and_tokens_are_their_owners_own(folders):
    private = [
        *folders.root.rglob("*.key"), *folders.root.rglob("*kubeconfig"), *folders.root.rglob("tokens.csv")
    ]  # fmt: skip
    assert len(private) > 10
    assert [path for path in private if path.stat().st_mode & 0o077] == []


def test_the_kubeconfig_names_the_testbeds_context_and_authority(folders):
    config = json.loads(folders.kubeconfig.read_text("utf-8"))
    assert config["current-context"] == NAME
    ssl.create_default_context(cadata=(folders.state / "certificates" / "ca.crt").read_text("utf-8"))
    token = config["users"][0]["user"]["token"]
    rows = (folders.state / "certificates" / "tokens.csv").read_text("utf-8").splitlines()
    assert [row.split(",")[3] for row in rows if row.startswith(token)] == ['"system:masters"']


def test_nodes_offer_together_what_the_machine_has(folders):
    kept_back = 0
    for node in OPTIONS.all_nodes():
        kubelet = json.loads((folders.node(node) / "etc" / "kubelet.json").read_text("utf-8"))
        kept_back += int(kubelet["systemReserved"]["cpu"].removesuffix("m"))
    assert kept_back == len(os.sched_getaffinity(0)) * 1000


def test_images_come_from_the_registry_and_nowhere_else(folders):
    hosts = folders.node(OPTIONS.all_nodes()[1]) / "etc" / "certs.d"
    assert [path.name for path in hosts.iterdir()] == [REGISTRY]
    assert (hosts / REGISTRY / "hosts.toml").read_text("utf-8").count(components.REGISTRY_ADDRESS) == 2
    for manifest in (Path(certificates.__file__).parent / "manifests").glob("*.yaml"):
        images = re.findall(r"image: (\S+)", manifest.read_text("utf-8"))
        assert images
        assert all(image.startswith("$REGISTRY/") for image in images)


def test_the_autoscalers_period_is_passed_on():
    (manager,) = [
        c for c in components.of_node(OPTIONS.all_nodes()[0], OPTIONS) if c.name == "kube-controller-manager"
    ]
    assert "--horizontal-pod-autoscaler-sync-period=5s" in manager.command
