"""Lines of logs by the run's time."""

from __future__ import annotations

import math

import pytest

from towtank.store.log_lines import LogLine, Noted, TimedLog, in_order, read_times, timed_logs, times_path

MS = 1_000_000


def write(folder, name, text, *noted):
    log = folder / f"{name}.log"
    log.write_bytes(text)
    times_path(log).write_text("".join(f"{t} {b} {n}\n" for t, b, n in noted))
    return TimedLog.read(log)


def lines(log, from_us=-math.inf, to_us=math.inf, zero_ns=0):
    return [(line.t_us, line.text) for line in log.lines(zero_ns, from_us, to_us)]


def test_a_line_has_the_time_at_which_it_was_there(tmp_path):
    """Two lines by 10 ms, the beginning of the third by 20 ms, its end and a fourth by 30 ms."""
    log = write(
        tmp_path, "a", b"one\ntwo\nthree\nfour\n", (10 * MS, 8, 2), (20 * MS, 10, 2), (30 * MS, 19, 4)
    )
    assert lines(log) == [(10_000, "one"), (10_000, "two"), (30_000, "three"), (30_000, "four")]
    assert lines(log, zero_ns=25 * MS) == [
        (-15_000, "one"),
        (-15_000, "two"),
        (5_000, "three"),
        (5_000, "four"),
    ]


@pytest.mark.parametrize(
    ("from_us", "to_us", "found"),
    [(0, 10_000, []), (10_000, 10_001, ["one"]), (10_001, 30_000, []), (10_001, 30_001, ["two"])],
)
def test_from_belongs_to_it_and_to_does_not(tmp_path, from_us, to_us, found):
    log = write(tmp_path, "a", b"one\ntwo\n", (10 * MS, 4, 1), (30 * MS, 8, 2))
    assert [text for _, text in lines(log, from_us, to_us)] == found


def test_what_came_after_the_last_note_counts_as_then(tmp_path):
    log = write(tmp_path, "a", b"one\ntwo\nno end", (10 * MS, 4, 1))
    assert lines(log) == [(10_000, "one"), (10_000, "two"), (10_000, "no end")]


def test_a_log_without_times_has_no_lines_and_is_not_found(tmp_path):
    (tmp_path / "engine.log").write_text("x\n")
    assert timed_logs(tmp_path) == []
    assert lines(TimedLog.read(tmp_path / "engine.log")) == []


def test_bytes_are_counted_also_where_nothing_was_kept(tmp_path):
    log = write(tmp_path, "a", b"one\n", (10 * MS, 4, 1), (20 * MS, 1000, 1))
    assert [log.bytes_at(t * MS) for t in (9, 10, 19, 20, 99)] == [0, 4, 4, 1000, 1000]


def test_a_torn_or_foreign_line_is_left_out(tmp_path):
    path = tmp_path / "a.log.times"
    path.write_text("5 70 2\nhello\n1 2\n6 80 3\n7 9")
    assert list(read_times(path)) == [Noted(5, 70, 2), Noted(6, 80, 3)]


def test_several_logs_are_in_one_order(tmp_path):
    write(tmp_path, "b", b"1\n4\n", (10 * MS, 2, 1), (40 * MS, 4, 2))
    write(tmp_path, "a", b"2\n3\n", (20 * MS, 2, 1), (30 * MS, 4, 2))
    found = list(in_order(timed_logs(tmp_path), 0, -math.inf, math.inf))
    assert [line.text for line in found] == ["1", "2", "3", "4"]
    assert found[1] == LogLine(20_000, "a", "2")
