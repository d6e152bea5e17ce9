"""The contract of telemetry sources: what the sampler and the campaign rely on, checked for every implementation.

To add a source: name it in `SUBJECTS`, with an option that it does not have to be given, and make this pass.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from support.repeated import repeated
from towtank.clock import RunClock
from towtank.errors import TelemetryError
from towtank.platforms.base import Instance
from towtank.telemetry import registry
from towtank.telemetry.base import ObserveContext, Sample, Source, YieldsEvents
from towtank.telemetry.procfs import read_stat
from towtank.telemetry.sampler import Sampler

SUBJECTS = ("host", "process")
UNIT = re.compile(
    r"(_bytes|_bytes_per_s|_per_s|_ratio|_cores|_s|_us|_1m)$|^(processes|threads|open_files|restarts)$"
)


@pytest.fixture(params=SUBJECTS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def source(name: str) -> Source:
    return registry.create(name)


@pytest.fixture(scope="module")
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


@pytest.fixture
def context(child: subprocess.Popen[bytes]) -> ObserveContext:
    stat = read_stat(child.pid)
    assert stat is not None
    instance = Instance("app-0", "http://127.0.0.1:9", child.pid, stat.start_ticks)
    return ObserveContext(RunClock(time.monotonic_ns()), 0.1, [instance], (os.getpid(),))


def read(source: Source, context: ObserveContext, times: int = 3) -> list[Sample]:
    found: list[Sample] = []
    source.start(context)
    for _ in range(times):
        time.sleep(0.03)
        found.extend(source.sample(context.clock.now_us()))
    found.extend(source.close())
    return found


def test_every_registered_source_is_tested_here() -> None:
    assert set(registry.SOURCES) <= set(SUBJECTS)


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
        source.start(replace(context, options={"no_such_option": 1}))


def test_every_option_can_be_left_out(name: str) -> None:
    assert registry.options_model(name)() is not None


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
    assert mean_s < 0.004
