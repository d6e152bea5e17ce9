"""The contract of faults: what a platform says it can do, it does to real instances, and it can be undone.

To add a fault to a platform: name it in its `PlatformKind`, and make this pass.
"""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from support.repeated import repeated
from towtank.errors import PlatformError
from towtank.faults import registry
from towtank.faults.base import Order
from towtank.faults.disk import NAME
from towtank.faults.options import LEAST_LEFT_BYTES
from towtank.platforms import base
from towtank.platforms import registry as platforms
from towtank.platforms.base import DeployContext, Undo
from towtank.platforms.local import LocalPlatform
from towtank.platforms.local_config import LocalConfig
from towtank.platforms.local_deployment import LocalDeployment
from towtank.telemetry.control_group import ControlGroup

NEEDS = {
    "kill": (base.KillsInstances, base.HasVictims),
    "stop": (base.StopsInstances, base.HasVictims),
    "cpu": (base.LimitsCpu, base.HasVictims),
    "disk": (base.HasDataFolder,),
    **dict.fromkeys(("delay", "drop", "abort", "partition"), (base.HasEdges, base.HasVictims)),
}
"""Powers that a fault asks for."""


@pytest.fixture
def deployment(engine: Path, context: DeployContext) -> Iterator[LocalDeployment]:
    platform = platforms.create("local")
    assert isinstance(platform, LocalPlatform)
    keys = {"platform": "local", "command": "python http_app.py", "replicas": 2, "ready": {"http": "/health"}}
    made = platform.deploy(LocalConfig.model_validate(keys), context)
    try:
        made.wait_ready(cancelled=lambda: None)
        yield made
    finally:
        made.remove()


def begin(
    deployment: LocalDeployment, kind: str, *names: str, comes_back: bool = True, **options: Any
) -> Undo:
    return registry.create(kind).begin(deployment, order_of(kind, *names, comes_back=comes_back, **options))


def order_of(kind: str, *names: str, comes_back: bool = True, **options: Any) -> Order:
    told = registry.config_model(kind).model_validate(options)
    return Order(kind, "app", names, told, 60.0 if comes_back else None)


def answers(deployment: LocalDeployment, index: int = 0, timeout_s: float = 20) -> bool:
    url = deployment.targets["app"].instances[index].url
    try:
        return httpx.get(f"{url}/health", trust_env=False, timeout=timeout_s).is_success
    except httpx.HTTPError:
        return False


def wait_for(condition: Callable[[], bool], what: str, longest_s: float = 20) -> None:
    until = time.monotonic() + longest_s
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


@pytest.mark.parametrize("name", platforms.names())
def test_a_platform_knows_the_faults_that_it_names(name: str) -> None:
    kind = platforms.kind(name)
    assert set(kind.faults) <= set(registry.names())
    assert kind.no_faults


def test_a_deployment_has_the_powers_that_its_platform_names(deployment: LocalDeployment) -> None:
    for fault in platforms.kind("local").faults:
        assert all(isinstance(deployment, power) for power in NEEDS[fault]), fault


def test_a_killed_instance_is_gone_and_comes_back_where_it_was(deployment: LocalDeployment) -> None:
    before = deployment.targets["app"].instances[0]
    undo = begin(deployment, "kill", "app-0")
    wait_for(lambda: state(before.pid or 0) == "gone", "it is dead")
    assert not answers(deployment)
    assert answers(deployment, 1), "the other is not touched"
    undo()
    wait_for(lambda: answers(deployment), "it answers again")
    after = deployment.targets["app"].instances[0]
    assert (after.name, after.url) == (before.name, before.url)
    assert after.pid != before.pid
    assert deployment.events() == [], "what we killed did not crash"


def test_an_instance_may_be_asked_before_it_is_killed(deployment: LocalDeployment) -> None:
    pid = deployment.targets["app"].instances[0].pid or 0
    begin(deployment, "kill", "app-0", comes_back=False, grace="5s")
    wait_for(lambda: state(pid) == "gone", "it ended by itself")
    guard = deployment._guard  # how it ended is told nowhere else
    assert guard.wait_gone("app-0", 20)
    (ended,) = guard.exits()
    assert ended.signal == signal.SIGTERM


