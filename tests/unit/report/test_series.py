from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from support.sample_analysis import sample_analysis
from towtank.report import series

COLUMNS = [
    "treatment_id",
    "run_id",
    "t_s",
    "bin_s",
    "requests_per_s",
    "done_per_s",
    "p50_s",
    "p95_s",
    "goodput",
    "due",
]


def analysis_of(rows, resources=()):
    runs = sample_analysis().runs
    names = {row[1] for row in rows} | {row[1] for row in resources}
    some = tuple(replace(runs[0], run_id=name, instrument="valid") for name in sorted(names))
    return replace(
        sample_analysis(),
        runs=some,
        timeseries=pd.DataFrame(rows, columns=COLUMNS),
        resources=pd.DataFrame(
            resources, columns=["treatment_id", "run_id", "t_s", "instance", "metric", "value"]
        ),
    )


def row(run, t, p95, *, goodput=1.0, due=10):
    return ("a", run, t, 1.0, 10.0, 10.0, 0.001, p95, goodput, due)


def one(frame, variable, t=0.0):
    return frame[(frame.variable == variable) & (frame.t_s == t)].iloc[0]


def test_the_line_is_the_middle_run_and_the_band_holds_every_run():
    found = one(
        series.bands(analysis_of([row("r1", 0, 0.01), row("r2", 0, 0.02), row("r3", 0, 0.9)])), "p95_s"
    )
    assert (found.low, found.mid, found.high) == (
        0.01,
        0.02,
        0.9,
    )  # a run's own value, not an average of percentiles
    assert found.failing == 0


def test_a_percentile_among_failures_ranks_above_every_success():
    rows = [row("r1", 0, 0.01), row("r2", 0, None, goodput=0.5), row("r3", 0, None, goodput=0.4)]
    found = one(series.bands(analysis_of(rows)), "p95_s")
    assert found.low == 0.01
    assert np.isinf(found.mid)
    assert np.isinf(found.high)
    assert found.failing == pytest.approx(2 / 3)


def test_a_bin_without_requests_is_a_gap_not_a_failure():
    frame = series.bands(analysis_of([row("r1", 0, 0.01), row("r1", 1, None, due=0)]))
    assert frame[(frame.variable == "p95_s") & (frame.t_s == 1)].empty


def test_invalid_runs_are_not_drawn():
    analysis = analysis_of([row("r1", 0, 0.01), row("r2", 0, 9.0)])
    runs = (analysis.runs[0], replace(analysis.runs[1], instrument="invalid"))
    assert one(series.bands(replace(analysis, runs=runs)), "p95_s").high == 0.01


def test_too_many_bins_are_joined_without_losing_an_extreme():
    rows = [row("r1", t, 5.0 if t == 777 else 0.01) for t in range(1000)]
    frame = series.bands(analysis_of(rows))
    p95 = frame[frame.variable == "p95_s"]
    assert len(p95) <= series.MAX_BINS
    assert p95.high.max() == 5.0


def test_resources_are_summed_over_instances_then_ranked_over_runs():
    resources = [
        ("a", run, t, app, "cpu_cores", value)
        for run, value in (("r1", 0.2), ("r2", 0.4))
        for t in (0.0, 0.5)
        for app in ("app-0", "app-1")
    ]
    found = one(series.bands(analysis_of([row("r1", 0, 0.01), row("r2", 0, 0.01)], resources)), "cpu_cores")
    assert (found.low, found.high) == (pytest.approx(0.4), pytest.approx(0.8))


def test_nothing_measured_is_nothing_drawn():
    assert series.bands(analysis_of([])).empty
