"""Which cluster the tests of this folder speak to: the testbed, or one that was named explicitly.

`TOWTANK_CONTEXT` (with `KUBECONFIG`) names a context of another cluster, and `TOWTANK_TEST_IMAGE` the image of
`testbed/go/cmd/hello` as that cluster can pull it. Without them it is the testbed, brought up when it is not up, and
taken down at the end when these tests brought it up. A current context that nobody named is never used.

Workers of pytest-xdist share it: what disturbs others, breaks a part of the cluster or measures is marked `alone`.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed import closure, components, images, knative_parts
from testbed.settings import REGISTRY, Folders

from support.cluster import Cluster, named_cluster, run_testbed, testbed_cluster, why_not_possible
from support.cluster_app import SUPPORT
from support.machine import picture
from support.peers import found_or_skipped
from support.sharing import once, shared_folder
from support.static_engine import static_engine
from towtank.errors import EngineError
from towtank.load import find_engine
from towtank.platforms import edge_proxy
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes import control

UNMARKED_TIMEOUT_S = 300
"""For one test: others want the machine, too."""
LEFT = "namespaces,pods,daemonsets,deployments,services,configmaps,secrets"
_WAS_UP, _YES, _NO = "testbed-was-up", "yes", "no"
_TAKE_IT_DOWN = {"foreign_testbed_is_down", "goes_down"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take the testbed down come last, so that the others have one between them."""
    items.sort(key=lambda item: not _TAKE_IT_DOWN.isdisjoint(getattr(item, "fixturenames", ())))
    for item in items:
        if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(UNMARKED_TIMEOUT_S))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What these tests brought up goes down again, when the last worker of pytest-xdist has ended."""
    factory = getattr(session.config, "_tmp_path_factory", None)
    if factory is None or hasattr(session.config, "workerinput"):
        return
    said = shared_folder(factory) / _WAS_UP
    if said.exists() and said.read_text("utf-8") == _NO and why_not_possible() == "":
        done = run_testbed("down")
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def was_up(tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Whether somebody's testbed was up before these tests; if not, none is afterwards."""

    def ask() -> str:
        return _YES if run_testbed("status").returncode == 0 else _NO

    return once(tmp_path_factory, _WAS_UP, ask) == _YES


@pytest.fixture(scope="session")
def testbed_is_up(was_up: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The testbed, brought up with two nodes where it was not up."""

    def bring_up() -> str:
        if not was_up:
            done = run_testbed("up", "--nodes", "2")
            assert done.returncode == 0, done.stderr
        return _YES

    once(tmp_path_factory, "testbed-is-up", bring_up)


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster that was named, or the testbed."""
    context = os.environ.get("TOWTANK_CONTEXT")
    if context:
        return named_cluster(context)
    if reason := why_not_possible():
        pytest.skip(reason)
    request.getfixturevalue("testbed_is_up")
    return testbed_cluster()


@pytest.fixture(scope="session")
def before_knative(was_up: bool) -> dict[str, object] | None:
    """The machine before a testbed with Knative was brought up here; None where it was up."""
    return None if was_up else picture()


@pytest.fixture(scope="session")
def with_knative(was_up: bool, before_knative: dict[str, object] | None) -> Cluster:
    """The testbed, with Knative."""
    if os.environ.get("TOWTANK_CONTEXT") and not was_up:
        pytest.skip("another cluster was named, and these tests are about the testbed's own Knative")
    if reason := why_not_possible():
        pytest.skip(reason)
    if not (Folders.from_environment().programs / knative_parts.BUILT).exists():
        pytest.skip(
            "Knative is not built; `python -m testbed build --knative` builds it (minutes the first time)"
        )
    if not was_up:
        done = run_testbed("up", "--knative")
        if "and knative" in done.stderr or "knative=False" in done.stderr:
            pytest.skip(
                "other tests brought the testbed up without Knative; run `pytest tests/cluster -m knative`"
            )
        assert done.returncode == 0, done.stderr
    cluster = testbed_cluster()
    if not cluster.kubectl("get", "namespace", "knative-serving", "--ignore-not-found"):
        pytest.skip("the testbed is up without Knative; `make testbed-down testbed-up KNATIVE=1`")
    return cluster


@pytest.fixture
def goes_down(with_knative: Cluster, before_knative: dict[str, object] | None) -> dict[str, object]:
    """The machine as it was before; for the last test of those with Knative, which takes the testbed down."""
    assert with_knative.is_testbed
    if before_knative is None:
        pytest.skip("a testbed was up before; `make testbed-down` lets this test compare")
    return before_knative


@pytest.fixture(scope="session")
def pushed_engine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The engine of this checkout, static where that is built, where the testbed's registry has it."""

    def push() -> str:
        recipe = closure.load_engine(static_engine() or find_engine(), secrets.token_hex(4))
        return pushed(recipe, tmp_path_factory.mktemp("image"))

    return once(tmp_path_factory, "engine-image", push)


def pushed(recipe: images.Recipe, folder: Path) -> str:
    """Name of an image that was packed and pushed to the testbed's registry."""
    images.push(images.pack(recipe, folder), components.REGISTRY_ADDRESS)
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
    assert cluster.marked(chosen, LEFT) == []


@pytest.fixture(scope="session")
def pushed_toxiproxy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Toxiproxy of this machine, where the testbed's registry has it."""
    program = Path(found_or_skipped(edge_proxy.PROGRAM))

    def push() -> str:
        files = {"/toxiproxy": program, **closure.libraries(program)}
        recipe = images.Recipe(f"toxiproxy:{secrets.token_hex(4)}", files, ("/toxiproxy",))
        return pushed(recipe, tmp_path_factory.mktemp("image"))

    return once(tmp_path_factory, "toxiproxy-image", push)


@pytest.fixture
def toxiproxy_image(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """An image of Toxiproxy that the cluster can pull."""
    return named_or_pushed(cluster, request, "Toxiproxy", "TOWTANK_TEST_TOXIPROXY_IMAGE", "pushed_toxiproxy")


@pytest.fixture
def no_route(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods' own addresses cannot be reached from here: orders and records have to find another way."""

    def refuse(host: str, port: int) -> socket.socket:
        no_way = OSError(errno.EHOSTUNREACH, "No route to host")
        raise EngineError(f"{host}:{port} cannot be reached: No route to host") from no_way

    monkeypatch.setattr(control, "connected", refuse)


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
    return pushed(recipe, tmp_path)


@pytest.fixture
def foreign_testbed_is_down(was_up: bool) -> None:
    """For tests that take the testbed up and down: not under somebody's feet, and not elsewhere."""
    if os.environ.get("TOWTANK_CONTEXT"):
        pytest.skip("another cluster was named; this test is about the testbed's own life")
    if reason := why_not_possible():
        pytest.skip(reason)
    if was_up:
        pytest.skip("a testbed is up; `make testbed-down` lets this test take it up and down")
