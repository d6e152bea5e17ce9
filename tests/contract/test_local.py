"""What the local platform promises beyond the contract: deaths, ports, limits, logs, whole process trees."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support import leftovers
from support.repeated import repeated
from towtank.clock import RunClock
from towtank.errors import PlatformError, ReadinessTimeout
from towtank.platforms import registry
from towtank.platforms.base import DeployContext, SystemEvent
from towtank.platforms.local import LocalPlatform
from towtank.platforms.local_config import LocalConfig
from towtank.platforms.local_deployment import LocalDeployment
from towtank.telemetry.base import ObserveContext, Sample
from towtank.telemetry.process import ProcessSource

Deploy = Callable[..., LocalDeployment]


def config(**keys: Any) -> LocalConfig:
    base = {"platform": "local", "ready": {"http": "/health", "timeout": "10s"}}
    if "components" in keys:
        base = {"platform": "local"}
    elif "command" not in keys:
        base["command"] = "python http_app.py"
    return LocalConfig.model_validate({**base, **keys})


@pytest.fixture
def deploy(engine: Path, context: DeployContext) -> Iterator[Deploy]:
    made: list[LocalDeployment] = []

    def start(*, wait: bool = True, **keys: Any) -> LocalDeployment:
        platform = registry.create("local")
        assert isinstance(platform, LocalPlatform)
        made.append(platform.deploy(config(**keys), context))
        if wait:
            made[-1].wait_ready(cancelled=lambda: None)
        return made[-1]

    yield start
    for deployment in made:
        deployment.remove()


def get(deployment: LocalDeployment, path: str, *, index: int = 0, target: str = "app") -> str:
    url = deployment.targets[target].instances[index].url
    return httpx.get(f"{url}{path}", trust_env=False, timeout=20).text


def provoke(deployment: LocalDeployment, path: str) -> None:
    """Ask for something that the instance does not survive."""
    with pytest.raises(httpx.HTTPError):
        get(deployment, path)


def wait_for_event(deployment: LocalDeployment, timeout_s: float = 10) -> SystemEvent:
    until = time.monotonic() + timeout_s
    while not deployment.events():
        assert time.monotonic() < until, "no event"
        time.sleep(0.01)
    return deployment.events()[0]


# --- coming up -----------------------------------------------------------------------------------------------


def test_dying_before_ready_tells_how_and_its_last_words(deploy: Deploy) -> None:
    deployment = deploy(wait=False, command="python http_app.py --say 'no database' --exit 7")
    with pytest.raises(PlatformError, match=r"app-0 ended before it was ready: exit code 7") as caught:
        deployment.wait_ready(cancelled=lambda: None)
    assert "| no database" in caught.value.message
    assert not isinstance(caught.value, ReadinessTimeout)
    assert "http_app.py" in str(caught.value.hint)


def test_never_ready_tells_what_the_probe_saw_and_its_last_words(deploy: Deploy) -> None:
    ready = {"http": "/health", "timeout": "600ms"}
    deployment = deploy(wait=False, command="python http_app.py --say hi --healthy-in 60", ready=ready)
    with pytest.raises(ReadinessTimeout, match=r"within 600 ms.*GET /health.*saw last: status 503") as caught:
        deployment.wait_ready(cancelled=lambda: None)
    assert "| hi" in caught.value.message


def test_tcp_is_the_probe_when_nothing_is_said(deploy: Deploy) -> None:
    deployment = deploy(ready={"timeout": "10s"})
    assert get(deployment, "/") == "hello"


def test_a_program_that_is_not_there(deploy: Deploy, context: DeployContext) -> None:
    platform = registry.create("local")
    assert "'no-such-program' is not in PATH" in platform.check(config(command="no-such-program"))[0]
    with pytest.raises(PlatformError, match="app-0 could not be started"):
        deploy(wait=False, command="no-such-program")
    assert leftovers.processes(context.token) == []


def test_a_working_folder_that_is_not_there(deploy: Deploy) -> None:
    with pytest.raises(PlatformError, match="working folder 'nowhere' of app-0 is not there"):
        deploy(wait=False, cwd="nowhere")


def test_environment_holds_what_was_said_and_little_else(
    deploy: Deploy, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMETHING_OF_THE_USER", "1")
    deployment = deploy(
        env={
            "WHERE": "{data}|{root}|{fixture.seed}",
            "WHO": "{instance} {index} {port}",
            "N": 5,
            "J": "{{}}",
        },
        replicas=2,
        cwd="..",
        command="python support/http_app.py",
    )
    seen = dict(line.split("=", 1) for line in get(deployment, "/env", index=1).splitlines())
    port = deployment.targets["app"].instances[1].url.rsplit(":", 1)[1]
    assert seen["WHERE"] == f"{context.data_dir}|{context.root}|{context.fixtures['seed']}"
    assert seen["WHO"] == f"app-1 1 {port}"
    assert (seen["N"], seen["J"], seen["PORT"], seen["INSTANCE"]) == ("5", "{}", port, "app-1")
    assert seen["TOWTANK_TOKEN"] == context.token
    assert "SOMETHING_OF_THE_USER" not in seen
    assert get(deployment, "/cwd", index=1) == str(context.root.parent)


def test_components_know_each_other(deploy: Deploy) -> None:
    deployment = deploy(
        components={
            "web": {
                "command": "python http_app.py",
                "env": {"DB": "{url.db}", "DBS": "{urls.db}"},
                "replicas": 3,
            },
            "db": {"command": "python http_app.py", "replicas": 2},
        }
    )
    assert tuple(deployment.targets) == ("web", "db")
    db = [instance.url for instance in deployment.targets["db"].instances]
    for index in range(3):
        seen = get(deployment, "/env", index=index, target="web").splitlines()
        assert f"DB={db[index % 2]}" in seen
        assert f"DBS={','.join(db)}" in seen


# --- ports ---------------------------------------------------------------------------------------------------


def test_a_fixed_port_in_use_names_its_holder(deploy: Deploy, context: DeployContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        expected = rf"port {port} is in use by python\S* \(pid {os.getpid()}\)"
        (problem,) = registry.create("local").check(config(port=port))
        with pytest.raises(PlatformError, match=expected) as caught:
            deploy(wait=False, port=port)
    assert f"component 'app': {caught.value.message}" == problem
    assert "leave `port` out" in str(caught.value.hint)
    assert leftovers.processes(context.token) == []


def test_fixed_ports_follow_each_other_and_can_be_had_again_at_once(deploy: Deploy) -> None:
    from towtank.platforms.ports import reserve_free

    with reserve_free() as held:
        port = held.port
    for _ in range(2):
        deployment = deploy(port=port, replicas=2)
        urls = [instance.url for instance in deployment.targets["app"].instances]
        assert urls == [f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"]
        get(deployment, "/")
        deployment.remove()


def test_a_free_port_that_somebody_else_got_first_is_replaced(deploy: Deploy, tmp_path: Path) -> None:
    deployment = deploy(command=f"python http_app.py --fail-first {tmp_path / 'was-here'}", replicas=2)
    assert deployment.describe()["starts_for_ports"] == 2
    assert get(deployment, "/env", index=1).count("INSTANCE=app-1")
    assert deployment.events() == []


# --- under load ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        ("/crash?3", "crashed", "exit code 3"),
        ("/crash?0", "exited", "exit code 0"),
        ("/die?SEGV", "crashed", "killed by SIGSEGV"),
        ("/die?KILL", "crashed", "killed by SIGKILL"),
    ],
)
def test_a_crash_is_an_event_and_no_error(deploy: Deploy, path: str, kind: str, words: str) -> None:
    deployment = deploy(replicas=2)
    before_ns = time.monotonic_ns()
    provoke(deployment, path)
    event = wait_for_event(deployment)
    assert (event.kind, event.instance) == (kind, "app-0")
    assert words in event.message
    assert before_ns < event.t_ns < time.monotonic_ns()
    assert get(deployment, "/", index=1) == "hello"
    deployment.remove()
    assert deployment.events() == [event]


def limited(deployment: LocalDeployment, name: str) -> None:
    limit = deployment.describe()["instances"][0]["limits"][name]
    if not limit["applied"]:
        pytest.skip(f"this machine cannot limit {name}: {limit['note']}")


@pytest.mark.root
def test_beyond_its_memory_limit_an_instance_is_oom_killed(deploy: Deploy) -> None:
    deployment = deploy(limits={"memory": "48MiB"})
    limited(deployment, "memory")
    provoke(deployment, "/eat?200")
    event = wait_for_event(deployment)
    assert event.kind == "oom_killed"
    assert "its limit is 48 MiB" in event.message


@pytest.mark.root
def test_an_oom_killed_child_is_noticed_though_the_instance_goes_on(deploy: Deploy) -> None:
    deployment = deploy(limits={"memory": "64MiB"})
    limited(deployment, "memory")
    assert get(deployment, "/eat-in-child?200") == str(-signal.SIGKILL)
    event = wait_for_event(deployment)
    assert (event.kind, event.instance) == ("oom_killed", "app-0")
    assert get(deployment, "/") == "hello"
    deployment.remove()
    assert deployment.events() == [event]


def observe(deployment: LocalDeployment, seconds: float) -> list[Sample]:
    source = ProcessSource()
    instances = deployment.targets["app"].instances
    source.start(ObserveContext(RunClock(time.monotonic_ns()), seconds, instances))
    time.sleep(seconds)
    samples = list(source.sample(0))
    source.close()
    return samples


@pytest.mark.root
@repeated
def test_a_cpu_limit_holds_and_its_throttling_is_seen(deploy: Deploy) -> None:
    deployment = deploy(limits={"cpu": "200m"})
    try:
        limited(deployment, "cpu")
        get(deployment, "/burn?30")
        time.sleep(0.3)
        values = {sample.metric: sample.value for sample in observe(deployment, 2.0)}
    finally:
        deployment.remove()  # else what is tried again would find its control group taken
    assert values["cpu_cores"] == pytest.approx(0.2, abs=0.04)
    assert values["cpu_throttled_ratio"] > 0.5
    assert values["cpu_throttled_s_per_s"] > 0.3


def test_limits_that_were_not_asked_for_are_not_described(deploy: Deploy) -> None:
    assert deploy().describe()["instances"][0]["limits"] == {}


def test_nice_and_cpus_are_applied_or_explained(deploy: Deploy) -> None:
    deployment = deploy(nice=5, cpus=[min(os.sched_getaffinity(0))])
    (instance,) = deployment.describe()["instances"]
    pid = instance["pid"]
    assert instance["limits"]["nice"] == {"asked": 5, "applied": True, "note": ""}
    assert os.getpriority(os.PRIO_PROCESS, pid) == 5
    assert len(os.sched_getaffinity(pid)) == 1
    (problem,) = registry.create("local").check(config(cpus=[4095]))
    assert "no CPU 4095" in problem


# --- going ---------------------------------------------------------------------------------------------------


def test_a_daemon_with_another_parent_and_session_is_ended_too(
    deploy: Deploy, context: DeployContext
) -> None:
    deployment = deploy(stop={"grace": "200ms"})
    pid = int(get(deployment, "/children"))
    assert pid in leftovers.processes(context.token)
    deployment.remove()
    assert not Path(f"/proc/{pid}").exists()


def test_what_ignores_the_signal_is_killed_after_its_grace(deploy: Deploy) -> None:
    deployment = deploy(command="python http_app.py --ignore-term", stop={"signal": "TERM", "grace": "300ms"})
    begun = time.monotonic()
    deployment.remove()
    assert 0.3 <= time.monotonic() - begun < 8, "not the ten seconds of a stop without a grace of its own"


def test_logs_are_kept_up_to_a_bound_and_counted_beyond_it(deploy: Deploy) -> None:
    deployment = deploy(log_limit="64KiB")
    for _ in range(4):
        get(deployment, "/print?100000")
    (log,) = deployment.remove()
    assert log.bytes_written == 400_000
    assert log.bytes_kept == 65_536
    text = log.path.read_bytes()
    assert text.startswith(b"x" * 65_536)
    assert len(text) < 65_536 + 200, "a note says that more was written"


def test_a_guard_that_is_killed_is_an_error_and_leaves_nothing(
    deploy: Deploy, context: DeployContext
) -> None:
    deployment = deploy(replicas=2)
    assert deployment.guard_pid is not None
    os.kill(deployment.guard_pid, signal.SIGKILL)
    with pytest.raises(PlatformError, match=r"the guard .* is gone"):
        wait_for_event(deployment)
    deployment.remove()
    assert leftovers.processes(context.token) == []


def test_sweep_ends_what_a_killed_guard_has_left(deploy: Deploy, context: DeployContext) -> None:
    deployment = deploy(replicas=2)
    assert deployment.guard_pid is not None
    os.kill(deployment.guard_pid, signal.SIGKILL)
    registry.create("local").sweep(context.token)
    assert leftovers.processes(context.token) == []
    assert leftovers.control_groups(context.token) == []
