"""The bench that campaigns are tested on."""

from __future__ import annotations

import json
import sys
import time

import pytest

from support.campaign_bench import Bench, install_fake_engine
from support.campaign_platform import JournalConfig
from towtank.campaign import machine
from towtank.platforms import registry


def quiet_machine():
    """A machine on which nothing else happens; the real one may be busy with other tests."""
    return machine.Moment(
        time.monotonic_ns(),
        busy_s=0.0,
        steal_s=0.0,
        own_s=0.0,
        tree_s=0.0,
        wall_offset_ns=0,
        boot_offset_ns=0,
    )


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """Where the fake engine keeps the tables that it has written before."""
    return tmp_path_factory.mktemp("tables")


@pytest.fixture
def bench(tmp_path, tables, monkeypatch):
    monkeypatch.setenv("TOWTANK_ENGINE", str(install_fake_engine(tmp_path)))
    monkeypatch.setenv("TOWTANK_FAKE_TABLES", str(tables))
    monkeypatch.setenv("TOWTANK_FAKE_PATH", json.dumps(sys.path))
    behaviour = tmp_path / "engine.json"
    monkeypatch.setenv("TOWTANK_FAKE", str(behaviour))
    monkeypatch.setitem(
        registry.PLATFORMS,
        "journal",
        registry.PlatformKind(JournalConfig, "support.campaign_platform:JournalPlatform", "for tests"),
    )
    monkeypatch.setattr("towtank.campaign.settle.SHORTEST_LOOK_S", 0.01)
    monkeypatch.setattr("towtank.load.engine.EngineProcess.start_ahead_s", 0.01)
    monkeypatch.setattr("towtank.campaign.machine.now", quiet_machine)
    root = tmp_path / "study"
    root.mkdir()
    made = Bench(root, behaviour)
    made.engine()
    return made
