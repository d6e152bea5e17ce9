"""What `scaling` of a local deployment promises: real processes under the real guard, a stand-in for the ingress.

The real ingress is in tests/integration/test_scaling.py.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support import leftovers
from towtank.clock import RunClock
from towtank.errors import PlatformError, ReadinessTimeout
from towtank.platforms import registry
from towtank.platforms.base import DeployContext
from towtank.platforms.local import LocalPlatform
from towtank.platforms.local_config import LocalConfig
from towtank.platforms.local_deployment import LocalDeployment
from towtank.platforms.scaling import ingress
from towtank.telemetry.base import ObserveContext
from towtank.telemetry.process import ProcessSource
from towtank.telemetry.scaling import ScalingSource

FAKE = Path(__file__).parents[1] / "support" / "fake_ingress.py"
Deploy = Callable[..., LocalDeployment]
FAST = {"window": "6s", "scale_to_zero_grace_period": "1s", "target": 2, "target_utilization_percentage": 100}


@pytest.fixture(autouse=True)
def fake_ingress(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A script that runs the stand-in with this interpreter, whatever PATH says."""
    program = tmp_path / "towtank-ingress"
    program.write_text(
        f'#!/bin/sh\nFAKE_INGRESS="$(cat {tmp_path}/mode 2>/dev/null)" exec {sys.executable} {FAKE} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("TOWTANK_INGRESS", str(program))


def config(**keys: Any) -> LocalConfig:
    base = {
        "platform": "local",
        "command": "python http_app.py",
        "ready": {"http": "/health", "timeout": "20s"},
    }
    return LocalConfig.model_validate({**base, **keys})


@pytest.fixture
def deploy(engine: Path, context: DeployContext) -> Iterator[Deploy]:
    made: list[LocalDeployment] = []

    def start(*, wait: bool = True, **keys: Any) -> LocalDeployment:
        made.append(LocalPlatform().deploy(config(**keys), context))
        if wait:
            made[-1].wait_ready(cancelled=lambda: None)
        return made[-1]

    yield start
    for deployment in made:
        deployment.remove()


def url(deployment: LocalDeployment) -> str:
    (instance,) = deployment.targets["app"].instances
    return instance.url


def get(deployment: LocalDeployment, path: str = "/") -> httpx.Response:
    return httpx.get(f"{url(deployment)}{path}", trust_env=False, timeout=60)


def until(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def running(deployment: LocalDeployment) -> list[str]:
    return [instance.name for instance in deployment.instances_now()]


def test_from_zero_a_request_waits_for_an_instance(deploy: Deploy) -> None:
    deployment = deploy(scaling={"kpa": {**FAST, "initial_scale": 0}})
    assert running(deployment) == []
    first = get(deployment)
    assert (first.status_code, first.headers["x-instance"], first.headers["x-towtank-cold"]) == (
        200,
        "app-0",
        "true",
    )
    assert int(first.headers["x-towtank-held-us"]) > 0
    assert get(deployment).headers["x-towtank-cold"] == "false"


def test_processes_are_followed_as_they_come_and_go(deploy: Deploy) -> None:
    deployment = deploy(scaling={"kpa": {**FAST, "initial_scale": 0}})
    (ingress,) = deployment.targets["app"].instances
    source = ProcessSource()
    source.start(ObserveContext(RunClock(time.monotonic_ns()), 1.0, (ingress,), deployment=deployment))
    assert get(deployment).status_code == 200
    list(source.sample(1))  # rates need two readings
    assert {sample.instance for sample in source.sample(2)} == {"app", "app-0"}
    deployment.kill_instance("app-0", grace_s=0)
    until(lambda: running(deployment) == ["app-1"], "nobody took its place")
    list(source.sample(3))
    assert {sample.instance for sample in source.sample(4)} == {"app", "app-1"}
    assert "vanished" not in {event.kind for event in source.events()}


@pytest.mark.slow
def test_up_under_load_and_back_to_zero(deploy: Deploy) -> None:
    """One deployment through its whole life; telemetry looks on."""
    deployment = deploy(scaling={"kpa": {**FAST, "initial_scale": 0, "max_scale": 3}})
    source, process = ScalingSource(), ProcessSource()
    looking = ObserveContext(RunClock(time.monotonic_ns()), 1.0, (), deployment=deployment)
    source.start(looking)
    process.start(looking)
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            get(deployment, "/work?100")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(running(deployment)) == 3, "it never had three instances")
        seen = {sample.instance for sample in process.sample(1)} | {s.instance for s in process.sample(2)}
        assert len(seen & {"app-0", "app-1", "app-2"}) >= 2
    finally:
        done.set()
        for thread in threads:
            thread.join()
    until(lambda: running(deployment) == [], "it never went back to zero")
    samples = [*source.sample(looking.clock.now_us()), *source.close()]
    steps = {(event.instance, event.kind) for event in source.events()}
    for kind in ("created", "started", "ready", "first_request", "terminating", "gone"):
        assert ("app-0", f"pod_{kind}") in steps
    ready = [s.value for s in sorted(samples) if (s.metric, s.instance) == ("replicas_ready", "")]
    assert (max(ready), ready[-1]) == (3, 0)
    assert max(s.value for s in samples if s.metric == "autoscaler_panic_mode") == 1
    assert {s.metric for s in samples} >= {
        "autoscaler_stable",
        "autoscaler_desired",
        "ingress_held",
        "replicas_desired",
    }
    facts = source.facts()
    assert facts["answered_by_instances"]["200"] > 0
    assert facts["answered_by_ingress"] == {}


def test_an_instance_that_dies_is_replaced_and_told_as_one_of_several(deploy: Deploy) -> None:
    deployment = deploy(scaling={"fixed": 2})
    assert running(deployment) == ["app-0", "app-1"]
    victim = deployment.instances_now()[0]
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    until(lambda: running(deployment) == ["app-1", "app-2"], "nobody took its place")
    (event,) = deployment.events()
    assert (event.kind, event.instance, event.detail["of"]) == ("crashed", "app-0", 2)


def test_faults_hit_instances_that_are_there_and_the_autoscaler_mends(deploy: Deploy) -> None:
    deployment = deploy(scaling={"fixed": 1})
    assert deployment.victims("app") == ["app-0"]
    deployment.kill_instance("app-0", grace_s=0)
    until(lambda: deployment.victims("app") == ["app-1"], "nobody took its place")
    deployment.restart_instance("app-0")  # it was replaced already
    assert deployment.events() == []


def test_settled_means_back_at_the_start(deploy: Deploy) -> None:
    deployment = deploy(scaling={"kpa": {**FAST, "initial_scale": 0}})
    assert deployment.unsettled(cpu_below=None, replicas=True) == deployment.above_zero() == ""
    get(deployment)
    assert deployment.above_zero() == "app has 1 instance"
    assert "at the start there were 0" in deployment.unsettled(cpu_below=None, replicas=True)
    assert deployment.unsettled(cpu_below=0.1, replicas=False) == ""


def test_overload_is_answered_by_the_ingress_and_told(deploy: Deploy) -> None:
    deployment = deploy(
        scaling={
            "openwhisk": {
                "pool_memory": "256MiB",
                "concurrent_invocations": 2,
                "invocations_per_minute": None,
            }
        }
    )
    source = ScalingSource()
    source.start(ObserveContext(RunClock(time.monotonic_ns()), 1.0, (), deployment=deployment))
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(get(deployment, "/work?300").status_code))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 200, 429, 429, 429, 429]
    assert running(deployment) == ["app-0"]
    journal = deployment.scaling_journal()
    assert journal is not None
    until(
        lambda: any("ingress_made_concurrent" in one.values for one in journal.numbers_after(0)), "never said"
    )
    assert sum(s.value for s in source.close() if s.metric == "ingress_made_concurrent") == 4
    assert source.facts()["answered_by_ingress"] == {"concurrent": 4}
    (finding,) = [event for event in source.events() if event.kind.startswith("ingress_answered")]
    assert finding.message.startswith("the ingress, not an instance, answered 4 requests with 429")
    assert "advice" in finding.detail


