"""The contract of telemetry sources: what the sampler and the campaign rely on, checked for every implementation.

To add a source: name it in `SUBJECTS`, with a function that gives the options that it needs, and make this pass. A
source that asks somebody else gets a server that answers, here. What is held back until `close` has a part of its own.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support import servers
from support.fake_cloud_run import fake_cloud_run, write_credentials
from support.fake_knative_metrics import KnativeParts
from support.fake_netdata import Script as NetdataScript
from support.fake_netdata import fake_netdata
from support.fake_openwhisk import fake_openwhisk
from support.fake_page import fake_page
from support.fake_prometheus import Script as PrometheusScript
from support.fake_prometheus import fake_prometheus
from support.helpers import DeclaredHelpers
from support.observed_cluster import observed_cluster
from support.on_cloud_run import config as cloud_run_config
from support.on_cloud_run import context as cloud_run_context
from support.on_openwhisk import config as openwhisk_config
from support.on_openwhisk import context as openwhisk_context
from support.openwhisk_script import Ran, record_of
from support.repeated import repeated
from support.telemetry_servers import free_port
from towtank.clock import RunClock
from towtank.errors import TelemetryError
from towtank.platforms.base import Instance
from towtank.platforms.cloud_run.deployment import CloudRunDeployment
from towtank.platforms.cloud_run.platform import CloudRunPlatform
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.openwhisk.deployment import OpenWhiskDeployment
from towtank.platforms.openwhisk.platform import OpenWhiskPlatform
from towtank.platforms.scaling.journal import Journal
from towtank.telemetry import registry
from towtank.telemetry.base import (
    AsksOthers,
    KnowsGaps,
    LooksAtDeployments,
    ObserveContext,
    Sample,
    Source,
    StatesFacts,
    YieldsEvents,
)
from towtank.telemetry.procfs import read_stat
from towtank.telemetry.sampler import Sampler

Start = Callable[[Any], Any]


def prometheus_options(start: Start) -> dict[str, Any]:
    script = PrometheusScript(series={"q": [({"instance": name}, lambda t: 0.5) for name in "ab"]})
    return {"url": fake_prometheus(start, script)[0], "queries": {"busy": {"query": "q", "unit": "ratio"}}}


def netdata_options(start: Start) -> dict[str, Any]:
    script = NetdataScript()
    script.chart("system.cpu", "system.cpu", "percentage", "user", "system")
    return {"url": fake_netdata(start, script)[0], "charts": {"cpu": "system.cpu"}}


SUBJECTS: dict[str, Callable[[Start], dict[str, Any]]] = {
    "host": lambda start: {},
    "process": lambda start: {},
    "calls": lambda start: {"calls": "shop_calls_total", "seconds": "shop_seconds_total"},
    "scaling": lambda start: {},
    "prometheus": lambda start: {**prometheus_options(start), "read": "live"},
    "kubernetes": lambda start: {},
    "kubelet": lambda start: {},
    "metrics-server": lambda start: {},
    "knative": lambda start: {"control": "port_forward"},
    "otlp": lambda start: {"listen": f"127.0.0.1:{free_port()}"},
}
CALLS = [
    'shop_calls_total{from="a",to="b",where="local"} 3',
    'shop_calls_total{from="a",to="c",where="remote"} 5',
    'shop_seconds_total{from="a",to="c",where="remote"} 0.5',
]
IN_CLUSTERS = ("kubernetes", "kubelet", "metrics-server", "knative")
HELD_BACK: dict[str, Callable[[Start], dict[str, Any]]] = {
    "prometheus": prometheus_options,
    "netdata": netdata_options,
    "agent": lambda start: {},
    "openwhisk": lambda start: {"settle": "0"},
    "cloud-monitoring": lambda start: {"settle": "0"},
}
OF_SERVERS = ("prometheus", "netdata")
UNIT = re.compile(
    r"(_bytes|_bytes_per_s|_per_s|_ratio|_cores|_s|_us|_1m)$|^(processes|threads|open_files|restarts)$"
    r"|^(local|remote)_calls(_failed)?$"
    r"|^(nodes|nodes_ready|nodes_used|replicas_[a-z]+|queue_depth)$"
    r"|^(autoscaler|activator|ingress|instances|queue_proxy)_[a-z0-9_]+$"
)
CHEAP_S, CHEAP_WITH_ANSWERS_S = 0.004, 0.015


class Scaled:
    """A deployment that scales one component itself."""

    def __init__(self) -> None:
        self._journal = Journal()
        self._journal.step(0, "app", "app-1", "created")
        self._journal.counts(0, "app", {"replicas_desired": 2, "replicas_ready": 1})

    def scaling_journal(self) -> Journal:
        return self._journal


@pytest.fixture(params=list(SUBJECTS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def source(name: str) -> Source:
    return registry.create(name)


@pytest.fixture(scope="module")
def child() -> Iterator[subprocess.Popen[bytes]]:
    """One that lives as long as these tests, however long a busy machine takes for them, and no longer than pytest."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def activated(start: Start, root: Path) -> OpenWhiskDeployment:
    """A deployment whose actions run while it is looked at, two of them in the same millisecond."""
    url, script = fake_openwhisk(start)
    made = OpenWhiskPlatform().deploy(openwhisk_config(url, root), openwhisk_context(root))
    for later_s in (0.5, 0.5, 1.0):
        at_ms = round((time.time() + later_s) * 1000)
        marks = {"waitTime": 3, "initTime": 20}
        script.activations.append(
            record_of(f"{made.package}/hello", Ran({}), start_ms=at_ms, duration_ms=30, marks=marks)
        )
    return made


