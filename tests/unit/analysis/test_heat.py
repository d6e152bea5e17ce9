"""Latency over time as a map: every request is in one cell, and in the right one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from support.make_results import TreatmentModel, make_results
from towtank.analysis import analyse, heat
from towtank.analysis.summaries import summarise_run
from towtank.store import Results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    treatments = {"one": TreatmentModel(median_ms=5), "two": TreatmentModel(median_ms=50, timeouts=0.1)}
    folder = tmp_path_factory.mktemp("heat") / "results"
    return Results.open(
        make_results(folder, treatments=treatments, blocks=2, rate_per_s=40.0, duration_s=3.0)
    )


def test_every_request_is_in_one_cell(results):
    table = analyse(results).heat
    assert list(table.columns) == list(heat.COLUMNS)
    for treatment, mine in table.groupby("treatment_id"):
        folders = [f for f in results.runs("all") if f.record.treatment_id == treatment]
        counts = [summarise_run(f).counts for f in folders]
        assert mine.requests.sum() == sum(int(c.count.sum()) for c in counts)
        failed = sum(int(c.count[~c.ok].sum()) for c in counts)
        assert mine[mine.low_s.isna()].requests.sum() == failed
        assert (failed > 0) == (treatment == "two")
        assert mine.groupby("t_s").share.sum().to_numpy() == pytest.approx(1.0)


def test_cells_hold_what_lies_within_their_ends(results):
    run = summarise_run(results.runs("all")[0])
    counts = run.counts
    mine = heat.pooled_heat([heat.run_heat(run)])
    for cell in mine[mine.low_s.notna()].itertuples():
        value = counts.value * 1e-6
        inside = counts.ok & (value >= cell.low_s - 1e-9) & (value < cell.high_s - 1e-9)
        start = counts.bin * run.record.bin_us * 1e-6
        inside &= (start >= cell.t_s - 1e-9) & (start < cell.t_s + cell.bin_s - 1e-9)
        assert counts.count[inside].sum() == cell.requests
        assert cell.high_s / cell.low_s < 2.1


def test_a_long_run_has_wider_bins(results):
    run = summarise_run(results.runs("all")[0])
    long = np.arange(run.counts.bin.size, dtype=np.int32)
    found = heat.run_heat(replace(run, counts=replace(run.counts, bin=long)))
    assert found.t_us.nunique() <= heat.MOST_BINS
    assert found.requests.sum() == run.counts.count.sum()


def test_answers_in_no_time_are_no_failures(results):
    run = summarise_run(results.runs("all")[0])
    at_once = replace(run, counts=replace(run.counts, value=np.zeros_like(run.counts.value)))
    found = heat.run_heat(at_once)
    assert (found.bucket == heat.FAILED).sum() == (~run.counts.ok).any()
    assert found[found.bucket == 0].requests.sum() == run.counts.count[run.counts.ok].sum()


def test_nothing_and_other_schedules_are_left_out(results):
    run = heat.run_heat(summarise_run(results.runs("all")[0]))
    assert heat.pooled_heat([run.iloc[:0]]).empty
    other = run.assign(bin_us=run.bin_us * 3 // 2)
    pd.testing.assert_frame_equal(heat.pooled_heat([run, other]), heat.pooled_heat([run]))


def test_a_run_that_lasted_a_little_longer_is_not_left_out(results):
    """96 bins fit two by two, 97 do not: who waits for answers is due a moment later in one run than in another."""
    run = summarise_run(results.runs("all")[0])
    every = run.counts.count.sum()
    parts = []
    for last in (95, 96):
        spread = np.linspace(0, last, run.counts.bin.size).astype(np.int32)
        parts.append(heat.run_heat(replace(run, counts=replace(run.counts, bin=spread))))
    assert parts[0].bin_us.iloc[0] != parts[1].bin_us.iloc[0]
    table = heat.pooled_heat(parts)
    assert table.requests.sum() == 2 * every
    assert table.bin_s.nunique() == 1
    assert table.groupby("t_s").share.sum().to_numpy() == pytest.approx(1.0)
