"""The `cloud-monitoring` source against a fake of the API."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support import servers
from support.fake_cloud_run import Script, fake_cloud_run, write_credentials
from support.on_cloud_run import config, context
from towtank.clock import RunClock
from towtank.errors import TelemetryError
from towtank.platforms.cloud_run.deployment import CloudRunDeployment
from towtank.platforms.cloud_run.platform import CloudRunPlatform
from towtank.telemetry.base import ObserveContext
from towtank.telemetry.registry import create
from towtank.telemetry.sampler import Observation, Sampler

Begun = tuple[CloudRunDeployment, Script, str]


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begun]:
    with servers.serving() as start:
        url, script = fake_cloud_run(start)
        path = write_credentials(tmp_path / "credentials.json", url)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        made = CloudRunPlatform().deploy(config(url), context(tmp_path))
        yield made, script, url
        made.remove()


def observe(begun: Begun, meanwhile: Callable[[], None] = lambda: None) -> Observation:
    deployment, _, url = begun
    options = {"endpoint": url, "settle": "0"}
    given = ObserveContext(RunClock(time.monotonic_ns()), 1.0, [], options=options, deployment=deployment)
    sampler = Sampler([(create("cloud-monitoring"), given)])
    sampler.start()
    time.sleep(0.02)
    meanwhile()
    return sampler.stop()


def series(begun: Begun, kind: str, value: dict[str, Any], end_s: float, **labels: str) -> dict[str, Any]:
    (own,) = begun[0].service_ids
    times = {
        key: datetime.fromtimestamp(s, UTC).isoformat()
        for key, s in (("startTime", end_s - 60), ("endTime", end_s))
    }
    return {
        "metric": {"type": f"run.googleapis.com/{kind}", "labels": labels},
        "resource": {"type": "cloud_run_revision", "labels": {"service_name": own}},
        "points": [{"interval": times, "value": value}],
    }  # fmt: skip


def test_values_are_in_our_units_and_on_the_clock_of_the_run(begun: Begun) -> None:
    script = begun[1]
    script.page = 1

    def load() -> None:
        now = time.time()
        mean = {"count": "4", "mean": 0.25}
        script.series += [
            series(begun, "container/instance_count", {"int64Value": "3"}, now, state="active"),
            series(begun, "container/instance_count", {"int64Value": "2"}, now, state="active"),
            series(begun, "container/instance_count", {"int64Value": "1"}, now, state="idle"),
            series(begun, "request_count", {"int64Value": "120"}, now, response_code_class="2xx"),
            series(begun, "container/billable_instance_time", {"doubleValue": 90.0}, now),
            series(begun, "container/cpu/utilizations", {"distributionValue": mean}, now),
            series(begun, "container/memory/utilizations", {"distributionValue": {"count": "0"}}, now),
            series(begun, "container/startup_latencies", {"distributionValue": {"count": "1", "mean": 1500.0}}, now),
            series(begun, "container/instance_count", {"int64Value": "9"}, now - 600, state="active"),
        ]  # fmt: skip

    seen = observe(begun, load)
    found = {}
    for sample in seen.samples:
        assert sample.instance == "hello"
        assert -2_000_000 < sample.t_us < 2_000_000
        found.setdefault(sample.metric, []).append(sample.value)
    assert {key: sum(values) for key, values in found.items()} == {
        "instances_active": 5.0, "instances_idle": 1.0, "requests_2xx_per_s": 2.0, "instances_billed": 1.5,
        "cpu_ratio": 0.25, "startup_s": 1.5,
    }  # fmt: skip
    assert seen.facts["cloud-monitoring"]["values"]["container/instance_count"] == 3
    assert seen.facts["cloud-monitoring"]["clock"]["uncertainty_s"] <= 0.6


def test_a_run_without_values_is_said(begun: Begun) -> None:
    seen = observe(begun)
    (event,) = seen.events
    assert event.kind == "no_data"


def test_a_deployment_elsewhere_is_not_observable() -> None:
    source = create("cloud-monitoring")
    source.start(ObserveContext(RunClock(0), 1.0, []))
    assert [event.kind for event in source.events()] == ["not_observable"]
    assert list(source.close()) == []


def test_metrics_that_may_not_be_read_are_said_before_the_run(begun: Begun) -> None:
    begun[1].broken = {"GET"}
    with pytest.raises(
        TelemetryError, match=r"asking for container/instance_count failed: Cloud Monitoring at .*INTERNAL"
    ):
        observe(begun)
    begun[1].broken.clear()


def test_a_monitoring_that_is_gone_at_the_end_is_a_gap(begun: Begun) -> None:
    seen = observe(begun, lambda: begun[1].broken.add("GET"))
    begun[1].broken.clear()
    (gap,) = seen.gaps
    assert "INTERNAL" in gap.reason
