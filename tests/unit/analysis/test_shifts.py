"""Within a run: MSER-5, changes of level with what happened then, and what must not be called one."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from support.plans import make_plan
from towtank.analysis.shifts import of_run, shift_findings
from towtank.analysis.steadiness import level_changes, mser5
from towtank.design.constant_load import constant_stretches
from towtank.design.model import OpenLoad
from towtank.store import schemas
from towtank.store.run_record import RunRecord, Window


def test_mser5_by_its_definition():
    rng = np.random.default_rng(2)
    values = rng.normal(10, 1, 300) + 20 * np.exp(-np.arange(300) / 12)
    found = mser5(values)
    z = values.reshape(60, 5).mean(axis=1)
    statistic = [np.sum((z[d:] - z[d:].mean()) ** 2) / (60 - d) ** 2 for d in range(55)]
    assert found == 5 * int(np.argmin(statistic))
    assert 25 <= found <= 60


def test_mser5_says_nothing_of_short_or_unsteady_series():
    assert mser5(np.arange(49.0)) is None
    assert mser5(np.arange(200.0)) is None  # rises to its end
    assert mser5(np.ones(100)) == 0


def test_level_changes_are_found_where_they_are():
    rng = np.random.default_rng(3)
    values = rng.normal(0, 0.1, 200)
    values[80:140] += 1.5
    first, second = level_changes(values)
    assert (first.index, second.index) == (80, 140)
    assert first.after - first.before == pytest.approx(1.5, abs=0.1)
    assert second.after - second.before == pytest.approx(-1.5, abs=0.1)


def test_a_steady_series_seldom_has_a_change():
    """Not one in twenty, normal noise or heavy-tailed."""
    rng = np.random.default_rng(4)
    normal = sum(bool(level_changes(rng.normal(size=120))) for _ in range(100))
    assert normal <= 5
    assert level_changes(np.ones(100)) == ()
    assert level_changes(np.arange(9.0)) == ()


def record(warmup_s=2.0, run_id="b01-one-a1"):
    window = Window(start_us=round(warmup_s * 1e6), end_us=100_000_000, drained_us=0)
    return RunRecord.model_construct(run_id=run_id, treatment_id="one", window=window)


def series(values):
    t = np.arange(len(values), dtype=float)
    return pd.DataFrame({"t_s": t, "bin_s": 1.0, "p95_s": np.asarray(values, dtype=float)})


def events(*rows):
    columns = ("t_us", "source", "kind", "instance", "message", "detail")
    return pa.Table.from_pylist(
        [dict(zip(columns, (*row, "{}"), strict=True)) for row in rows], schema=schemas.EVENTS
    )


def noisy(seed=5, n=100):
    return 0.01 * np.exp(np.random.default_rng(seed).normal(0, 0.05, n))


@pytest.mark.parametrize(
    ("row", "beside"),
    [
        (
            (
                58_000_000,
                "logs",
                "log_burst",
                "pod-a",
                "pod-a logged 2 MiB within a second",
            ),
            "3 s after: pod-a logged 2 MiB within a second (logs)",
        ),
        ((59_000_000, "fault", "delay", "pod-a", ""), "2 s after: pod-a delay (fault)"),
    ],
)
def test_a_burst_of_a_log_and_a_fault_may_be_what_happened_then(row, beside):
    values = noisy()
    values[61:] *= 5
    [shift] = of_run(record(), series(values), events(row), ((0.0, 100.0),)).shifts
    assert shift.beside == beside


def test_what_was_before_the_load_is_not_beside_a_shift_under_it():
    values = noisy()
    values[8:] *= 5
    beside = {}
    for when_us in (-1_000_000, 1_000_000):
        ready = events((when_us, "kubernetes", "pod_ready", "pod-a", "ready"))
        [shift] = of_run(record(), series(values), ready, ((0.0, 100.0),)).shifts
        beside[when_us] = shift.beside
    assert beside == {-1_000_000: "", 1_000_000: "7 s after: pod-a ready (kubernetes)"}


def test_a_shift_is_told_with_what_happened_then():
    values = noisy()
    values[61:] *= 5
    happened = events(
        (20_000_000, "kubernetes", "ready", "pod-b", "pod-b is ready"),
        (59_000_000, "kubernetes", "oom_killed", "pod-a", "pod-a was OOM-killed"),
        (60_500_000, "kubelet", "source_failed", "", "the source cannot be read"),
    )
    found = of_run(record(), series(values), happened, ((0.0, 100.0),))
    [shift] = found.shifts
    assert (shift.t_s, shift.ratio) == (61.0, pytest.approx(5, rel=0.1))
    assert shift.beside == "2 s after: pod-a was OOM-killed (kubernetes)"
    [told] = shift_findings(make_plan(), [found])
    assert told.name == "level_shift"
    assert "in b01-one-a1 it rose 5" in told.message
    assert "-fold at 61 s, 2 s after: pod-a was OOM-killed (kubernetes)" in told.message


def test_without_an_event_near_it_only_the_shift_is_told():
    values = noisy()
    values[61:] *= 5
    far = events((20_000_000, "kubernetes", "ready", "pod-b", "pod-b is ready"))
    [shift] = of_run(record(), series(values), far, ((0.0, 100.0),)).shifts
    assert shift.beside == ""


def test_changes_of_the_load_and_failures_are_no_shifts():
    values = noisy()
    values[50:] *= 5
    assert of_run(record(), series(values), events(), ((0.0, 50.0), (50.0, 100.0))).shifts == ()
    assert of_run(record(), series(values), events(), ()).shifts == ()
    values[60] = math.nan
    assert of_run(record(), series(values), events(), ((0.0, 100.0),)).shifts == ()
    assert (
        of_run(record(), series(noisy() * np.linspace(1, 1.2, 100)), events(), ((0.0, 100.0),)).shifts == ()
    )


def test_a_warm_up_that_is_too_short_is_advised_upon_for_all_treatments():
    slow = [noisy(seed) * (1 + 6 * np.exp(-np.arange(100) / 5)) for seed in range(4)]
    runs = [
        of_run(record(2.0, f"b0{i}-one-a1"), series(v), events(), ((0.0, 100.0),)) for i, v in enumerate(slow)
    ]
    assert all(run.advised_s > 2 for run in runs)
    found = next(f for f in shift_findings(make_plan(), runs) if f.name == "warmup_short")
    assert "in 4 of 4 runs" in found.message
    assert "the same for all treatments" in found.advice
    enough = [of_run(record(40.0), series(v), events(), ((0.0, 100.0),)) for v in slow]
    assert not [f for f in shift_findings(make_plan(), enough) if f.name == "warmup_short"]


def test_steady_runs_get_no_advice():
    runs = [of_run(record(), series(noisy(seed)), events(), ((0.0, 100.0),)) for seed in range(20)]
    assert list(shift_findings(make_plan(), runs)) == []


def test_constant_stretches_follow_the_load():
    [one, _] = make_plan(warmup="1s").treatments
    assert constant_stretches(one.spec) == ((0.0, 4.0),)
    load = OpenLoad.model_validate(
        {"model": "open", "stages": [{"rate": 10, "hold": "5s"}, {"rate": 50, "ramp": "2s", "hold": "3s"}]}
    )
    workload = one.spec.workload.model_copy(update={"load": load})
    from dataclasses import replace

    staged = replace(one, spec=one.spec.model_copy(update={"workload": workload}))
    assert constant_stretches(staged.spec) == ((0.0, 5.0), (7.0, 10.0))


def test_where_the_warmup_cannot_be_judged_that_is_told():
    """No advice must not look like good advice."""
    lengths = enumerate((49, 40, 50))
    runs = [of_run(record(), series(noisy(seed)[:n]), events(), ((0.0, 100.0),)) for seed, n in lengths]
    among_failures = noisy(4)
    among_failures[60] = np.inf
    runs.append(of_run(record(), series(among_failures), events(), ((0.0, 100.0),)))
    [told] = shift_findings(make_plan(), runs)
    assert (told.name, told.severity) == ("warmup_unjudged", "info")
    assert "3 of 4 runs" in told.message
    assert (
        "in 2 runs there are fewer than the 50 time bins of constant load that MSER-5 needs (40 at least)"
        in (told.message)
    )
    assert "in 1 run the p95 of some time bin lies among failures" in told.message


def test_a_load_that_changes_has_no_warmup_to_judge():
    assert list(shift_findings(make_plan(), [of_run(record(), series(noisy(1)), events(), ())])) == []
