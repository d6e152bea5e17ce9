"""Ports that are free, and what an instance is started with."""

from __future__ import annotations

import random
import socket
import sys
from pathlib import Path

import pytest

from towtank.errors import PlatformError
from towtank.platforms import launch, ports
from towtank.platforms.base import DeployContext
from towtank.platforms.local_config import LocalConfig
from towtank.platforms.masking import Secrets


def test_free_ports_lie_outside_the_ephemeral_range_and_are_held() -> None:
    with ports.reserve_free(random.Random(1)) as first, ports.reserve_free(random.Random(1)) as second:
        low, high = ports.free_range()
        assert low <= first.port <= high
        assert first.port != second.port, "the same wish, but the first one has it"
        with pytest.raises(OSError, match="in use"), socket.socket() as other:
            other.bind(("127.0.0.1", first.port))
        first.release()
        with socket.create_server(("127.0.0.1", first.port)):
            pass


def test_ephemeral_range_decides_where_free_ports_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "range"
    monkeypatch.setattr(ports, "_EPHEMERAL_RANGE", path)
    for text, expected in {
        "32768\t60999\n": (10240, 32767),
        "1024 60000": (60001, 65535),
        "1024 65535": (10240, 65535),
        "nonsense": (10240, 32767),
    }.items():
        path.write_text(text)
        assert ports.free_range() == expected


def test_a_fixed_port_can_be_had_when_nobody_listens() -> None:
    with ports.reserve_free() as held:
        port = held.port
    assert ports.fixed_port_problem(port) is None
    with socket.create_server(("0.0.0.0", port)):
        assert "is in use by" in str(ports.fixed_port_problem(port))
        with pytest.raises(PlatformError, match=f"port {port} is in use"):
            ports.reserve_fixed(port)


def test_ports_taken_before_a_failure_are_released() -> None:
    with ports.reserve_free() as held:
        port = held.port
    with socket.create_server(("127.0.0.1", port + 1)):
        config = LocalConfig.model_validate(
            {"platform": "local", "command": "a", "port": port, "replicas": 2}
        )
        with pytest.raises(PlatformError, match=str(port + 1)):
            launch.plan_instances(config.resolved())
        assert ports.fixed_port_problem(port) is None


@pytest.fixture
def context(tmp_path: Path) -> DeployContext:
    return DeployContext("d", "t", tmp_path / "data", tmp_path / "logs", tmp_path, {"db": tmp_path / "db"})


def launches(
    context: DeployContext, environment: dict[str, str] | None = None, **keys: object
) -> list[launch.Launch]:
    config = LocalConfig.model_validate({"platform": "local", **keys})
    planned = launch.plan_instances(config.resolved())
    try:
        return launch.prepare(planned, context, Secrets(config.secret_names(), environment))
    finally:
        launch.release(planned)


def test_python_means_the_interpreter_that_runs_towtank(context: DeployContext) -> None:
    (word,) = launches(context, command=["python", "-c", "python"])
    assert list(word.request.argv) == [sys.executable, "-c", "python"]
    (placeholder,) = launches(context, command="{python} -V")
    assert placeholder.request.argv[0] == sys.executable


def test_secrets_are_started_with_and_not_shown(context: DeployContext) -> None:
    (one,) = launches(context, {"KEY": "s3cret"}, command="a --key={env.KEY}", env={"K": "{env.KEY}"})
    assert list(one.request.argv) == ["a", "--key=s3cret"]
    assert one.request.env["K"] == "s3cret"
    assert one.shown_command == ("a", "--key=***")
    assert one.shown_env == {"K": "***"}


def test_an_unknown_fixture_is_refused_with_the_known_names(context: DeployContext) -> None:
    with pytest.raises(
        PlatformError, match=r"'d', instance app-0: unknown placeholder \{fixture.bd\}.*fixture.db"
    ):
        launches(context, command="a {fixture.bd}")


def test_env_of_the_file_wins_over_port_and_inherited_ones(context: DeployContext) -> None:
    (one,) = launches(context, command="a", env={"PORT": "x{port}", "PATH": "/opt"})
    assert one.request.env["PORT"] == f"x{one.planned.port}"
    assert one.request.env["PATH"] == "/opt"


def test_run_values_serve_hooks_too(context: DeployContext) -> None:
    values = launch.run_values(context)
    assert values["fixture.db"] == str(context.fixtures["db"])
    assert set(values) == {"data", "root", "python", "fixture.db"}
