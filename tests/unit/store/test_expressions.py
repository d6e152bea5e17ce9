"""SQL as a response variable: bound when planned, evaluated over one run, never an error and never nan."""

from __future__ import annotations

import math

import pytest

from towtank.store import Results
from towtank.store.expressions import EmptyRun, measure


@pytest.fixture(scope="module")
def empty():
    with EmptyRun() as opened:
        yield opened


@pytest.fixture(scope="module")
def results(stored):
    return Results.open(stored)


def run_of(results, run_id):
    return next(run for run in results.runs("all") if run.run_id == run_id)


def said(results, sql, *, name="x", run="b01-one-a1"):
    return measure(results, run_of(results, run), {name: sql})[name]


@pytest.mark.parametrize(
    "sql",
    [
        "select avg((latency_us > 300000)::int) from requests where in_window",
        "select count(*) from events where kind = 'oom_killed'",
        "with s as (select end_second, sum(count) as n from totals group by 1) select max(n) from s",
        "select quantile_cont(journey_us, 0.999) / 1e6 from iterations where in_window",
        "select sum(bytes_in)::decimal(18, 2) from requests",
        "select bool_or(ok) from requests",
    ],
)
def test_numbers_over_the_views_are_fine(empty, sql):
    assert empty.problem(sql) == ""


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("select avg(latency) from requests", "latency"),
        ("select 1 from reqests", "reqests"),
        ("selec 1", "selec"),
        ("select 1; select 2", "one SQL statement"),
        ("select count(*), avg(latency_us) from requests", "2 columns"),
        ("select max(outcome) from requests", "VARCHAR"),
        ("select count(*) from read_csv('/etc/passwd')", "disabled"),
        ("select count(*) from read_parquet('https://example.org/x.parquet')", "disabled"),
        ("copy requests to '/tmp/out.csv'", "refused"),
        ("insert into store.runs select * from runs", "refused"),
        ("attach '/tmp/x.db'", "refused"),
        ("", "SQL"),
    ],
)
def test_what_is_none_is_refused_with_the_reason(empty, sql, word):
    problem = empty.problem(sql)
    assert word in problem
    assert "\n" not in problem


def test_a_check_runs_nothing(empty):
    """It would not end if it did."""
    assert empty.problem("select count(*) from range(10000000000000)") == ""


def test_it_sees_one_attempt_only(results):
    everything = sum(
        measure(results, run, {"n": "select count(*) from requests"})["n"].value or 0
        for run in results.runs("complete")
    )
    one = said(results, "select count(*) from requests")
    assert 0 < one.value < everything
    assert said(results, "select count(distinct run_id) from runs").value == 1
    alone = run_of(results, "b01-one-a1").requests().to_table(columns=["scheduled_us"]).num_rows
    assert one.value == alone


def test_the_value_is_that_of_the_requests(results):
    found = said(
        results, "select avg((latency_us > 10000)::int) from requests where in_window", name="slow_ratio"
    )
    rows = run_of(results, "b01-one-a1").requests().to_table().to_pandas()
    total = rows["ttfb_us"].fillna(0) + rows["after_ttfb_us"]
    latency = (rows["lag_us"] + rows["wait_us"] + total.fillna(0))[~rows["warmup"]]
    assert found.value == pytest.approx(float((latency > 10_000).mean()), rel=1e-12)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("select avg(latency_us) from requests where step = 'nowhere'", "null"),
        ("select latency_us from requests", "several rows"),
        ("select latency_us from requests where false", "no row"),
        ("select -1", "never negative"),
        ("select 1e308::double * 10", "finite"),
        ("select 'nan'::double", "finite"),
        ("select outcome::int from requests", "failed"),
        ("select 1, 2", "2 columns"),
        ("select nothing", "failed"),
    ],
)
def test_what_cannot_be_said_has_a_reason(results, sql, reason):
    found = said(results, sql)
    assert found.value is None
    assert reason in found.reason
    assert "\n" not in found.reason


def test_a_share_is_from_0_to_1(results):
    assert said(results, "select 1.5", name="slow_ratio").value is None
    assert said(results, "select 1.5", name="slow_s").value == 1.5
    assert said(results, "select true", name="slow_ratio").value == 1.0


def test_a_run_without_load_says_so(results):
    killed = next(run for run in results.runs("all") if run.record.window is None)
    found = measure(results, killed, {"x": "select 1"})["x"]
    assert found.value is None
    assert "before its load was recorded" in found.reason
    assert not math.isnan(measure(results, run_of(results, "b01-one-a1"), {"x": "select 1"})["x"].value)
