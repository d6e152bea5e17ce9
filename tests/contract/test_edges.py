"""Faults on edges, with the real Toxiproxy: calls are delayed, dropped, aborted and cut, then come through."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.peers import found_or_skipped
from support.repeated import repeated
from towtank.errors import PlatformError
from towtank.faults import registry
from towtank.faults.base import Order
from towtank.faults.edges import edges_of
from towtank.faults.model import Fault
from towtank.platforms import edge_proxy
from towtank.platforms import registry as platforms
from towtank.platforms.base import LOAD, DeployContext, Edge, Undo
from towtank.platforms.local import LocalPlatform
from towtank.platforms.local_config import LocalConfig
from towtank.platforms.local_deployment import LocalDeployment

FRONT = "python http_app.py"
EDGES = (Edge(LOAD, "app"), Edge("front", "app"))


@pytest.fixture
def toxiproxy(monkeypatch: pytest.MonkeyPatch) -> str:
    found = found_or_skipped(edge_proxy.PROGRAM)
    monkeypatch.setenv(edge_proxy.VARIABLE, found)
    return found


@pytest.fixture
def deploy(engine: Path, context: DeployContext) -> Iterator[Callable[..., LocalDeployment]]:
    made: list[LocalDeployment] = []

    def start(*edges: Edge) -> LocalDeployment:
        platform = platforms.create("local")
        assert isinstance(platform, LocalPlatform)
        ready = {"http": "/health"}
        components = {
            "app": {"command": FRONT, "replicas": 2, "ready": ready},
            "front": {"command": FRONT, "env": {"BACK": "{urls.app}"}, "ready": ready},
        }
        config = LocalConfig.model_validate({"platform": "local", "components": components})
        made.append(platform.deploy(config, replace(context, edges=edges)))
        made[-1].wait_ready(cancelled=lambda: None)
        return made[-1]

    yield start
    for deployment in made:
        deployment.remove()


def begin(deployment: LocalDeployment, kind: str, *names: str, **options: Any) -> Undo:
    told = registry.config_model(kind).model_validate(options)
    return registry.create(kind).begin(deployment, Order(kind, "app", names or ("app-0",), told, 60.0))


def url(deployment: LocalDeployment, index: int = 0) -> str:
    return deployment.targets["app"].instances[index].url


def ask(address: str, timeout_s: float = 5.0) -> float:
    """Seconds that an answer takes."""
    begun = time.monotonic()
    httpx.get(f"{address}/", trust_env=False, timeout=timeout_s).raise_for_status()
    return time.monotonic() - begun


@pytest.mark.slow
@pytest.mark.usefixtures("toxiproxy")
def test_calls_go_through_the_proxy_and_only_where_an_edge_is(deploy: Callable[..., LocalDeployment]) -> None:
    deployment = deploy(Edge("front", "app"))
    front = deployment.targets["front"].instances[0].url
    seen = dict(line.split("=", 1) for line in httpx.get(f"{front}/env", trust_env=False).text.splitlines())
    given = seen["BACK"].split(",")
    direct = [instance.url for instance in deployment.targets["app"].instances]
    assert len(given) == 2
    assert not set(given) & set(direct)
    assert all(ask(address) < 5 for address in (*given, *direct))
    instances = {one["name"] for one in deployment.describe()["instances"]}
    assert instances == {"app-0", "app-1", "front-0"}, "the proxy is none of them"


@pytest.mark.slow
@pytest.mark.usefixtures("toxiproxy")
def test_a_delay_comes_and_goes_and_meets_only_its_instance(deploy: Callable[..., LocalDeployment]) -> None:
    deployment = deploy(*EDGES)

    @repeated
    def quick(index: int) -> None:
        assert ask(url(deployment, index)) < 0.25

    undo = begin(deployment, "delay", delay="300ms")
    assert ask(url(deployment)) >= 0.29
    quick(1)
    undo()
    quick(0)


@pytest.mark.slow
@pytest.mark.usefixtures("toxiproxy")
@pytest.mark.parametrize(("kind", "error"), [
    ("drop", httpx.ReadTimeout), ("partition", httpx.ReadTimeout), ("abort", httpx.TransportError),
])  # fmt: skip
def test_calls_fail_and_then_come_through_again(
    deploy: Callable[..., LocalDeployment], kind: str, error: type[Exception]
) -> None:
    deployment = deploy(*EDGES)
    with httpx.Client(base_url=url(deployment), trust_env=False, timeout=1.0) as standing:
        standing.get("/").raise_for_status()
        undo = begin(deployment, kind, "app-0")
        with pytest.raises(error):
            standing.get("/")
    with pytest.raises(error):
        ask(url(deployment), 1.0)
    assert ask(url(deployment, 1)) < 5, "the other instance is not touched"
    undo()
    assert ask(url(deployment)) < 5


@pytest.mark.slow
@pytest.mark.usefixtures("toxiproxy")
def test_an_edge_is_not_the_other_edge(deploy: Callable[..., LocalDeployment]) -> None:
    deployment = deploy(*EDGES)
    undo = begin(deployment, "abort", **{"from": "front"})
    assert ask(url(deployment)) < 5, "the load's own way is another"
    undo()
    with pytest.raises(PlatformError, match="no call from nobody to app-0"):
        begin(deployment, "abort", **{"from": "nobody"})


@pytest.mark.slow
@pytest.mark.usefixtures("toxiproxy")
def test_a_share_meets_some_connections(deploy: Callable[..., LocalDeployment]) -> None:
    deployment = deploy(*EDGES)
    begin(deployment, "abort", share="50%")
    failed = 0
    for _ in range(60):
        try:
            ask(url(deployment))
        except httpx.TransportError:
            failed += 1
    assert 10 <= failed <= 50, "a fair coin leaves this range once in ten million times"


@pytest.mark.slow
@pytest.mark.usefixtures("toxiproxy")
def test_a_proxy_that_dies_is_a_lost_platform(deploy: Callable[..., LocalDeployment]) -> None:
    deployment = deploy(*EDGES)
    assert deployment.events() == []
    deployment._guard.stop(edge_proxy.INSTANCE, signal="KILL", grace_s=0)
    deployment._guard.wait_gone(edge_proxy.INSTANCE, 10)
    with pytest.raises(PlatformError, match="the proxy of the edges has ended"):
        deployment.events()


def test_without_toxiproxy_it_is_said_before(monkeypatch: pytest.MonkeyPatch, engine: Path) -> None:
    monkeypatch.setenv(edge_proxy.VARIABLE, "no-such-toxiproxy")
    platform = platforms.create("local")
    assert isinstance(platform, LocalPlatform)
    (said,) = platform.check_faults(["delay", "kill"])
    assert "'toxiproxy-server', which disturbs edges, is not there" in said
    assert "go build" in said
    assert platform.check_faults(["kill"]) == []


def test_edges_of_all_treatments_are_one_list() -> None:
    def fault(kind: str, **keys: Any) -> Fault:
        return Fault.model_validate({"kind": kind, "at": "1s", "for": "1s", **keys})

    faults = [
        fault("none"), fault("kill"), fault("abort"), fault("delay", options={"delay": "1s", "from": "front"}),
        fault("partition", target="db", options={"from": "app"}), fault("drop"),
    ]  # fmt: skip
    assert edges_of(faults, "app") == (Edge(LOAD, "app"), Edge("front", "app"), Edge("app", "db"))
