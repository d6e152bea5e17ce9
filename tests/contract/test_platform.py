"""The contract of platforms: what the campaign relies on, checked for every implementation.

To add a platform: add a function below that yields a `Subject`, and make this pass.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from support import fake_knative, servers
from support.fake_cloud_run import PROJECT, REGION, fake_cloud_run, write_credentials
from support.fake_cloud_run import Script as CloudRunScript
from support.fake_cluster import FakeCluster, FakeServer
from support.fake_openwhisk import fake_openwhisk
from support.fake_platform import FakeConfig, FakePlatform
from support.openwhisk_script import KEY as OPENWHISK_KEY
from support.openwhisk_script import Script as OpenWhiskScript
from towtank.errors import Interrupted, PlatformError, ReadinessTimeout
from towtank.platforms import registry
from towtank.platforms.base import DeployContext, KeepsSecrets, Platform, ProbesAfterRun, WritesLogs

SECRET = "correct-horse-battery-staple"


@dataclass
class Subject:
    """A platform under test.

    Parameters
    ----------
    platform : Platform
    config : callable
        Makes a valid config of it, with these keys changed.
    never_ready : dict
        Keys that make it never become ready, within a second.
    secret : dict
        Keys that use the secret of the variable SUBJECT_SECRET; empty when the platform has none.
    address : str
        What addresses of its instances begin with.
    """

    platform: Platform
    config: Callable[..., Any]
    never_ready: dict[str, Any]
    secret: dict[str, Any]
    address: str = "http://127.0.0.1:"


def local(request: pytest.FixtureRequest) -> Subject:
    request.getfixturevalue("engine")
    base = {"platform": "local", "command": "python http_app.py", "replicas": 2, "ready": {"http": "/health"}}
    return Subject(
        registry.create("local"),
        lambda **keys: registry.config_model("local").model_validate({**base, **keys}),
        {"command": "python http_app.py --silent", "ready": {"http": "/health", "timeout": "500ms"}},
        {"command": "python http_app.py --say {env.SUBJECT_SECRET}", "env": {"KEY": "{env.SUBJECT_SECRET}"}},
    )


def external(request: pytest.FixtureRequest) -> Subject:
    url = request.getfixturevalue("http_server")
    base = {"platform": "external", "url": url, "ready": {"http": "/health"}}
    return Subject(
        registry.create("external"),
        lambda **keys: registry.config_model("external").model_validate({**base, **keys}),
        {"ready": {"http": "/nowhere", "timeout": "300ms"}},
        {"headers": {"authorization": "Bearer {env.SUBJECT_SECRET}"}},
    )


def kubernetes(request: pytest.FixtureRequest) -> Subject:
    """Against an API server in memory; tests/cluster runs the same against a real one."""
    app = urlsplit(request.getfixturevalue("http_server"))
    server = request.getfixturevalue("fake_server")
    server.cluster.node_port = app.port
    kubeconfig = server.write_kubeconfig(request.getfixturevalue("tmp_path") / "kubeconfig")
    base = {
        "platform": "kubernetes", "context": "fake", "kubeconfig": str(kubeconfig),
        "manifests": ["manifests/app.yaml"], "ready": {"http": "/health"},
    }  # fmt: skip
    return Subject(
        registry.create("kubernetes"),
        lambda **keys: registry.config_model("kubernetes").model_validate({**base, **keys}),
        {"ready": {"http": "/nowhere", "timeout": "500ms"}},
        {"headers": {"authorization": "Bearer {env.SUBJECT_SECRET}"}},
    )


def knative(request: pytest.FixtureRequest) -> Subject:
    """Against an API server in memory that has Knative, too."""
    app = urlsplit(request.getfixturevalue("http_server"))
    server = request.getfixturevalue("fake_server")
    server.cluster.node_port = app.port
    fake_knative.install(server.cluster)
    request.addfinalizer(lambda: fake_knative.uninstall(server.cluster))
    kubeconfig = server.write_kubeconfig(request.getfixturevalue("tmp_path") / "kubeconfig")
    base = {
        "platform": "knative", "context": "fake", "kubeconfig": str(kubeconfig),
        "functions": {"app": {"image": "registry.testbed/hello:1"}}, "ready": {"http": "/health"},
    }  # fmt: skip
    return Subject(
        registry.create("knative"),
        lambda **keys: registry.config_model("knative").model_validate({**base, **keys}),
        {"ready": {"http": "/nowhere", "timeout": "500ms"}},
        {"headers": {"authorization": "Bearer {env.SUBJECT_SECRET}"}},
    )


def openwhisk(request: pytest.FixtureRequest) -> Subject:
    """Against an OpenWhisk in memory."""
    start = request.getfixturevalue("start")
    url, script = fake_openwhisk(start)
    request.getfixturevalue("monkeypatch").setenv("SUBJECT_KEY", OPENWHISK_KEY)
    request.addfinalizer(lambda: _nothing_left(script))
    base = {
        "platform": "openwhisk", "url": url, "auth": "{env.SUBJECT_KEY}",
        "actions": {"hello": {"code": "action.js", "web": True}}, "ready": {"http": "/health"},
    }  # fmt: skip
    return Subject(
        registry.create("openwhisk"),
        lambda **keys: registry.config_model("openwhisk").model_validate({**base, **keys}),
        {"ready": {"http": "/nowhere", "timeout": "300ms"}},
        {"headers": {"authorization": "Bearer {env.SUBJECT_SECRET}"}},
    )


def _nothing_left(script: OpenWhiskScript) -> None:
    assert script.left() == []


def cloud_run(request: pytest.FixtureRequest) -> Subject:
    """Against a Cloud Run in memory."""
    start, monkeypatch = request.getfixturevalue("start"), request.getfixturevalue("monkeypatch")
    app = request.getfixturevalue("http_server")
    url, script = fake_cloud_run(start, CloudRunScript(app=app, looks=0))
    credentials = write_credentials(request.getfixturevalue("tmp_path") / "credentials.json", url)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(credentials))
    monkeypatch.setattr("towtank.platforms.cloud_run.deployment.POLLED_EVERY_S", 0.01)
    monkeypatch.setattr("towtank.platforms.cloud_run.api.POLLED_EVERY_S", 0.01)
    request.addfinalizer(lambda: _no_services_left(script))
    base = {
        "platform": "cloud_run", "project": PROJECT, "region": REGION, "endpoint": url,
        "services": {"hello": {"image": "europe-docker.pkg.dev/p/r/hello"}}, "ready": {"http": "/health"},
    }  # fmt: skip
    return Subject(
        registry.create("cloud_run"),
        lambda **keys: registry.config_model("cloud_run").model_validate({**base, **keys}),
        {"ready": {"http": "/nowhere", "timeout": "500ms"}},
        {"headers": {"authorization": "Bearer {env.SUBJECT_SECRET}"}},
    )


def _no_services_left(script: CloudRunScript) -> None:
    assert script.services == {}


def fake(request: pytest.FixtureRequest) -> Subject:
    return Subject(
        FakePlatform(),
        lambda **keys: FakeConfig.model_validate({"platform": "fake", **keys}),
        {"ready": False},
        {},
    )


@pytest.fixture
def fake_server() -> Iterator[FakeServer]:
    with FakeServer(FakeCluster()) as server:
        yield server
        left = {key for key in server.cluster.store if key[0] not in ("nodes", "namespaces")}
        assert left == set()
        assert {thing["metadata"]["name"] for thing in server.cluster.all("namespaces")} == {
            "default",
            "kube-system",
        }


@pytest.fixture
def start() -> Iterator[Callable[[Any], Any]]:
    with servers.serving() as begin:
        yield begin


@pytest.fixture(
    params=[local, external, kubernetes, knative, openwhisk, cloud_run, fake],
    ids=lambda subject: subject.__name__,
)
def subject(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Subject]:
    monkeypatch.setenv("SUBJECT_SECRET", SECRET)
    return request.param(request)


def never() -> None:
    """Nobody cancels."""


def test_every_registered_platform_is_tested_here() -> None:
    assert set(registry.PLATFORMS) <= {
        one.__name__ for one in (local, external, kubernetes, knative, openwhisk, cloud_run)
    }


def test_it_has_the_name_it_is_known_by(subject: Subject) -> None:
    assert subject.platform.name == subject.config().platform


def test_config_is_frozen_and_strict(subject: Subject) -> None:
    config = subject.config()
    with pytest.raises(ValueError, match="frozen"):
        config.platform = "other"
    with pytest.raises(ValueError, match="Extra inputs"):
        subject.config(no_such_key=1)


def test_a_stored_config_reads_back_the_same(subject: Subject) -> None:
    config = subject.config()
    assert type(config).model_validate_json(config.model_dump_json(by_alias=True)) == config


def test_check_finds_nothing_wrong_and_changes_nothing(subject: Subject, context: DeployContext) -> None:
    before = sorted(context.root.iterdir())
    assert list(subject.platform.check(subject.config())) == []
    assert list(subject.platform.check(subject.config(), context.root)) == []
    assert sorted(context.root.iterdir()) == before
    assert not context.data_dir.exists()
    assert not context.log_dir.exists()


def test_life_of_a_deployment(subject: Subject, context: DeployContext) -> None:
    config = subject.config()
    deployment = subject.platform.deploy(config, context)
    try:
        deployment.wait_ready(cancelled=never)
        targets = deployment.targets
        assert tuple(targets) == tuple(config.target_names())
        for name, target in targets.items():
            assert target.name == name
            assert target.instances
            for instance in target.instances:
                assert instance.url.startswith(subject.address)
                assert not instance.url.endswith("/")
                assert (instance.pid is None) == (instance.start_ticks is None)
        names = [i.name for t in targets.values() for i in t.instances]
        assert len(set(names)) == len(names)
        assert list(deployment.events()) == []
    finally:
        logs = deployment.remove()
    assert list(deployment.remove()) == list(logs)
    assert list(deployment.events()) == []
    assert {log.instance for log in logs if "pod" not in log.facts} <= set(names)
    for log in logs:
        assert log.path.is_file()
        assert 0 <= log.bytes_kept <= log.bytes_written
    assert subject.platform.sweep(context.token) == 0


def test_logs_can_be_looked_at_while_it_lives(subject: Subject, context: DeployContext) -> None:
    """What is there while it lives is there at its end: the same files, no smaller."""
    deployment = subject.platform.deploy(subject.config(), context)
    try:
        deployment.wait_ready(cancelled=never)
        before = {log.path: log for log in deployment.logs()} if isinstance(deployment, WritesLogs) else {}
        for log in before.values():
            assert log.path.is_file()
            assert log.path.parent == context.log_dir
            assert log.path.with_name(log.path.name + ".times").is_file()
    finally:
        after = {log.path: log for log in deployment.remove()}
    assert before.keys() <= after.keys()
    assert all(log.bytes_written <= after[path].bytes_written for path, log in before.items())


def test_what_never_becomes_ready_is_said_clearly(subject: Subject, context: DeployContext) -> None:
    deployment = subject.platform.deploy(subject.config(**subject.never_ready), context)
    try:
        with pytest.raises(ReadinessTimeout, match="was not ready within") as caught:
            deployment.wait_ready(cancelled=never)
    finally:
        deployment.remove()
    assert "app-0" in caught.value.message
    assert caught.value.hint
    assert isinstance(caught.value, PlatformError)


def test_waiting_can_be_cancelled(subject: Subject, context: DeployContext) -> None:
    deployment = subject.platform.deploy(subject.config(**subject.never_ready), context)

    def stop() -> None:
        raise Interrupted("the user asked to stop")

    try:
        with pytest.raises(Interrupted):
            deployment.wait_ready(cancelled=stop)
    finally:
        deployment.remove()


def test_it_can_be_removed_before_it_is_ready(subject: Subject, context: DeployContext) -> None:
    deployment = subject.platform.deploy(subject.config(), context)
    deployment.remove()
    deployment.remove()


def test_events_may_be_asked_for_from_another_thread(subject: Subject, context: DeployContext) -> None:
    deployment = subject.platform.deploy(subject.config(), context)
    problems: list[BaseException] = []
    done = threading.Event()

    def ask() -> None:
        try:
            while not done.is_set():
                deployment.events()
                deployment.describe()
        except BaseException as error:  # noqa: BLE001
            problems.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        deployment.wait_ready(cancelled=never)
    finally:
        deployment.remove()
        done.set()
        thread.join()
    assert problems == []


def test_description_is_json_and_tells_no_secret(subject: Subject, context: DeployContext) -> None:
    deployment = subject.platform.deploy(subject.config(**subject.secret), context)
    try:
        deployment.wait_ready(cancelled=never)
        text = json.dumps(deployment.describe())
        if subject.secret:
            assert isinstance(deployment, KeepsSecrets)
            assert deployment.mask(f"a {SECRET} b") == "a *** b"
    finally:
        logs = deployment.remove()
    assert SECRET not in text
    assert SECRET not in json.dumps(deployment.describe())
    assert all(SECRET not in log.path.read_text() for log in logs)
    assert deployment.describe()["platform"] == subject.platform.name


@pytest.mark.parametrize(
    "subject",
    [local, external, kubernetes, knative, openwhisk, cloud_run],
    indirect=True,
    ids=lambda subject: subject.__name__,
)
def test_errors_tell_no_secret(
    subject: Subject, context: DeployContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {**subject.secret, "ready": {"http": "/nowhere", "timeout": "300ms"}}
    deployment = subject.platform.deploy(subject.config(**keys), context)
    try:
        with pytest.raises(ReadinessTimeout) as caught:
            deployment.wait_ready(cancelled=never)
    finally:
        deployment.remove()
    assert SECRET not in caught.value.message + str(caught.value.hint)

    monkeypatch.delenv("SUBJECT_SECRET")
    assert any(
        "SUBJECT_SECRET" in problem for problem in subject.platform.check(subject.config(**subject.secret))
    )
    with pytest.raises(PlatformError, match="not set in the environment: SUBJECT_SECRET"):
        subject.platform.deploy(subject.config(**subject.secret), context)


def test_sweeping_what_is_not_there_is_harmless(subject: Subject) -> None:
    assert subject.platform.sweep("test-no-such-deployment") == 0


def test_an_external_deployment_that_went_away_is_an_event(
    http_server: str, context: DeployContext, request: pytest.FixtureRequest
) -> None:
    config = registry.config_model("external").model_validate({"platform": "external", "url": http_server})
    deployment = registry.create("external").deploy(config, context)
    deployment.wait_ready(cancelled=never)
    assert isinstance(deployment, ProbesAfterRun)
    deployment.probe()
    assert list(deployment.events()) == []
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{http_server}/crash", trust_env=False)
    while not deployment.events():  # its socket outlives its answer for a moment
        deployment.probe()
    (event,) = deployment.events()
    assert (event.kind, event.instance) == ("unreachable", "app-0")
    assert f"app-0 at {http_server} no longer answers TCP connection" in event.message


def test_secrets_of_headers_reach_the_target(
    http_server: str, context: DeployContext, monkeypatch: Any
) -> None:
    monkeypatch.setenv("SUBJECT_SECRET", SECRET)
    config = registry.config_model("external").model_validate(
        {"platform": "external", "url": http_server, "headers": {"x-key": "k {env.SUBJECT_SECRET}"}}
    )
    deployment = registry.create("external").deploy(config, context)
    assert deployment.targets["app"].headers == {"x-key": f"k {SECRET}"}
    assert deployment.describe()["headers"] == {"x-key": "k ***"}


def test_path_of_root_is_optional_in_check(subject: Subject, tmp_path: Path) -> None:
    assert isinstance(list(subject.platform.check(subject.config(), tmp_path)), list)