def test_what_is_not_scaled_is_never_at_zero(deploy: Deploy) -> None:
    assert "this deployment has none" in deploy().above_zero()


def test_it_says_what_it_emulates(deploy: Deploy) -> None:
    said = deploy(scaling={"hpa": {"concurrency": 5, "max_replicas": 3}}).describe()["scaling"]["app"]
    assert said["emulates"] == "Kubernetes (HPA)"
    assert said["settings"]["hpa"]["max_replicas"] == 3
    assert said["instances_made"] == 1


def test_targets_know_the_headers_of_the_ingress(deploy: Deploy) -> None:
    target = deploy(scaling={"fixed": 1}).targets["app"]
    assert (target.instance_header, target.cold_header) == ("x-instance", "x-towtank-cold")


def test_other_components_are_given_the_address_of_the_ingress(engine: Path, context: DeployContext) -> None:
    ready = {"http": "/health", "timeout": "20s"}
    app = {"command": "python http_app.py", "ready": ready, "scaling": {"fixed": 2}}
    web = {"command": "python http_app.py", "ready": ready, "env": {"BACK": "{urls.app}"}}
    keys = {"platform": "local", "components": {"web": web, "app": app}}
    deployment = LocalPlatform().deploy(LocalConfig.model_validate(keys), context)
    try:
        deployment.wait_ready(cancelled=lambda: None)
        assert running(deployment) == ["web-0", "app-0", "app-1"]
        env = httpx.get(f"{deployment.targets['web'].instances[0].url}/env", trust_env=False).text
        assert f"BACK={url(deployment)}" in env.splitlines()
    finally:
        deployment.remove()


