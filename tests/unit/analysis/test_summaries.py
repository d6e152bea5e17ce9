"""One run in numbers, each by hand."""

import pytest

from support.run_tables import FakeRun, Req
from towtank.analysis.summaries import summarise_run
from towtank.analysis.timeseries import mean_timeseries, run_timeseries
from towtank.store.run_record import Window

S = 1_000_000
WARMUP = Req(500_000, 9_000)
REQUESTS = (
    WARMUP,
    Req(1 * S, 10_000, instance="app-1"),
    Req(1_500_000, 20_000),
    Req(2 * S, 30_000, step="put", bytes_in=400),
    Req(2_500_000, 700_000, "check:status", 503),  # due in second 2, complete in second 3
    Req(3 * S, 2 * S, "timeout:first_byte", None, instance=None),
    Req(3_200_000, 5_000, "not_sent", None, instance=None),
    Req(3_900_000, 200_000),  # due in the window, complete after it
    Req(3_950_000, 100, "interrupted", None),
)


def values(run=None, **extra):
    return summarise_run(run or FakeRun(REQUESTS, **extra)).summary.values


def test_shares_and_counts_of_the_window_only():
    found = summarise_run(FakeRun(REQUESTS)).summary
    assert found.due == 8
    assert found.window_s == 3.0
    assert found.values["requests"].value == 8
    assert found.values["goodput"].value == 4 / 8
    assert found.values["error_ratio"].value == 4 / 8
    assert found.outcomes == {
        "answered": 4,
        "check:status": 1,
        "timeout:first_byte": 1,
        "not_sent": 1,
        "interrupted": 1,
    }
    assert found.statuses == {"none": 3, "200": 4, "503": 1}
    assert found.instances == {"app-0": 5, "app-1": 1}


def test_latencies_rank_failures_above():
    """Successes 10, 20, 30, 200 ms, then four failures: the median lies between 200 ms and a failure."""
    found = values()
    assert found["min"].value == pytest.approx(0.010)
    assert found["mean"].value == pytest.approx(0.065)
    assert (found["median"].value, found["median"].above) == (2.0, True)
    assert (found["median_ok"].value, found["median_ok"].above) == (pytest.approx(0.025), False)
    assert found["max"].above
    assert found["max_ok"].value == pytest.approx(0.200)
    assert found["p95_ok"].value == pytest.approx(0.030 + 0.85 * 0.170)


def test_throughput_counts_complete_answers_by_the_second_they_ended_in():
    """Seconds 1, 2, 3 hold 2, 1 and 1 (the 503): what completes after the window is not lent to it."""
    found = values()
    assert found["throughput"].value == pytest.approx(4 / 3)
    assert found["throughput_median"].value == 1
    assert found["bytes_in_per_s"].value == pytest.approx((7 * 100 + 400) / 3)
    assert found["bytes_out_per_s"].value == pytest.approx(80 / 3)


def test_throughput_of_a_window_off_the_second():
    cut = Window(start_us=1_200_000, end_us=3_700_000, drained_us=0)
    assert values(window=cut)["throughput"].value == 1  # the whole second from 2 to 3
    short = Window(start_us=1_200_000, end_us=1_900_000, drained_us=0)
    assert values(window=short)["throughput"].value is None
    assert "no whole second" in values(window=short)["throughput"].reason


def test_wanted_variables_are_added():
    found = summarise_run(FakeRun(REQUESTS), wanted=["p99.9_ok", "p75"]).summary.values
    assert found["p99.9_ok"].value == pytest.approx(0.030 + 0.997 * 0.170)
    assert found["p75"].above


def test_steps():
    steps = dict(summarise_run(FakeRun(REQUESTS)).steps)
    assert steps["put"]["requests"].value == 1
    assert steps["put"]["p95"].value == pytest.approx(0.03)
    assert steps["get"]["requests"].value == 7


def test_a_bound_of_a_step_is_its_own_timeout():
    slow = [*REQUESTS, Req(1_500_000, 3_000_000, "timeout:first_byte", None, step="put")] * 2
    found = dict(summarise_run(FakeRun(slow), step_limits_s={"put": 0.5}).steps)
    assert (found["put"]["max"].value, found["put"]["max"].above) == (0.5, True)
    assert (found["get"]["max"].value, found["get"]["max"].above) == (2.0, True), "the longest of the run"


