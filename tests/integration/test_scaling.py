"""A scaled deployment behind the real ingress under a real load: from none to several and back, and who refused what.

One life is shared by all tests: 0 instances → a load that three of them just cannot carry → 0.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.jobs import carried_out
from support.waiting import eventually
from towtank.clock import RunClock
from towtank.design.model import Generator, Journey, OpenLoad, Request, Workload
from towtank.load import JobRequest, build_job, check_job
from towtank.platforms.base import DeployContext
from towtank.platforms.local import LocalPlatform
from towtank.platforms.local_config import LocalConfig
from towtank.telemetry.base import Event, ObserveContext, Sample
from towtank.telemetry.scaling import ScalingSource

pytestmark = [pytest.mark.slow, pytest.mark.alone]  # one life for all; others would slow its instances down
SUPPORT = Path(__file__).resolve().parents[1] / "support"
TOKEN = f"tt-scaling-{os.getpid()}"
MOST, PENDING = 3, 4
CONFIG = {
    "platform": "local",
    "command": "python http_app.py",
    "ready": {"http": "/health"},
    "scaling": {
        "kpa": {
            "container_concurrency": 2,
            "initial_scale": 0,
            "max_scale": MOST,
            "window": "6s",
            "scale_to_zero_grace_period": "1s",
        },
        "pending": PENDING,
    },
}


@dataclass
class Life:
    """What was seen of it: rows of the engine, samples and events of the source `scaling`, and its own words."""

    rows: list[dict]
    samples: list[Sample]
    events: list[Event]
    facts: dict

    def values(self, metric, instance="app"):
        return [s.value for s in sorted(self.samples) if (s.metric, s.instance) == (metric, instance)]

    def steps(self):
        found = defaultdict(dict)
        for event in self.events:
            if event.kind.startswith("pod_"):
                found[event.instance][event.kind.removeprefix("pod_")] = event.t_us
        return found


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scaling")
    context = DeployContext("app", TOKEN, folder / "data", folder / "log", SUPPORT)
    deployment = LocalPlatform().deploy(LocalConfig.model_validate(CONFIG), context)
    source = ScalingSource()
    try:
        deployment.wait_ready(cancelled=lambda: None)
        assert deployment.instances_now() == []
        source.start(ObserveContext(RunClock(time.monotonic_ns()), 1.0, (), deployment=deployment))
        # an instance takes 100 ms a request, one after the other: three carry 30 a second
        load = OpenLoad.model_validate(
            {"model": "open", "stages": [{"rate": 4, "hold": "3s"}, {"rate": 60, "hold": "8s"}]}
        )
        journey = Journey(steps=(Request(name="work", path="/work?100"),))
        workload = Workload(load=load, journey=journey, timeout="20s")
        asked = JobRequest(
            "life-a1", 7, folder / "requests", {"w": workload}, deployment.targets, Generator()
        )
        job = build_job(asked)
        assert check_job(job) == []
        carried_out(job, folder, TOKEN)
        eventually(lambda: deployment.instances_now() == [], within_s=60)
        held_back = [*source.sample(0), *source.close()]
        events = list(source.events())
    finally:
        deployment.remove()
    rows = pq.read_table(folder / "requests.parquet").to_pylist()
    return Life(rows, held_back, events, dict(source.facts()))


def test_it_came_from_none_grew_to_the_most_and_went_back_to_none(life):
    ready = life.values("replicas_ready", "")
    assert (max(ready), ready[-1]) == (MOST, 0)
    assert life.values("replicas_ready") == ready
    assert max(life.values("autoscaler_desired")) > MOST
    assert max(life.values("autoscaler_panic_mode")) == 1


def test_every_instance_went_its_way_in_order(life):
    """One that comes when load has gone may never get a request; one may get its first while it goes."""
    lives = life.steps().values()
    for of_one in lives:
        for way in (("created", "started", "ready", "first_request"), ("started", "terminating", "gone")):
            times = [of_one[name] for name in way if name in of_one]
            assert times == sorted(times)
        assert {"created", "started", "terminating", "gone"} <= of_one.keys()
    assert sum("first_request" in of_one for of_one in lives) >= MOST


def test_requests_that_waited_for_a_start_are_cold_and_say_who_answered(life):
    answered = [row for row in life.rows if row["status"] == 200]
    assert all(row["cold"] is not None for row in answered)
    first = min(answered, key=lambda row: row["scheduled_us"])
    assert (first["cold"], first["instance"]) == (True, "app-0")
    assert {row["instance"] for row in answered} <= set(life.steps())
    assert len({row["instance"] for row in answered}) >= MOST
    assert Counter(row["cold"] for row in answered)[False] > len(answered) / 2


def test_overload_is_answered_503_and_counted_as_the_ingress_own(life):
    refused = [row for row in life.rows if row["status"] == 503]
    assert refused
    assert {row["instance"] for row in refused} == {"ingress"}
    assert life.facts["answered_by_ingress"] == {"pending": len(refused)}
    assert life.facts["answered_by_instances"] == {"200": len(life.rows) - len(refused)}
    (finding,) = [event for event in life.events if event.kind == "ingress_answered_pending"]
    assert f"answered {len(refused)} requests with 503" in finding.message


def test_no_more_is_held_and_no_instance_has_more_than_allowed(life):
    assert 0 < max(life.values("ingress_held")) <= PENDING
    assert max(life.values("ingress_in_flight")) <= 2 * MOST
