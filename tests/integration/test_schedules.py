"""Rows of the engine against the arithmetic of their schedules; nobody answers, since being due depends on nobody."""

from __future__ import annotations

import math

import numpy as np
import pyarrow.parquet as pq
import pytest

from support.jobs import carried_out

TIMES_MS = (0.0, 3.5, 3.5, 250.0, 999.999)
UP_S, HOLD_S, WAVE_S = 0.5, 0.5, 1.0
TOP, MEAN, AMPLITUDE, PERIOD_S, PHASE = 400.0, 200.0, 150.0, 0.4, 0.1
STAGES = [
    {"name": "up", "from_per_s": 0.0, "to_per_s": TOP, "duration_us": 500_000},
    {"name": "hold", "from_per_s": TOP, "to_per_s": TOP, "duration_us": 500_000},
    {"name": "wave", "mean_per_s": MEAN, "amplitude_per_s": AMPLITUDE, "period_us": 400_000, "phase": PHASE,
     "duration_us": 1_000_000},
]  # fmt: skip


def expected_count(t_s):
    """Integral of the rate up to a moment, worked out by hand: a triangle, a rectangle, a wave."""
    up = min(t_s, UP_S)
    hold = min(max(t_s - UP_S, 0.0), HOLD_S)
    wave = min(max(t_s - UP_S - HOLD_S, 0.0), WAVE_S)
    turn = 2 * math.pi
    swing = math.cos(turn * PHASE) - math.cos(turn * (wave / PERIOD_S + PHASE))
    return TOP * up**2 / (2 * UP_S) + TOP * hold + MEAN * wave + AMPLITUDE * PERIOD_S / turn * swing


BOUNDS = [math.ceil(expected_count(t)) for t in (0.0, UP_S, UP_S + HOLD_S, UP_S + HOLD_S + WAVE_S)]
"""Arrivals before the end of each stage."""


def driven(folder, *, seed, threads=1):
    """Workload → when its rows were due, in s, in order."""
    folder.mkdir()
    (folder / "times.txt").write_text("".join(f"{t}\n" for t in TIMES_MS), "utf-8")
    loads = {kind: {"arrivals": kind, "stages": STAGES} for kind in ("uniform", "scattered", "poisson")}
    loads["times"] = {"times": {"file": "times.txt", "unit": "ms"}}
    job = {
        "version": 1, "run_id": "schedules", "seed": seed, "threads": threads,
        "output": str(folder / "requests"),
        "targets": {"app": {"instances": [{"name": "app-0", "url": "http://127.0.0.1:9"}]}},
        "workloads": [
            {"name": name, "warmup_us": 0, "timeout_us": 500_000, "load": {"model": "open", **load},
             "journey": {"steps": [{"request": {"name": "get", "path": "/"}}]}}
            for name, load in loads.items()
        ],
    }  # fmt: skip
    ready, done = carried_out(job, folder, "tt-schedules", timeout_s=60)
    table = pq.read_table(folder / "requests.parquet")
    assert table.num_rows == done.counts["due"]
    assert ready.due is None or abs(ready.due - table.num_rows) < 5 * math.sqrt(BOUNDS[-1])
    names = np.array(table.column("workload").to_pylist())
    due_s = table.column("scheduled_us").to_numpy() / 1e6
    return {name: np.sort(due_s[names == name]) for name in loads}


@pytest.fixture(scope="module")
def due(tmp_path_factory):
    return driven(tmp_path_factory.mktemp("schedules") / "one", seed=7)


def test_even_gaps_follow_the_integral_to_the_microsecond(due):
    """Arrival k is due when the integral goes beyond k; a row keeps whole µs."""
    rows = due["uniform"]
    assert len(rows) == BOUNDS[-1]
    for k, at in enumerate(rows):
        assert expected_count(at) <= k + 1e-6, f"arrival {k} at {at} s"
        assert expected_count(at + 2e-6) >= k - 1e-6, f"arrival {k} at {at} s"


def test_scattered_arrivals_are_counted_in_each_stage(due):
    before = [int((due["scattered"] < end).sum()) for end in (UP_S, UP_S + HOLD_S, UP_S + HOLD_S + WAVE_S)]
    assert before == BOUNDS[1:]


def test_poisson_arrivals_are_a_unit_process_on_the_integral(due):
    rows = due["poisson"]
    assert abs(len(rows) - expected_count(2.0)) < 4 * math.sqrt(expected_count(2.0))
    gaps = np.sort(np.diff([expected_count(at) for at in rows]))
    uniform = np.arange(1, len(gaps) + 1) / len(gaps)
    assert np.abs(1 - np.exp(-gaps) - uniform).max() < 1.63 / math.sqrt(len(gaps))


def test_recorded_arrivals_are_left_as_they_are(due):
    assert due["times"].tolist() == [pytest.approx(t / 1000, abs=1e-6) for t in TIMES_MS]


def test_a_seed_gives_the_same_schedule_on_any_number_of_threads(due, tmp_path):
    again, other = driven(tmp_path / "two", seed=7, threads=2), driven(tmp_path / "other", seed=8)
    for name, rows in due.items():
        assert np.array_equal(rows, again[name]), name
    assert np.array_equal(due["uniform"], other["uniform"])
    assert not np.array_equal(due["scattered"], other["scattered"])
    assert len(due["poisson"]) != len(other["poisson"]) or not np.array_equal(
        due["poisson"], other["poisson"]
    )
