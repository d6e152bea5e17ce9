"""Which cluster the tests of this folder speak to: the testbed, or one that was named explicitly.

`TOWTANK_CONTEXT` (with `KUBECONFIG`) names a context of another cluster, and `TOWTANK_TEST_IMAGE` the image of
`testbed/go/cmd/hello` as that cluster can pull it. Without them it is the testbed, brought up when it is not up, and
taken down at the end when these tests brought it up. A current context that nobody named is never used.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed import closure, components, images
from testbed.settings import REGISTRY, Folders

from support.cluster import Cluster, named_cluster, run_testbed, testbed_cluster, why_not_possible
from support.cluster_app import SUPPORT
from support.peers import found_or_skipped
from support.static_engine import static_engine
from towtank.load import find_engine
from towtank.platforms import edge_proxy
from towtank.platforms.base import DeployContext


@pytest.fixture(scope="session")
def was_up() -> Iterator[bool]:
    """Whether somebody's testbed was up before these tests; if not, none is afterwards."""
    before = run_testbed("status").returncode == 0
    yield before
    if not before and why_not_possible() == "":
        done = run_testbed("down")
        assert done.returncode == 0, done.stderr


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster that was named, or the testbed."""
    context = os.environ.get("TOWTANK_CONTEXT")
    if context:
        return named_cluster(context)
    if reason := why_not_possible():
        pytest.skip(reason)
    if not request.getfixturevalue("was_up"):
        done = run_testbed("up")
        assert done.returncode == 0, done.stderr
    return testbed_cluster()


@pytest.fixture(scope="session")
def pushed_engine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The engine of this checkout, static where that is built, where the testbed's registry has it."""
    recipe = closure.load_engine(static_engine() or find_engine(), secrets.token_hex(4))
    images.push(images.pack(recipe, tmp_path_factory.mktemp("image")), components.REGISTRY_ADDRESS)
    return f"{REGISTRY}/{recipe.name}"


def named_or_pushed(
    cluster: Cluster, request: pytest.FixtureRequest, what: str, variable: str, pushed: str
) -> str:
    """An image that the cluster can pull: the one that was named, or on the testbed the one that a fixture pushes."""
    named = os.environ.get(variable)
    if named is None and not cluster.is_testbed:
        pytest.skip(f"{variable} is not set: an image of {what} that this cluster can pull")
    return named or str(request.getfixturevalue(pushed))


@pytest.fixture
def engine_image(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """An image of the engine that the cluster can pull."""
    return named_or_pushed(cluster, request, "the engine", "TOWTANK_TEST_ENGINE_IMAGE", "pushed_engine")


@pytest.fixture
def context(cluster: Cluster, tmp_path: Path) -> Iterator[DeployContext]:
    """What a deployment of this test alone is made with; nothing that bears its mark is left."""
    token = f"tt-test-{secrets.token_hex(4)}"
    yield DeployContext(
        "shop", token, tmp_path / "data", tmp_path / "logs", SUPPORT, experiment="cluster tests"
    )
    chosen = f"towtank.dev/token in ({token}, {token}-faults, {token}-edges)"
    for kind in ("namespaces", "pods", "daemonsets", "deployments", "services", "configmaps", "secrets"):
        assert cluster.get(kind, "--all-namespaces", "--selector", chosen)["items"] == [], kind


@pytest.fixture(scope="session")
def pushed_toxiproxy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Toxiproxy of this machine, where the testbed's registry has it."""
    program = Path(found_or_skipped(edge_proxy.PROGRAM))
    files = {"/toxiproxy": program, **closure.libraries(program)}
    recipe = images.Recipe(f"toxiproxy:{secrets.token_hex(4)}", files, ("/toxiproxy",))
    images.push(images.pack(recipe, tmp_path_factory.mktemp("image")), components.REGISTRY_ADDRESS)
    return f"{REGISTRY}/{recipe.name}"


@pytest.fixture
def toxiproxy_image(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """An image of Toxiproxy that the cluster can pull."""
    return named_or_pushed(cluster, request, "Toxiproxy", "TOWTANK_TEST_TOXIPROXY_IMAGE", "pushed_toxiproxy")


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of this test alone."""
    name = f"towtank-test-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=true", "--timeout=120s")


@pytest.fixture
def fresh_image(cluster: Cluster, tmp_path: Path) -> str:
    """An image that no node has yet (on another cluster: the image that was named)."""
    if not cluster.is_testbed:
        return cluster.image
    programs = Folders.from_environment().programs
    (tmp_path / "mark").write_text(secrets.token_hex(8), "utf-8")
    recipe = images.Recipe(
        f"hello:{secrets.token_hex(4)}",
        {"/hello": programs / "hello", "/mark": tmp_path / "mark"},
        ("/hello",),
    )
    images.push(images.pack(recipe, tmp_path), components.REGISTRY_ADDRESS)
    return f"{REGISTRY}/{recipe.name}"


@pytest.fixture
def foreign_testbed_is_down(was_up: bool) -> None:
    """For tests that take the testbed up and down: not under somebody's feet, and not elsewhere."""
    if os.environ.get("TOWTANK_CONTEXT"):
        pytest.skip("another cluster was named; this test is about the testbed's own life")
    if reason := why_not_possible():
        pytest.skip(reason)
    if was_up:
        pytest.skip("a testbed is up; `make testbed-down` lets this test take it up and down")
