"""The way to helpers: found out once for each node, directly or through the API server, and said where none is."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.fake_cluster import FakeCluster, FakeServer
from towtank.errors import EngineError, PlatformError
from towtank.platforms.kubernetes import control as control_module
from towtank.platforms.kubernetes.client import ApiClient
from towtank.platforms.kubernetes.control import Control, Reached
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.platforms.ports import reserve_free

HERE, NOWHERE = "127.0.0.1", "192.0.2.1"


@pytest.fixture
def api(server: FakeServer, tmp_path: Path) -> Iterator[ApiClient]:
    client = ApiClient(find_context("fake", str(server.write_kubeconfig(tmp_path / "k"))))
    yield client
    client.close()


@pytest.fixture
def port(cluster: FakeCluster) -> Iterator[int]:
    """Where a helper greets everybody, and where a port-forward to it leads."""
    with socket.create_server((HERE, 0)) as listening:
        held = []

        def greet() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    held.append(connection)
                    connection.sendall(b"hello")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        number = listening.getsockname()[1]
        cluster.forwards[number] = number
        yield number
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        for connection in held:
            connection.close()


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that were tried directly; to those that are nowhere there is no route."""
    found: list[str] = []
    plain = control_module.connected

    def connected(host: str, port: int) -> socket.socket:
        found.append(host)
        if host == HERE:
            return plain(host, port)
        raise EngineError(f"{host} cannot be reached: No route to host") from OSError(113, "No route to host")

    monkeypatch.setattr(control_module, "connected", connected)
    return found


def pod(node: str, address: str) -> dict[str, Any]:
    return {"metadata": {"name": f"on-{node}"}, "spec": {"nodeName": node}, "status": {"podIP": address}}


def met(reached: Reached) -> str:
    """The way by which its first words came."""
    with reached.connection as connection:
        connection.settimeout(10)
        assert connection.recv(5) == b"hello"
    assert reached.own_address == HERE
    return reached.way


def test_directly_where_that_leads_there(api: ApiClient, port: int, tried: list[str]) -> None:
    assert met(Control(api, "default", port).connect(pod("n1", HERE))) == "direct"
    assert tried == [HERE]


def test_through_the_api_server_where_there_is_no_route_and_no_other_is_tried(
    api: ApiClient, port: int, tried: list[str]
) -> None:
    control = Control(api, "default", port)
    ways = [met(control.connect(pod(node, NOWHERE))) for node in ("n1", "n2")]
    assert ways == ["port_forward", "port_forward"]
    assert tried == [NOWHERE]


def test_a_node_that_was_reached_directly_keeps_its_way(api: ApiClient, port: int, tried: list[str]) -> None:
    """It may be cut off for a while: that is no reason to burden the API server from then on."""
    control = Control(api, "default", port)
    assert met(control.connect(pod("n1", HERE))) == "direct"
    assert met(control.connect(pod("n2", NOWHERE))) == "port_forward"
    with pytest.raises(EngineError, match="No route to host"):
        control.connect(pod("n1", NOWHERE))
    assert met(control.connect(pod("n1", HERE))) == "direct"
    assert met(control.connect(pod("n2", HERE))) == "port_forward"
    assert tried == [HERE, NOWHERE, NOWHERE, HERE]


def test_one_that_refuses_is_there_and_waited_for(api: ApiClient, cluster: FakeCluster) -> None:
    with reserve_free() as free:
        port = free.port
    control = Control(api, "default", port)
    with pytest.raises(EngineError, match="Connection refused"):
        control.connect(pod("n1", HERE))
    begun = time.monotonic()

    def listen() -> None:
        time.sleep(0.5)
        with socket.create_server((HERE, port)) as listening:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"hello")

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    assert control.reach(pod("n1", HERE), lambda: None, met) == "direct"
    assert time.monotonic() - begun >= 0.5
    thread.join(10)


def test_waiting_can_be_cancelled(api: ApiClient, tried: list[str]) -> None:
    def cancelled() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Control(api, "default", 1, "direct").reach(pod("n1", NOWHERE), cancelled, met)
    assert tried == [NOWHERE]


def test_what_is_not_ours_is_tried_anew_and_then_said(
    api: ApiClient, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_module, "_LISTENING_WITHIN_S", 0.4)
    times = []

    def refuse(reached: Reached) -> None:
        reached.connection.close()
        times.append(reached.way)
        raise EngineError("it is none of ours")

    with pytest.raises(EngineError, match="none of ours"):
        Control(api, "default", port).reach(pod("n1", HERE), lambda: None, refuse)
    assert len(times) >= 2


def test_only_the_way_that_is_wanted(api: ApiClient, port: int, tried: list[str]) -> None:
    assert met(Control(api, "default", port, "port_forward").connect(pod("n1", HERE))) == "port_forward"
    assert tried == []
    with pytest.raises(EngineError, match=r"No route to host: a pod's own address has to be reachable") as no:
        Control(api, "default", port, "direct").connect(pod("n1", NOWHERE))
    assert no.value.hint is not None
    assert "control: port_forward" in no.value.hint


def test_where_neither_way_leads_both_are_said(api: ApiClient, tried: list[str]) -> None:
    del tried
    with pytest.raises(EngineError, match=r"No route to host, and port 1 of pod on-n1 .*connection refused"):
        Control(api, "default", 1).connect(pod("n1", NOWHERE))


def test_without_the_right_waiting_will_not_mend_it(api: ApiClient, cluster: FakeCluster, port: int) -> None:
    cluster.denied.add(("get", "pods"))
    with pytest.raises(PlatformError, match=r"a port-forward to pod on-n1: .*forbidden"):
        Control(api, "default", port, "port_forward").reach(pod("n1", HERE), lambda: None, met)