def test_a_stopped_instance_stands_still_until_it_may_go_on(deployment: LocalDeployment) -> None:
    pid = deployment.targets["app"].instances[0].pid or 0
    undo = begin(deployment, "stop", "app-0")
    wait_for(lambda: state(pid) == "T", "it is stopped")
    assert not answers(deployment, timeout_s=0.3)
    undo()
    assert answers(deployment)
    assert state(pid) in "SR"


@repeated
def burnt(deployment: LocalDeployment, index: int, seconds: float, least: float, most: float) -> None:
    """CPU that an instance takes when it wants all of a core, as a share of one."""
    group = ControlGroup(deployment.targets["app"].instances[index].cgroup)
    url = deployment.targets["app"].instances[index].url
    httpx.get(f"{url}/burn?{seconds + 1}", trust_env=False, timeout=20)
    begun, before = time.monotonic(), group.cpu_ns() or 0
    time.sleep(seconds)
    used = ((group.cpu_ns() or 0) - before) / 1e9 / (time.monotonic() - begun)
    time.sleep(1.5)
    assert least <= used <= most


@pytest.mark.alone
def test_cpu_is_taken_away_and_given_back(deployment: LocalDeployment) -> None:
    undo = begin(deployment, "cpu", "app-0", cores="100m")
    burnt(deployment, 0, 1.0, 0.0, 0.2)
    undo()
    burnt(deployment, 0, 1.0, 0.25, 1.5)


def test_the_disk_is_filled_by_so_much_and_emptied(
    deployment: LocalDeployment, context: DeployContext
) -> None:
    undo = begin(deployment, "disk", size="3MiB", leave="256MiB")
    file = context.data_dir / NAME
    assert file.stat().st_size == 3 * 2**20
    assert file.stat().st_blocks * 512 >= 3 * 2**20, "room is really taken"
    undo()
    assert not file.exists()


def test_the_reserve_of_a_disk_is_never_touched(
    deployment: LocalDeployment, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = LEAST_LEFT_BYTES + 5 * 2**20
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    order = order_of("disk", size="1TiB", leave="0")
    undo = registry.create("disk").begin(deployment, order)
    assert order.facts == {"written_bytes": 5 * 2**20}, "what was written, not what was asked for"
    assert (context.data_dir / NAME).stat().st_size == 5 * 2**20
    undo()
    free = LEAST_LEFT_BYTES
    with pytest.raises(PlatformError, match="must stay free"):
        begin(deployment, "disk", size="1MiB", leave="0")
    assert not (context.data_dir / NAME).exists()


@pytest.mark.parametrize("folder", ["..", "nowhere", "/tmp"])
def test_only_the_deployments_own_folder_is_filled(deployment: LocalDeployment, folder: str) -> None:
    with pytest.raises(PlatformError, match="is no folder inside of the deployment"):
        begin(deployment, "disk", size="1MiB", folder=folder)


def test_what_is_on_when_a_deployment_is_removed_is_gone_with_it(
    deployment: LocalDeployment, context: DeployContext
) -> None:
    """The fixture's context sees that no process and no control group is left."""
    pids = [instance.pid or 0 for instance in deployment.targets["app"].instances]
    begin(deployment, "stop", "app-0", "app-1")
    wait_for(lambda: all(state(pid) == "T" for pid in pids), "both are stopped")
    deployment.remove()
    assert [state(pid) for pid in pids] == ["gone", "gone"]


def test_without_control_groups_the_platform_says_so_before(
    engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from towtank.platforms import guard
    from towtank.platforms.guard_messages import GuardReady

    platform = platforms.create("local")
    assert isinstance(platform, base.ChecksFaults)
    assert platform.check_faults(["kill", "stop"]) == []
    said = GuardReady(1, 1, "none", "no right to make one")
    monkeypatch.setattr(guard.Guard, "start", lambda _: said)
    assert platform.check_faults(["cpu"]) == [
        "the fault 'cpu' needs control groups, which cannot be had here: no right to make one"
    ]
