"""Every load model of the experiment file: its shape in closed form, and the job that the engine gets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.design.load_shape import (
    Piece,
    duration_s,
    expected_arrivals,
    expected_requests,
    peak,
    pieces,
    rises_s,
)
from towtank.design.model import Generator, Sine, Workload
from towtank.errors import DesignError
from towtank.load.job import JobRequest, build_job

JOURNEY = {"steps": [{"name": "a"}]}


def load_of(**load):
    return Workload.model_validate({"load": load, "journey": JOURNEY}).load


def job_load(tmp_path, **load):
    workload = Workload.model_validate({"load": load, "journey": JOURNEY})
    request = JobRequest("r", 1, tmp_path, {"w": workload}, {}, Generator())
    return build_job(request)["workloads"][0]["load"]


def wave(mean=100, amplitude=100, period="4s", phase=0.0, hold="12s", **more):
    sine = {"mean": mean, "amplitude": amplitude, "period": period, "phase": phase}
    return {"sine": sine, "hold": hold, **more}


def test_a_wave_in_closed_form():
    load = load_of(model="open", stages=[wave()])
    assert (duration_s(load), expected_arrivals(load), peak(load)) == (12, pytest.approx(1200), 200)
    half = load_of(model="open", stages=[wave(hold="2s")])
    assert expected_arrivals(half) == pytest.approx(200 + 400 / math.pi)
    assert expected_requests(Workload.model_validate({"load": half, "journey": JOURNEY})).exact
    # An eighth of a turn does not get to the crest.
    assert peak(load_of(model="open", stages=[wave(hold="500ms")])) == pytest.approx(100 + 100 / math.sqrt(2))


@given(
    st.floats(1, 1000), st.floats(0, 1), st.floats(0.01, 100), st.floats(-2, 2), st.floats(0.01, 100),
)  # fmt: skip
def test_the_area_of_a_wave_is_that_of_its_level(mean, share, period, phase, length):
    sine = Sine(mean=mean, amplitude=mean * share, period=f"{period!r}s", phase=phase)
    piece = Piece("w", 0, 0, length, wave=sine)
    n = 4000
    if length / period > n / 40:
        return  # slices too wide for the wave
    middle = [(i + 0.5) * length / n for i in range(n)]
    level = [mean + mean * share * math.sin(2 * math.pi * (t / period + phase)) for t in middle]
    assert piece.area == pytest.approx(math.fsum(level) * length / n, rel=1e-2)
    edge = [mean * (1 + share * math.sin(2 * math.pi * (t / period + phase))) for t in (0.0, length)]
    whole = Piece("w", edge[0], edge[1], length, wave=sine)
    assert max(level) <= whole.top * (1 + 1e-9)
    assert min(level) >= whole.bottom - 1e-9 * mean


def test_a_wave_is_reached_by_a_ramp_and_left_where_it_ends():
    stages = [wave(hold="1s", ramp="2s"), {"rate": 10, "ramp": "2s"}]
    ramp, swing, down = pieces(load_of(model="open", stages=stages, start_rate=50))
    assert (ramp.start, ramp.end, swing.start) == (50, 100, 100)
    assert swing.end == down.start == pytest.approx(200)
    assert down.end == 10


@pytest.mark.parametrize(
    ("load", "rises"),
    [
        ({"model": "open", "rate": "5/s", "duration": "9s"}, (0.0,)),
        ({"model": "closed", "users": 4, "spawn_per_s": 2, "duration": "9s"}, (0.0,)),
        (
            {
                "model": "open",
                "stages": [
                    {"rate": "3/s", "hold": "10s"}, {"rate": "9/s", "hold": "10s"}, {"rate": "3/s", "hold": "5s"},
                    {"rate": "8/s", "ramp": "5s", "hold": "5s"}, {"rate": "9/s", "ramp": "5s"},
                ],
            },
            (0.0, 10.0, 25.0, 35.0),
        ),
    ],
    ids=["constant", "spawning", "stages"],
)  # fmt: skip
def test_when_a_load_rises(load, rises):
    """A jump up is one, and so is the beginning of a ramp; what is held, or falls, is none."""
    assert rises_s(load_of(**load)) == rises


def test_the_job_of_each_open_load(tmp_path):
    job = job_load(
        tmp_path, model="open", arrivals="scattered", start_rate=5,
        stages=[{"rate": 10, "ramp": "1s", "name": "up"}, wave(phase=0.25, name="swing")],
    )  # fmt: skip
    assert job["arrivals"] == "scattered"
    assert job["stages"] == [
        {"name": "up", "from_per_s": 5, "to_per_s": 10, "duration_us": 1_000_000},
        {
            "name": "swing", "mean_per_s": 100, "amplitude_per_s": 100, "period_us": 4_000_000, "phase": 0.25,
            "duration_us": 12_000_000,
        },
    ]  # fmt: skip


def test_the_job_of_each_closed_load(tmp_path):
    plain = job_load(tmp_path, model="closed", users=3, duration="1s")
    assert not {"start_spread_us", "catch_up"} & plain.keys()
    job = job_load(
        tmp_path, model="closed", stages=[{"users": 4, "ramp": "1s"}], start_users=2, start_spread="500ms",
        max_rate_per_user=10, catch_up=True,
    )  # fmt: skip
    assert (job["start_spread_us"], job["catch_up"], job["max_rate_per_user_per_s"]) == (500_000, True, 10)
    assert [(s["from_users"], s["to_users"]) for s in job["stages"]] == [(2, 4)]


@pytest.mark.parametrize(
    ("load", "found"),
    [
        ("{model: open, stages: [{hold: 1s}]}", "a stage needs `rate` or `sine`"),
        (
            "{model: open, stages: [{rate: 1, sine: {mean: 1, amplitude: 1, period: 1s}, hold: 1s}]}",
            "one of them",
        ),
        ("{model: open, stages: [{sine: {mean: 1, amplitude: 1, period: 1s}}]}", "`sine` needs `hold`"),
        (
            "{model: open, stages: [{sine: {mean: 1, amplitude: 2, period: 1s}, hold: 9s}]}",
            "would be negative",
        ),
        ("{model: open, stages: [{sine: {mean: 1, amplitude: 1, period: 0}, hold: 9s}]}", "more than 0"),
        (
            "{model: open, rate: 1, duration: 9s, start_rate: 1}",
            "`start_rate` is where the first of `stages` begins",
        ),
        ("{model: closed, users: 1, duration: 9s, start_users: 1}", "`start_users` is where"),
        ("{model: closed, users: 1, duration: 9s, catch_up: true}", "nothing to catch up with"),
        ("{model: closed, users: 1, duration: 9s, start_spread: 9s}", "must be less than the load"),
        ("{model: open, rate: 1, duration: 9s, arrivals: even}", "'even'"),
    ],
)
def test_each_mistake_is_told(small, load, found):
    with pytest.raises(DesignError) as caught:
        small(("{model: open, rate: 10/s, duration: 10s, warmup: 1s}", load))
    told = [str(problem) for problem in caught.value.problems]
    assert any(found in line for line in told), told
