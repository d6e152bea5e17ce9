"""What several workers say, as if one had said it."""

from __future__ import annotations

from towtank.load.events import Done, Progress, Ready
from towtank.load.workers.merging import merged_done, merged_progress, merged_ready


def done(rows, *, stopped_by="schedule", end_us=1_000_000, **own):
    counts = {"due": rows, "rows": rows, "by_outcome": {"answered": rows - 1, f"check:{rows}": 1}}
    window = {"start_us": 0, "end_us": end_us, "drained_us": rows, "last_us": rows - 1}
    return Done(counts, window, own, [], stopped_by)


def test_counts_are_added_and_of_quantiles_the_worst_is_told():
    merged = merged_done(
        [done(10, lag_p99_us=50, cpu_user_s=0.25), done(30, lag_p99_us=900, cpu_user_s=0.5)],
        [{"path": "r.parquet", "rows": 40, "bytes": 7, "crc32": 1}],
    )
    assert merged.counts == {
        "due": 40, "rows": 40, "by_outcome": {"answered": 38, "check:10": 1, "check:30": 1}
    }  # fmt: skip
    assert merged.window == {"start_us": 0, "end_us": 1_000_000, "drained_us": 30, "last_us": 29}
    assert (merged.self_["lag_p99_us"], merged.self_["cpu_user_s"]) == (900, 0.75)
    assert (merged.self_["record_bytes_parquet"], merged.stopped_by) == (7, "schedule")


def test_a_run_that_was_ended_has_measured_what_all_have():
    merged = merged_done([done(5), done(5, stopped_by="stop", end_us=300)], [])
    assert (merged.stopped_by, merged.window["end_us"]) == ("stop", 300)
    by_count = merged_done([done(5, stopped_by="count", end_us=300), done(5)], [])
    assert (by_count.stopped_by, by_count.window["end_us"]) == ("schedule", 1_000_000)


def test_the_same_second_of_all():
    merged = merged_progress(
        [
            Progress(1_000_100, due=5, p95_us=10.0, cpu_cores=0.5),
            Progress(1_000_000, due=7, p50_us=2.0, p95_us=90.0, cpu_cores=0.25),
        ]
    )
    assert merged == Progress(1_000_000, due=12, p50_us=2.0, p95_us=90.0, cpu_cores=0.75)


def test_what_is_due_is_due_over_all():
    def ready(due):
        return Ready("1", {"profile": "release"}, "epoll", 2, 5, due)

    assert merged_ready([ready(3), ready(2)]) == Ready("1", {"profile": "release"}, "epoll", 4, 5, 5)
    assert merged_ready([ready(None), ready(None)]).due is None