def test_cpu_is_time_weighted_over_the_window_and_summed_over_instances():
    rows = [
        (t * S // 2, "process", name, "cpu_cores", value)
        for name, series in (
            ("app-0", [9, 9, 1.0, 2.0, 3.0, 9, 9, 9, 9]),
            ("app-1", [0, 0, 0, 0.5, 0.5, 0, 0, 0, 0]),
        )
        for t, value in enumerate(series)
    ] + [(2 * S, "process", "towtank-engine", "cpu_cores", 50.0), (2 * S, "host", "", "cpu_cores", 70.0)]
    found = summarise_run(FakeRun(REQUESTS, rows, window=Window(start_us=S, end_us=2 * S, drained_us=0)))
    # samples at 1.5 s and 2.0 s say what was used in (1, 1.5] and (1.5, 2]: 2 + 0.5 and 3 + 0.5 cores
    assert found.summary.values["cpu_cores"].value == pytest.approx(3.0)


def test_an_instance_that_died_counts_as_zero_from_then_on():
    rows = [(t * S, "process", "app-0", "cpu_cores", 1.0) for t in range(5)]
    rows += [(t * S, "process", "app-1", "cpu_cores", 1.0) for t in range(3)]  # ends at 2 s of [1, 4)
    assert values(FakeRun(REQUESTS, rows))["cpu_cores"].value == pytest.approx(1 + 1 / 3)


def test_memory_is_the_highest_sum_at_one_moment():
    rows = [
        (2 * S, "process", "app-0", "memory_bytes", 100.0), (2 * S, "process", "app-1", "memory_bytes", 50.0),
        (3 * S, "process", "app-0", "memory_bytes", 10.0), (3 * S, "process", "app-1", "memory_bytes", 120.0),
        (5 * S, "process", "app-0", "memory_bytes", 900.0),
    ]  # fmt: skip
    assert values(FakeRun(REQUESTS, rows))["memory_bytes"].value == 150


def test_without_samples_cpu_and_memory_say_so():
    found = values()
    assert found["cpu_cores"].value is None
    assert "no CPU samples" in found["cpu_cores"].reason
    assert found["memory_bytes"].value is None


def test_a_collapse_before_the_load_is_a_result():
    found = values(FakeRun((), system="collapsed", failure="app-0 exited with code 1"))
    assert found["goodput"].value == 0
    assert found["throughput"].value == 0
    assert found["collapsed"].value == 1
    assert (found["p95"].value, found["p95"].above) == (2.0, True)
    assert found["p95_ok"].value is None
    assert found["cpu_cores"].value is None
    assert "exited with code 1" in found["p95"].reason


def test_a_run_without_requests_that_did_not_collapse_says_nothing():
    found = values(FakeRun(()))
    assert found["goodput"].value is None
    assert found["p95"].value is None
    assert found["p95"].reason
    nothing_due = values(FakeRun((WARMUP,)))
    assert nothing_due["p95"].reason == "no requests in the measured window"


def test_a_killed_run_is_incomplete():
    found = summarise_run(FakeRun(REQUESTS, state="running", window=None)).summary
    assert found.instrument == "incomplete"
    assert found.values["p95"].value is None


def test_time_series_by_hand():
    frame = run_timeseries(summarise_run(FakeRun(REQUESTS))).set_index("t_s")
    assert frame.index.tolist() == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    assert frame.loc[1.0, ["requests_per_s", "p50_s", "goodput", "due"]].tolist() == [
        2.0,
        pytest.approx(0.01),
        1.0,
        1,
    ]
    assert frame.loc[2.5, "goodput"] == 0
    assert frame["p50_s"].isna()[2.5]  # among failures
    assert frame.loc[3.0, "due"] == 2
    assert frame.loc[1.0, "done_per_s"] == 2  # the rate of second 1
    assert frame.loc[3.0, "done_per_s"] == 1


def test_a_goodput_that_is_not_known_is_not_drawn():
    frame = run_timeseries(summarise_run(FakeRun(REQUESTS, unknown={"goodput": "answers only"})))
    assert frame["goodput"].isna().all()
    assert frame["p50_s"].notna().any()


def test_requests_due_and_done_are_over_the_same_seconds():
    burst = [Req(at * S + 10_000 * n, 100) for at in range(4) for n in range(20)]
    frame = run_timeseries(summarise_run(FakeRun(burst)))
    assert (frame["bin_s"] < 1).all()
    assert frame["requests_per_s"].tolist() == frame["done_per_s"].tolist() == [20.0] * len(frame)


def test_mean_time_series_hides_means_of_bins_with_failures():
    frame = run_timeseries(summarise_run(FakeRun(REQUESTS)))
    other = run_timeseries(summarise_run(FakeRun([*REQUESTS, Req(2_600_000, 1), Req(2_600_000, 1)]))).assign(
        run_id="b"
    )
    import pandas as pd

    found = mean_timeseries(pd.concat([frame, other])).set_index(["variable", "t_s"])
    assert found.loc[("p50_s", 1.0), ["mean", "low", "high", "runs"]].tolist() == pytest.approx(
        [0.01, 0.01, 0.01, 2]
    )
    hidden = found.loc[("p50_s", 2.5)]
    assert hidden["runs"] == 1
    assert hidden[["mean", "high"]].isna().all()
    assert found.loc[("requests_per_s", 2.5), ["mean", "low", "high"]].tolist() == [3, 2, 4]


def test_long_runs_are_drawn_in_long_bins():
    requests = [Req(i * 500_000, 1000) for i in range(2_000)]  # 1000 s in bins of 0.5 s
    run = FakeRun(requests, window=Window(start_us=0, end_us=1000 * S, drained_us=0))
    frame = run_timeseries(summarise_run(run))
    assert frame["bin_s"].unique().tolist() == [10.0]
    assert len(frame) == 100
    assert (frame["requests_per_s"] == 2).all()


def test_one_of_two_workloads():
    """Bare variables count all requests; those of one workload only its own, and its steps bear its name."""
    shop = [Req(1_500_000 + i, 1000 * (i + 1), step="get") for i in range(10)]
    wiki = [Req(1_600_000 + i, 500_000, step="get", workload="wiki") for i in range(8)]
    wiki += [Req(1_700_000 + i, 2_000_000, "timeout:body", None, workload="wiki") for i in range(2)]
    asked = (
        "median[shop]", "goodput[wiki]", "p50[wiki]", "requests[shop]", "p95[batch]", "throughput[shop]",
        "throughput[wiki]", "throughput_median[shop]", "throughput[batch]", "bytes_in_per_s[shop]",
        "bytes_in_per_s[wiki]",
    )  # fmt: skip
    run = summarise_run(FakeRun([*shop, *wiki]), wanted=asked, step_limits_s={"wiki/get": 2.0})
    values = run.summary.values
    assert values["requests"].value == 20
    assert values["requests[shop]"].value == 10
    assert values["median[shop]"].value == pytest.approx(0.0055)
    assert values["p50[wiki]"].value == pytest.approx(0.5)
    assert values["goodput[wiki]"].value == pytest.approx(0.8)
    assert values["throughput[shop]"].value > 0
    assert values["throughput[wiki]"].value > 0
    shares = values["throughput[shop]"].value + values["throughput[wiki]"].value
    assert shares == pytest.approx(values["throughput"].value)
    assert values["throughput[shop]"].value == pytest.approx(10 / run.summary.window_s)
    assert values["throughput_median[shop]"].value is not None
    received = values["bytes_in_per_s[shop]"].value + values["bytes_in_per_s[wiki]"].value
    assert received == pytest.approx(values["bytes_in_per_s"].value)
    assert values["throughput[batch]"].reason == "batch was not driven"
    assert values["p95[batch]"].value is None
    assert values["p95[batch]"].reason == "batch was not driven"
    assert [name for name, _ in run.steps] == ["shop/get", "wiki/get"]


def test_a_single_workload_may_be_named_too():
    run = summarise_run(FakeRun([Req(1_500_000, 1000)]), wanted=("p95[shop]",))
    assert run.summary.values["p95[shop]"] == run.summary.values["p95"]
    assert [name for name, _ in run.steps] == ["get"]