def measured(start: Start, root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[CloudRunDeployment, str]:
    """A deployment on Cloud Run with a value of a second of the run, and where its metrics are."""
    url, script = fake_cloud_run(start)
    path = write_credentials(root / "credentials.json", url)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    made = CloudRunPlatform().deploy(cloud_run_config(url), cloud_run_context(root))
    (own,) = made.service_ids
    point = {"interval": {"endTime": at_time(time.time() + 1)}, "value": {"int64Value": "2"}}
    script.series.append(
        {
            "metric": {"type": "run.googleapis.com/container/instance_count", "labels": {"state": "active"}},
            "resource": {"labels": {"service_name": own}},
            "points": [point],
        }
    )
    return made, url


def at_time(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat()


@pytest.fixture
def start() -> Iterator[Start]:
    with servers.serving() as begin:
        yield begin


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesDeployment]:
    """One for all: sources only look at it, and removing it takes seconds."""
    root = tmp_path_factory.mktemp("cluster")
    with observed_cluster(root) as (cluster, deployment, _), KnativeParts(cluster) as parts:
        parts.say_something(deployment.view().namespace)
        yield deployment


@pytest.fixture
def context(
    name: str, child: subprocess.Popen[bytes], start: Start, request: pytest.FixtureRequest
) -> ObserveContext:
    """A process of this machine, for sources of clusters beside a deployment in one."""
    stat = read_stat(child.pid)
    assert stat is not None
    instance = Instance("app-0", "http://127.0.0.1:9", child.pid, stat.start_ticks)
    options = SUBJECTS[name](start)
    found = ObserveContext(RunClock(time.monotonic_ns()), 0.1, [instance], (os.getpid(),), options)
    if name == "calls":
        return replace(found, instances=[replace(instance, url=fake_page(start, CALLS)[0])])
    if name == "scaling":
        return replace(found, deployment=Scaled())
    if name not in IN_CLUSTERS:
        return found
    return replace(found, deployment=request.getfixturevalue("deployed"))


def read(source: Source, context: ObserveContext, times: int = 3) -> list[Sample]:
    found: list[Sample] = []
    source.start(context)
    for _ in range(times):
        time.sleep(0.03)
        found.extend(source.sample(context.clock.now_us()))
    found.extend(source.close())
    return found


def test_every_registered_source_is_tested_here() -> None:
    assert set(registry.SOURCES) <= set(SUBJECTS) | set(HELD_BACK)


def test_it_has_the_name_it_is_known_by(source: Source, name: str) -> None:
    assert source.name == name


def test_samples_carry_the_time_they_were_asked_for(source: Source, context: ObserveContext) -> None:
    source.start(context)
    time.sleep(0.05)
    samples = list(source.sample(123_456))
    source.close()
    assert samples
    assert {sample.t_us for sample in samples} == {123_456}
    assert {sample.source for sample in samples} == {source.name}


def test_values_are_finite_numbers_with_a_unit_in_their_name(source: Source, context: ObserveContext) -> None:
    samples = read(source, context)
    for sample in samples:
        assert math.isfinite(sample.value), sample
        assert sample.value >= 0, sample
        assert UNIT.search(sample.metric), sample.metric
    for sample in samples:
        if sample.metric.endswith("_ratio"):
            assert sample.value <= 1.5, "a share may overshoot by a tick of the clock, not by more"


def test_one_reading_has_each_series_once(source: Source, context: ObserveContext) -> None:
    source.start(context)
    time.sleep(0.05)
    keys = [(s.instance, s.metric) for s in source.sample(0)]
    source.close()
    assert len(set(keys)) == len(keys)


def test_options_are_checked(source: Source, name: str, context: ObserveContext) -> None:
    with pytest.raises(
        TelemetryError, match=f"options of telemetry source '{name}' are wrong: no_such_option"
    ):
        source.start(replace(context, options={**context.options, "no_such_option": 1}))


def test_every_option_that_nobody_needs_can_be_left_out(name: str, context: ObserveContext) -> None:
    needed = {k: v for k, v in context.options.items() if k != "read"}
    assert registry.options_model(name).model_validate(needed) is not None


def test_what_it_asks_first_needs_a_deployment(source: Source, tmp_path: Path) -> None:
    if isinstance(source, LooksAtDeployments):
        assert list(source.look_ahead_at({}, [], tmp_path)) == []


def test_it_can_be_started_again_after_close(source: Source, context: ObserveContext) -> None:
    assert read(source, context)
    assert read(source, context)


def test_it_can_be_closed_twice(source: Source, context: ObserveContext) -> None:
    source.start(context)
    assert list(source.close()) == []
    assert list(source.close()) == []


def test_instances_that_are_not_here_or_are_gone_yield_nothing(
    source: Source, context: ObserveContext
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        stat = read_stat(process.pid)
        assert stat is not None
        here = Instance("gone", "http://127.0.0.1:9", process.pid, stat.start_ticks)
        source.start(replace(context, instances=[here, Instance("far", "http://192.0.2.1")]))
        process.kill()
    time.sleep(0.05)
    samples = list(source.sample(0))
    source.close()
    assert not {sample.instance for sample in samples} & {"gone", "far"}
    if isinstance(source, YieldsEvents):
        assert list(source.events()) is not None


def test_a_reused_pid_is_not_taken_for_the_instance(source: Source, context: ObserveContext) -> None:
    (instance,) = context.instances
    assert instance.start_ticks is not None
    stranger = replace(instance, start_ticks=instance.start_ticks - 1)
    samples = read(source, replace(context, instances=[stranger]))
    assert not [sample for sample in samples if sample.instance == instance.name]


@repeated
def test_the_sampler_runs_it(source: Source, context: ObserveContext) -> None:
    sampler = Sampler([(source, context)])
    sampler.start()
    time.sleep(0.45)
    seen = sampler.stop()
    assert seen.samples
    assert seen.readings[source.name] >= 3
    assert not [event for event in seen.events if event.kind == "source_failed"]


@repeated
def test_reading_is_cheap(source: Source, context: ObserveContext) -> None:
    """A whole reading takes a millisecond on a quiet machine; CPU time does not see the others' load."""
    source.start(context)
    begun = time.thread_time()
    for _ in range(20):
        source.sample(0)
    mean_s = (time.thread_time() - begun) / 20
    source.close()
    waits = source.name in IN_CLUSTERS and isinstance(source, AsksOthers)
    assert mean_s < (CHEAP_WITH_ANSWERS_S if waits else CHEAP_S)


@pytest.mark.parametrize("name", list(HELD_BACK))
def test_what_was_held_back_comes_at_the_end(
    name: str,
    start: Start,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = registry.create(name)
    helpers = DeclaredHelpers(tmp_path)
    options, deployment = HELD_BACK[name](start), None
    if name == "openwhisk":
        deployment = activated(start, tmp_path)
    elif name == "cloud-monitoring":
        deployment, url = measured(start, tmp_path, monkeypatch)
        options["endpoint"] = url
    if deployment is not None:
        request.addfinalizer(deployment.remove)
    context = ObserveContext(
        RunClock(time.monotonic_ns()),
        1.0,
        [],
        (),
        options,
        deployment=deployment,
        helpers=helpers,
    )
    assert isinstance(source, AsksOthers)
    assert isinstance(source, KnowsGaps)
    source.start(context)
    for _ in range(3):
        assert list(source.sample(context.clock.now_us())) == []
        time.sleep(0.8)
    samples = list(source.close())
    end_us = context.clock.now_us()
    assert samples
    assert all(-1_000_000 < sample.t_us <= end_us for sample in samples)
    assert [sample.t_us for sample in samples] == sorted(sample.t_us for sample in samples)
    keys = [(s.t_us, s.instance, s.metric) for s in samples]
    assert len(set(keys)) == len(keys)
    assert all(UNIT.search(s.metric) and math.isfinite(s.value) and s.source == name for s in samples)
    assert list(source.close()) == []
    assert source.gaps() == []
    assert 0 < source.patience_s < 600
    assert helpers.open == [], "what it started is over"
    if isinstance(source, StatesFacts):
        assert json.dumps(dict(source.facts()))


@pytest.mark.parametrize("name", OF_SERVERS)
def test_a_failed_start_leaves_nothing_open(name: str, start: Start) -> None:
    source = registry.create(name)
    options = {**HELD_BACK[name](start), "url": "http://127.0.0.1:9"}
    with pytest.raises(TelemetryError, match=f"{name} at http://127.0.0.1:9 cannot be reached"):
        source.start(ObserveContext(RunClock(time.monotonic_ns()), 1.0, [], (), options))
    assert list(source.close()) == []
