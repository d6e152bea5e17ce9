"""Bytes logged by the second, bursts, and the part of a long log that belongs to one run."""

from __future__ import annotations

import json

from towtank.campaign.logged import incomplete_logs, logged, with_window
from towtank.campaign.logs import LogMarks
from towtank.clock import RunClock
from towtank.platforms.base import LogFile
from towtank.platforms.masking import Secrets
from towtank.store.log_lines import TimedLog, timed_logs, times_path
from towtank.store.run_record import Window

S = 1_000_000_000
ZERO = 100 * S


def note(log, *noted):
    with times_path(log).open("a") as file:
        file.writelines(f"{t} {b} {n}\n" for t, b, n in noted)


def test_bytes_of_each_second_and_a_burst(tmp_path):
    """1000 bytes a second, but 900,000 in the third; what came before the load is not of it."""
    log = tmp_path / "app-0.log"
    log.write_text("")
    total, noted = 5000, [(ZERO - S, 5000, 0)]
    for second in range(6):
        total += 900_000 if second == 2 else 1000
        noted.append((ZERO + second * S + S // 2, total, 0))
    note(log, *noted)
    samples, events = logged(timed_logs(tmp_path), RunClock(ZERO), 6_000_000)
    assert [(s.t_us, s.value) for s in samples] == [
        (1_000_000, 1000.0), (2_000_000, 1000.0), (3_000_000, 900_000.0), (4_000_000, 1000.0), (5_000_000, 1000.0),
        (6_000_000, 1000.0),
    ]  # fmt: skip
    assert {(s.source, s.instance, s.metric) for s in samples} == {("logs", "app-0", "logged_bytes_per_s")}
    (burst,) = events
    assert (burst.kind, burst.instance, burst.t_us) == ("log_burst", "app-0", 2_000_000)
    assert burst.message == "app-0 logged 879 KiB within a second, 900 times its median second"
    assert "--from 2s --to 3s" in json.loads(burst.detail)["advice"]


def test_little_is_no_burst_and_much_all_the_time_is_none_either(tmp_path):
    for name, each in (("little", [0, 0, 60_000, 0]), ("much", [10**6] * 4)):
        log = tmp_path / f"{name}.log"
        log.write_text("")
        total = 0
        for second, count in enumerate(each):
            total += count
            note(log, (ZERO + second * S + 1, total, 0))
    samples, events = logged(timed_logs(tmp_path), RunClock(ZERO), 4_000_000)
    assert len(samples) == 8
    assert events == []


def test_an_instance_that_logged_nothing_then_has_no_samples(tmp_path):
    """Of five thousand silent pods there is nothing to keep."""
    for name, at in (("silent", ZERO - S), ("once", ZERO + S + 1)):
        log = tmp_path / f"{name}.log"
        log.write_text("")
        note(log, (at, 5000, 0))
    samples, _ = logged(timed_logs(tmp_path), RunClock(ZERO), 3_000_000)
    assert [(s.instance, s.value) for s in samples] == [("once", 0.0), ("once", 5000.0), ("once", 0.0)]


def test_the_part_of_a_run_keeps_its_times_and_counts_what_was_cut(tmp_path):
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    target.mkdir()
    log = source / "app-0.log"
    log.write_bytes(b"old\nold too\n")
    note(log, (1 * S, 4, 1))  # the time of the second line is not written yet
    marks = LogMarks.take(source)
    with log.open("ab") as file:
        file.write(b"new\nnewer\n")
    note(log, (2 * S, 12, 2), (3 * S, 16, 3), (4 * S, 22, 4), (5 * S, 1022, 4))
    (facts,) = marks.copy_new(source, target)
    assert facts == {"instance": "app-0", "file": "app-0.log", "bytes_written": 1010, "bytes_kept": 10}
    copied = TimedLog.read(target / "app-0.log")
    assert [(line.t_us, line.text) for line in copied.lines(0, 0, 1e12)] == [
        (3_000_000, "new"),
        (4_000_000, "newer"),
    ]
    assert copied.bytes_at(5 * S) == 1010


def test_masking_leaves_lines_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("A_KEY", "begin\nmiddle\nend")
    path = tmp_path / "a.log"
    path.write_text("one\nbegin\nmiddle\nend\nfive\n")
    Secrets(["A_KEY"]).mask_file(path)
    assert path.read_text() == "one\n***\n\n\nfive\n"


def test_bytes_of_the_window_and_of_the_whole_load_are_facts_of_a_log(tmp_path):
    """Of six seconds with 100 bytes each the window has the third to the fifth, the load all five before its end."""
    log = tmp_path / "web-1.app.log"
    log.write_text("")
    times = ((ZERO + second * S + S // 2, (second + 2) * 100, second + 1) for second in range(6))
    note(log, (ZERO - S, 100, 0), *times)
    facts = [{"instance": "web-1.app", "file": log.name}, {"instance": "x", "file": "untimed.log"}]
    window = Window(start_us=2_000_000, end_us=5_000_000, drained_us=5_000_000)
    first, second = with_window(facts, timed_logs(tmp_path), RunClock(ZERO), window)
    assert first == {**facts[0], "bytes_in_window": 300, "bytes_in_drive": 500}
    assert second == facts[1]


def test_a_log_that_is_not_whole_is_an_event_with_advice():
    logs = [
        {"instance": "a", "file": "a.log"},
        {"instance": "b", "file": "b.log", "incomplete": "it was refused"},
    ]
    (event,) = incomplete_logs(logs, 7)
    assert (event.t_us, event.source, event.kind, event.instance) == (7, "logs", "log_incomplete", "b")
    assert "it was refused" in event.message
    assert json.loads(event.detail)["advice"]


def test_the_part_of_a_run_is_masked_and_says_what_the_deployment_says(tmp_path, monkeypatch):
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    target.mkdir()
    monkeypatch.setenv("A_KEY", "swordfish")
    marks = LogMarks.take(source)
    (source / "web-1.app.log").write_bytes(b"the key is swordfish, \xff\n")
    (source / "edge-proxy.log").write_bytes(b"of our own\n")
    known = LogFile("web-1.app", source / "web-1.app.log", 0, 0, "half of it", {"pod": "web-1"})
    (facts,) = marks.copy_new(source, target, [known], Secrets(["A_KEY"]).mask)
    assert (target / "web-1.app.log").read_bytes() == b"the key is ***, \xff\n"
    assert (facts["pod"], facts["incomplete"], facts["bytes_written"]) == ("web-1", "half of it", 24)
