"""From a workload to the engine's job: stages resolved, units turned, secrets kept out of what is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.design.load_shape import COUNT_BOUND_S, duration_s, expected_arrivals, pieces
from towtank.design.model import ClosedLoad, Generator, Journey, OpenLoad, Request, Workload
from towtank.load import JobRequest, build_job, masked, stages
from towtank.load.job import MASK
from towtank.platforms.base import Instance, Target


def open_load(**fields):
    return OpenLoad.model_validate({"model": "open", **fields})


def closed_load(**fields):
    return ClosedLoad.model_validate({"model": "closed", **fields})


def job(load, *, request=None, headers=None, journey=None):
    workload = Workload(
        load=load, journey=journey or Journey(steps=(request or Request(name="read"),)), timeout="5s"
    )
    targets = {"app": Target("app", (Instance("app-0", "http://127.0.0.1:1"),), headers or {})}
    return build_job(JobRequest("b01-x-a1", 7, Path("/r/requests"), {"shop": workload}, targets, Generator()))


def levels(load):
    return [(p.name, p.start, p.end, p.duration_s) for p in pieces(load)]


def test_a_constant_rate():
    assert levels(open_load(rate="20/s", duration="3s")) == [("constant", 20, 20, 3)]


def test_stages_ramp_from_the_level_before_then_hold():
    load = open_load(stages=[{"name": "up", "rate": 10, "ramp": "2s", "hold": "1s"}, {"rate": 50, "hold": "1s"},
                             {"name": "down", "rate": 0, "ramp": "4s"}])  # fmt: skip
    assert levels(load) == [
        ("up", 0, 10, 2), ("up", 10, 10, 1), ("stage 2", 50, 50, 1), ("down", 50, 0, 4),
    ]  # fmt: skip
    assert [(s.name, s.start_us, s.end_us) for s in stages(load)] == [
        ("up", 0, 3_000_000), ("stage 2", 3_000_000, 4_000_000), ("down", 4_000_000, 8_000_000),
    ]  # fmt: skip
    assert duration_s(load) == 8


def test_expected_arrivals_in_closed_form():
    assert expected_arrivals(open_load(stages=[{"rate": 10, "ramp": "2s", "hold": "1s"}])) == 20
    assert expected_arrivals(open_load(rate=10, duration="3s", max_arrivals=7)) == 7
    assert expected_arrivals(closed_load(users=1, duration="1s")) is None


def test_spawning_is_part_of_the_duration():
    load = closed_load(users=100, spawn_per_s="50/s", duration="10s")
    assert levels(load) == [("spawning", 0, 100, 2), ("constant", 100, 100, 8)]


def test_a_duration_shorter_than_spawning_reaches_fewer_users():
    assert levels(closed_load(users=100, spawn_per_s=10, duration="5s")) == [("spawning", 0, 50, 5)]


def test_a_stop_by_count_has_a_bound_in_time():
    assert duration_s(closed_load(users=1, iterations=5)) == COUNT_BOUND_S


def test_the_job_is_that_of_the_documented_format():
    made = job(
        closed_load(users=2, duration="1s", pacing={"exponential": "20ms"}, max_rate_per_user=3, warmup="200ms"),
        journey=Journey.model_validate(
            {"think": {"uniform": ["1s", "2s"]},
             "steps": [{"name": "list", "timeout": "50ms", "think": "0"},
                       {"choose": [{"weight": 3, "steps": [{"name": "read", "target": "app"}]}]}]}
        ),
    )  # fmt: skip
    workload = made["workloads"][0]
    assert workload["warmup_us"] == 200_000
    assert workload["load"]["stages"] == [
        {"name": "constant", "from_users": 2, "to_users": 2, "duration_us": 1_000_000}
    ]
    assert workload["load"]["pacing_us"] == {"exponential_us": 20_000}
    assert workload["journey"]["think"] == {"uniform_us": [1_000_000, 2_000_000]}
    first, second = workload["journey"]["steps"]
    assert first["request"]["timeout_us"] == 50_000
    assert first["request"]["think"] == {"constant_us": 0}
    assert "target" not in first["request"]
    assert second["choose"][0]["steps"][0]["request"]["target"] == "app"
    assert json.loads(json.dumps(made)) == made


def test_secrets_are_masked_in_what_is_kept():
    made = job(
        open_load(rate=1, duration="1s"),
        headers={"x-key": "hunter2", "Authorization": "Basic abc"},
        request=Request(name="read", path="/?k=hunter2", body="hunter2"),
    )
    kept = masked(made, lambda text: text.replace("hunter2", MASK))
    assert "hunter2" not in json.dumps(kept)
    assert "Basic abc" not in json.dumps(kept)
    assert "hunter2" in json.dumps(made), "the engine's own copy is whole"
    assert kept["targets"]["app"]["instances"] == made["targets"]["app"]["instances"]


@given(
    st.lists(
        st.tuples(st.floats(0, 1e4), st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=6
    ).filter(lambda raw: all(ramp + hold > 0.001 for _, ramp, hold in raw))
)
def test_pieces_join_and_add_up(raw):
    load = open_load(stages=[{"rate": r, "ramp": f"{a:.6f}s", "hold": f"{h:.6f}s"} for r, a, h in raw])
    found = pieces(load)
    assert sum(p.duration_s for p in found) == pytest.approx(sum(a + h for _, a, h in raw), abs=1e-4)
    assert all(p.duration_s > 0 for p in found)
    windows = stages(load)
    assert [w.start_us for w in windows[1:]] == [w.end_us for w in windows[:-1]]


def test_headers_that_a_deployment_adds_tell_instance_and_cold_start():
    """Unless the file says something else."""
    load, instance = open_load(rate=1, duration="1s"), Instance("app", "http://127.0.0.1:1")
    targets = {"app": Target("app", (instance,), instance_header="x-instance", cold_header="x-cold")}

    def made(generator=None, **fields):
        workload = Workload(load=load, journey=Journey(steps=(Request(name="read"),)), timeout="5s", **fields)
        asked = JobRequest("r", 7, Path("/r"), {"w": workload}, targets, generator or Generator())
        return build_job(asked)

    found = made()
    assert found["instance_header"] == "x-instance"
    assert found["workloads"][0]["cold"] == {"header": {"name": "x-cold", "equals": "true"}}
    own = made(Generator(instance_header="x-own"), cold={"above": "1s"})
    assert own["instance_header"] == "x-own"
    assert own["workloads"][0]["cold"] == {"above_us": 1_000_000}
