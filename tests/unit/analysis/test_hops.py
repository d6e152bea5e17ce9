"""Where the time of requests went: self times, groups, findings."""

from __future__ import annotations

import pytest

from towtank.analysis import hops
from towtank.analysis.hops import RunHops, Sums
from towtank.analysis.self_times import RequestTimes, Work, covered_us, take_apart
from towtank.analysis.trace_findings import trace_findings


def work(name: str, parent: str, start: int, end: int, place: str = "here") -> Work:
    return Work(name, parent, ("app", name), ("app", place), start, end)


def apart(*spans: Work, started: int = 0, ended: int = 100) -> tuple[dict[str, int], int, bool]:
    found = take_apart(spans, parent_id="r", started_us=started, ended_us=ended)
    return {hop[1]: numbers[0] for hop, numbers in found.self_us.items()}, found.outside_us, found.whole


def test_self_time_is_what_children_do_not_cover() -> None:
    spans = (work("a", "r", 10, 90), work("b", "a", 20, 40), work("c", "b", 25, 30))
    assert apart(*spans) == ({"a": 60, "b": 15, "c": 5}, 20, True)


def test_children_that_overlap_count_once_for_their_parent() -> None:
    spans = (work("a", "r", 0, 100), work("b", "a", 10, 60), work("c", "a", 40, 80), work("d", "a", 45, 50))
    assert apart(*spans) == ({"a": 30, "b": 50, "c": 40, "d": 5}, 0, True)


def test_what_goes_on_after_the_parent_is_not_waited_for() -> None:
    assert apart(work("a", "r", 10, 50), work("late", "a", 40, 200)) == ({"a": 30, "late": 160}, 60, True)


def test_a_child_on_another_clock_is_put_inside_its_parent() -> None:
    """Its machine is 1,000 behind; on the same machine it would be work before the parent, and cover nothing."""
    spans = (work("a", "r", 1000, 1100), work("b", "a", 0, 40, "there"))
    assert apart(*spans, started=1000, ended=1100)[0] == {"a": 60, "b": 40}
    assert apart(spans[0], work("b", "a", 0, 40), started=1000, ended=1100)[0] == {"a": 100, "b": 40}
    longer = (work("a", "r", 0, 100), work("b", "a", 90, 290, "there"))
    assert apart(*longer)[0] == {"a": 0, "b": 200}


def test_several_outermost_spans_and_none() -> None:
    assert apart(work("a", "r", 0, 40), work("b", "r", 30, 60)) == ({"a": 40, "b": 30}, 40, True)
    assert apart(work("a", "gone", 10, 20)) == ({"a": 10}, 100, False)
    assert apart(work("a", "r", 0, 40), work("b", "gone", 10, 20))[2] is False


def test_a_span_sent_twice_counts_once() -> None:
    assert apart(work("a", "r", 10, 20), work("a", "r", 10, 20)) == ({"a": 10}, 90, True)


def test_covered_time_stays_within() -> None:
    assert covered_us((10, 20), []) == 0
    assert covered_us((10, 20), [(0, 5), (25, 30), (0, 12), (11, 13), (19, 99)]) == 4


def requests(number: int) -> list[hops._Request]:
    """Latencies 1 … number ms, all of it in one span."""
    return [
        hops._Request("s", 0, 0, ms * 1000, RequestTimes({("app", "a"): (ms * 1000, 1, 0)}, 0, True))
        for ms in range(1, number + 1)
    ]


def table_of(*numbers: int):
    runs = [RunHops(f"r{i}", hops._groups(requests(n)), n, 0, 0, 0) for i, n in enumerate(numbers)]
    found = hops.table({"t": runs})
    return {(row.group, row.kind): row for row in found.itertuples()}


def test_median_and_slow_requests_are_those_of_their_run() -> None:
    rows = table_of(100)
    assert rows["median", "span"].requests == 20
    assert rows["median", "span"].self_s == pytest.approx(0.0505)
    slow = rows["slow", "span"]
    assert (slow.percentile, slow.requests) == (95, 5), "one request above the 99th is too few"
    assert slow.self_s == pytest.approx(0.098)
    assert slow.latency_s == pytest.approx(0.098)


def test_the_99th_percentile_where_runs_together_have_enough() -> None:
    rows = table_of(1000, 1000)
    slow = rows["slow", "span"]
    assert (slow.percentile, slow.requests) == (99, 20)
    assert slow.self_s == pytest.approx(0.9955)
    assert (table_of(1000)["slow", "span"].percentile) == 95


def test_hops_beyond_a_number_are_taken_together() -> None:
    sums = Sums(1, 1000, {("span", "app", f"id {i}"): (i, 1, i) for i in range(50)})
    found = hops.table({"t": [RunHops("r", {("s", "median"): sums, ("s", "slow-95"): sums}, 1, 0, 0, 0)]})
    median = found[found["group"] == "median"]
    assert len(median) == hops.MOST_HOPS
    assert median["self_s"].sum() == pytest.approx(sum(range(50)) / 1e6)
    other = median[median.kind == "other"].iloc[0]
    assert other.spans == 50 - (hops.MOST_HOPS - 1)


def test_rows_are_in_the_order_in_which_hops_begin() -> None:
    parts = {("outside", "", ""): (5, 0, 0), ("span", "app", "b"): (5, 1, 30), ("span", "app", "a"): (5, 1, 10),
             ("before", "", ""): (1, 0, 0)}  # fmt: skip
    sums = Sums(1, 16, parts)
    found = hops.table({"t": [RunHops("r", {("s", "median"): sums}, 1, 0, 0, 0)]})
    assert list(found[found["group"] == "median"]["name"]) == ["", "a", "b", ""]


def test_nothing_is_an_empty_table() -> None:
    assert list(hops.table({})) == list(hops.COLUMNS)
    assert hops.table({"t": [RunHops("r", {}, 0, 0, 0, 9)]}).empty


def test_findings_count_over_runs() -> None:
    runs = [RunHops("r1", {}, 100, 3, 2, 0), RunHops("r2", {}, 50, 0, 1, 7)]
    found = {finding.name: finding for finding in trace_findings(runs)}
    assert found["traces_incomplete"].message.startswith("Of 150 traced requests in 2 runs, 3 have")
    assert found["requests_without_spans"].runs == ("r1",)
    assert "7 spans in 1 run belong" in found["spans_of_no_request"].message
    assert list(trace_findings([RunHops("r", {}, 9, 0, 0, 0)])) == []
