"""Spans from pods: an address that they cannot reach is refused before the first run."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.telemetry.otlp import reach
from towtank.telemetry.otlp.source import OtlpSource


@pytest.mark.parametrize("listen", ["127.0.0.1:4318", "[::1]:4318", "localhost:4318"])
def test_pods_do_not_reach_loopback(listen: str, make: Callable[..., KubernetesConfig], root: Path) -> None:
    (problem,) = OtlpSource().look_ahead_at({"listen": listen}, [make()], root)
    assert f"pods of a cluster do not reach {listen}" in problem
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in problem


@pytest.mark.parametrize("listen", ["10.0.0.5:4318", "0.0.0.0:4318", "tank.example:4318"])
def test_of_other_addresses_nothing_is_known(
    listen: str, make: Callable[..., KubernetesConfig], root: Path
) -> None:
    assert list(OtlpSource().look_ahead_at({"listen": listen}, [make()], root)) == []


def test_processes_of_this_machine_reach_it(root: Path) -> None:
    assert list(OtlpSource().look_ahead_at({}, [object()], root)) == []


def test_the_address_on_the_way_to_the_cluster_is_named(
    make: Callable[..., KubernetesConfig], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Probe(socket.socket):
        def connect(self, place: object) -> None:
            """Sends nothing."""

        def getsockname(self) -> tuple[str, int]:
            return ("10.0.0.5", 1)

    monkeypatch.setattr(reach.socket, "socket", Probe)
    (problem,) = OtlpSource().look_ahead_at({}, [make()], root)
    assert "such as 10.0.0.5:4318, by which this machine reaches the cluster" in problem
