"""Connections to ports of pods through the API server: bytes both ways, ends, and what is said when there is no way."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.fake_cluster import FakeCluster, FakeServer
from towtank.errors import PlatformError
from towtank.platforms.kubernetes.client import ApiClient, ApiError
from towtank.platforms.kubernetes.forwarding import forward
from towtank.platforms.kubernetes.kubeconfig import find_context

MUCH = 3 << 20
"""More than fits into all buffers on the way."""


@pytest.fixture
def api(server: FakeServer, tmp_path: Path) -> Iterator[ApiClient]:
    client = ApiClient(find_context("fake", str(server.write_kubeconfig(tmp_path / "k"))))
    yield client
    client.close()


@contextmanager
def behind(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port that answers the first connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def once() -> None:
            with suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    serve(connection)

        thread = threading.Thread(target=once, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.close()
        thread.join(10)
        assert not thread.is_alive()


def read(connection: socket.socket, count: int) -> bytes:
    found = b""
    connection.settimeout(20)
    while len(found) < count and (piece := connection.recv(1 << 16)):
        found += piece
    return found


def test_both_ways_at_once_nothing_is_lost(cluster: FakeCluster, api: ApiClient) -> None:
    ours, theirs = os.urandom(MUCH), os.urandom(MUCH)
    got: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        sending = threading.Thread(target=connection.sendall, args=(theirs,), daemon=True)
        sending.start()
        got.append(read(connection, MUCH))
        sending.join(20)

    with behind(serve) as port:
        cluster.forwards[7417] = port
        forwarded = forward(api, "default", "worker-0", 7417)
        forwarded.wait_first_words(10)
        # Nobody reads yet what the pod says, and much is sent to it: neither way waits for the other.
        forwarded.connection.settimeout(20)
        forwarded.connection.sendall(ours)
        said = read(forwarded.connection, MUCH)
        assert hashlib.sha256(said).digest() == hashlib.sha256(theirs).digest()
    assert [hashlib.sha256(one).digest() for one in got] == [hashlib.sha256(ours).digest()]
    assert forwarded.connection.recv(1) == b""
    forwarded.connection.close()
    assert forwarded.problem == ""


def test_last_words_arrive_before_the_end(cluster: FakeCluster, api: ApiClient) -> None:
    got: list[bytes] = []
    with behind(lambda connection: got.append(read(connection, MUCH))) as port:
        cluster.forwards[80] = port
        forwarded = forward(api, "default", "worker-0", 80)
        forwarded.connection.sendall(b"finish")
        forwarded.connection.shutdown(socket.SHUT_RDWR)
        forwarded.connection.close()
    assert got == [b"finish"]


def test_a_port_where_nobody_listens(api: ApiClient) -> None:
    forwarded = forward(api, "default", "worker-0", 7417)
    with pytest.raises(
        PlatformError,
        match=r"^port 7417 of pod worker-0 through the API server: error .* connection refused$",
    ):
        forwarded.wait_first_words(10)
    forwarded.connection.close()


def test_a_pod_that_says_nothing(cluster: FakeCluster, api: ApiClient) -> None:
    with behind(lambda connection: [read(connection, 1)]) as port:
        cluster.forwards[7417] = port
        forwarded = forward(api, "default", "worker-0", 7417)
        with pytest.raises(PlatformError, match=r"said nothing within 0.1 s"):
            forwarded.wait_first_words(0.1)
        forwarded.connection.close()


def test_without_the_right_it_is_said_at_once(cluster: FakeCluster, api: ApiClient) -> None:
    cluster.denied.add(("get", "pods"))
    with pytest.raises(ApiError, match="forbidden") as refused:
        forward(api, "default", "worker-0", 7417)
    assert refused.value.code == 403
