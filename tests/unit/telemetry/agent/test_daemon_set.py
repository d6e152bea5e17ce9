"""Agents in a cluster, as far as that needs none: what the cluster says of nodes, one that is not reached."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.helpers import DeclaredHelpers
from towtank.errors import PlatformError
from towtank.telemetry.agent import daemon_set
from towtank.telemetry.agent.daemon_set import DaemonSet
from towtank.telemetry.agent.options import AgentOptions


def node(name: str, ready: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


def made(helpers: DeclaredHelpers, nodes: list[dict[str, Any]] | None) -> DaemonSet:
    view: Any = SimpleNamespace(api=SimpleNamespace(context="fake"), kubeconfig="", nodes=nodes)
    return DaemonSet(view, AgentOptions(image="engine:1"), helpers.declare("agents"), 1.0)


def test_a_cluster_that_is_not_reached_leaves_no_intent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise PlatformError("the API server does not answer")

    monkeypatch.setattr(daemon_set, "connect", refuse)
    helpers = DeclaredHelpers(tmp_path)
    place = made(helpers, [])
    with pytest.raises(PlatformError, match="does not answer"):
        place.start(0.0)
    assert helpers.open
    place.close()
    assert helpers.open == []
    place.close()  # a second time says nothing more: `remove` of what is not there would fail


def test_a_node_is_what_its_cluster_says(tmp_path: Path):
    nodes = [node("a", "True"), node("b", "False"), node("c", "Unknown")]
    place = made(DeclaredHelpers(tmp_path), nodes)
    assert [place.state(name) for name in "abcd"] == ["ready", "unready", "unready", "gone"]
    assert made(DeclaredHelpers(tmp_path), None).state("a") == "ready", "nodes may not be seen"