def test_logs_of_instances_that_went_are_kept(deploy: Deploy) -> None:
    deployment = deploy(scaling={"fixed": 1}, command="python http_app.py --say here")
    deployment.kill_instance("app-0", grace_s=0)
    until(lambda: running(deployment) == ["app-1"], "nobody took its place")
    until(lambda: not deployment.unsettled(cpu_below=None, replicas=True), "it never came up")
    logs = {log.instance: log for log in deployment.remove()}
    assert {name: log.path.read_text() for name, log in logs.items()} == {
        "app-0": "here\n",
        "app-1": "here\n",
    }
    assert {name: log.bytes_written for name, log in logs.items()} == {"app-0": 5, "app-1": 5}


# --- what can be wrong ---------------------------------------------------------------------------------------


def test_an_instance_that_never_answers_its_probe(deploy: Deploy) -> None:
    ready = {"http": "/health", "timeout": "1s"}
    deployment = deploy(
        wait=False, scaling={"fixed": 1}, ready=ready, command="python http_app.py --silent --say hi"
    )
    with pytest.raises(ReadinessTimeout, match="app-0 was not ready within 1 s; GET /health") as caught:
        deployment.wait_ready(cancelled=lambda: None)
    assert "| hi" in caught.value.message


def test_an_instance_that_ends_before_it_is_ready(deploy: Deploy) -> None:
    deployment = deploy(
        wait=False, scaling={"fixed": 1}, command="python http_app.py --say 'no database' --exit 7"
    )
    with pytest.raises(PlatformError, match="app-0 ended before it was ready: exit code 7") as caught:
        deployment.wait_ready(cancelled=lambda: None)
    assert "| no database" in caught.value.message


def test_a_program_that_is_not_there(deploy: Deploy, context: DeployContext) -> None:
    with pytest.raises(PlatformError, match="app-0 could not be started"):
        deploy(wait=False, scaling={"fixed": 1}, command="no-such-program")
    assert leftovers.processes(context.token) == []


@pytest.mark.parametrize(
    ("mode", "words"), [("old", "speaks protocol 99; Towtank speaks 1"), ("mute", "did not come up")]
)
def test_an_ingress_that_is_another(
    deploy: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, words: str
) -> None:
    monkeypatch.setattr(ingress, "READY_TIMEOUT_S", 3.0)
    monkeypatch.setattr(ingress, "CLOSE_TIMEOUT_S", 0.5)
    (tmp_path / "mode").write_text(mode)
    with pytest.raises(PlatformError, match=words):
        deploy(wait=False, scaling={"fixed": 1})


def test_an_ingress_that_is_lost_is_the_instruments_fault(deploy: Deploy) -> None:
    deployment = deploy(scaling={"fixed": 1})
    pid = deployment.targets["app"].instances[0].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    lost: list[PlatformError] = []

    def told() -> list[PlatformError]:
        try:
            deployment.events()
        except PlatformError as error:
            lost.append(error)
        return lost

    until(told, "nobody noticed")
    assert "the ingress of app has ended" in lost[0].message


def test_without_the_program_it_is_said_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, engine: Path
) -> None:
    monkeypatch.setenv("TOWTANK_INGRESS", "/no/such/ingress")
    (problem,) = registry.create("local").check(config(scaling={"fixed": 1}))
    assert "TOWTANK_INGRESS names /no/such/ingress" in problem
