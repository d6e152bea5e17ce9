"""Bytes logged as a response variable, each by hand."""

import json

import pytest

from support.run_tables import FakeRun, Req
from towtank.analysis.logs import VARIABLES, bursts, logged_bytes, logged_values
from towtank.analysis.summaries import summarise_run

S = 1_000_000
REQUESTS = (Req(1 * S, 10_000), Req(2 * S, 20_000))


def record(*logs):
    return FakeRun(REQUESTS).record.model_copy(update={"logs": list(logs)})


def log(number, **more):
    return {"instance": "app-0", "file": "app-0.log", "bytes_in_window": number, **more}


def test_what_was_logged_in_the_window_of_three_seconds():
    silent = {"instance": "quiet", "file": "quiet.log", "bytes_written": 0}
    found = logged_values(record(log(600), log(300), silent), 2)
    assert [found[name].value for name in VARIABLES] == [900, pytest.approx(300), 450]


def test_a_log_of_unknown_times_is_not_left_out_of_the_sum():
    untimed = {"instance": "old", "file": "old.log", "bytes_written": 70}
    found = logged_values(record(log(600), untimed), 2)
    assert {found[name].value for name in VARIABLES} == {None}
    assert found["bytes_logged"].reason.startswith("the log of old has no times")


def test_the_whole_load_has_more_than_the_window():
    both = record(log(600, bytes_in_drive=800), log(0, bytes_in_drive=50))
    assert (logged_bytes(both, "bytes_in_window").value, logged_bytes(both, "bytes_in_drive").value) == (
        600,
        850,
    )
    older = logged_bytes(record(log(600, bytes_in_drive=800), log(300)), "bytes_in_drive")
    assert (older.value, "older Towtank" in older.reason) == (None, True)


def test_nothing_is_zero_but_unknown_is_not():
    assert logged_values(record(log(0)), 2)["bytes_logged"].value == 0
    unknown = logged_values(record(), 2)["bytes_logged"]
    assert (unknown.value, unknown.reason) == (None, "no output of the deployment was followed")
    cut = logged_values(record(log(5), log(7, incomplete="it was refused")), 2)["bytes_logged_per_request"]
    assert cut.value is None
    assert "it was refused" in cut.reason
    assert logged_values(record(log(5)), 0)["bytes_logged_per_request"].value is None


def test_they_are_known_of_every_run():
    known = {"bytes_logged", "bytes_logged_per_request"}
    assert known <= set(summarise_run(FakeRun(REQUESTS)).summary.values)
    asked = summarise_run(FakeRun(REQUESTS), wanted=["bytes_logged_per_s"]).summary.values
    assert asked["bytes_logged_per_s"].reason == "no output of the deployment was followed"


def test_bursts_are_told_with_run_and_time():
    detail = json.dumps({"bytes": 70_000, "advice": "log less"})
    rows = [
        (2 * S, "logs", "log_burst", "app-0", "", detail),
        (3 * S, "other", "log_burst", "app-0", "", "{}"),
    ]
    found = bursts(FakeRun(REQUESTS, events_rows=rows).events(), treatment_id="t", run_id="r")
    assert found == [{"treatment_id": "t", "run_id": "r", "t_s": 2.0, "instance": "app-0", "bytes": 70_000}]
