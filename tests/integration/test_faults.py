"""An experiment with a fault as its factor, from the file to the report: real processes, a real load, the real tool."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from support import small_study as study
from towtank.analysis import analyse
from towtank.store import Results

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
EXAMPLE = study.ROOT / "studies" / "examples" / "faults"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The example in its short form, in a folder of its own."""
    folder = tmp_path_factory.mktemp("faults") / "faults"
    done = study.towtank(
        "run", EXAMPLE, "--profile", "smoke", "--plain", "--no-report", "--results", folder,
        "--set", "max_invalid_repeats=0", timeout=280,
    )  # fmt: skip
    assert done.returncode in (0, 6), done.stderr
    pardon(folder)
    done = study.towtank("report", folder)
    assert done.returncode == 0, done.stderr
    return folder


def pardon(results):
    """That the machine was busy is not what is tested here: such runs count all the same."""
    for path in results.glob("runs/*/run.json"):
        record = json.loads(path.read_text("utf-8"))
        reasons = {reason["name"] for reason in record["verdicts"]["instrument_reasons"]}
        assert not reasons & {"fault_failed", "engine_lost", "platform_lost"}, record["verdicts"]
        record["verdicts"] |= {"instrument": "valid", "instrument_reasons": []}
        path.write_text(json.dumps(record), encoding="utf-8")


def of(results, level):
    return [
        r
        for r in study.records(results).values()
        if r["levels"]["fault"] == level and r["state"] == "complete"
    ]


def test_every_run_keeps_when_its_fault_was_on(results):
    for level in ("kill", "stop"):
        for record in of(results, level):
            (fault,) = record["faults"]
            assert (fault["kind"], fault["target"], fault["instances"]) == (level, "stock", ["stock-0"])
            assert fault["planned_us"] == 5_000_000 <= fault["began_us"]
            assert fault["undone_us"] - fault["began_us"] >= 1_900_000
    for record in of(results, "none"):
        assert record["faults"][0]["began_us"] is None


def test_faults_are_events_on_the_runs_clock(results):
    (run, *_) = [name for name, r in study.records(results).items() if r["levels"]["fault"] == "kill"]
    events = pq.read_table(results / "runs" / run / "events.parquet").to_pylist()
    made = [event for event in events if event["source"] == "fault"]
    assert [event["kind"] for event in made] == ["fault_began", "fault_undone"]
    assert {event["instance"] for event in made} == {"stock-0"}
    assert json.loads(made[0]["detail"])["planned_us"] == 5_000_000
    assert not [event for event in events if event["kind"] == "crashed"]


def test_what_the_fault_did_is_in_the_numbers(results):
    """For two of the eight seconds from its start on the window cannot know; without the fault it always can."""
    analysis = analyse(Results.open(results))
    found = {t.levels["fault"]: t.estimates for t in analysis.treatments}
    for level in ("kill", "stop"):
        assert 0.3 < found[level]["availability"].mean < 0.85, level
        assert found[level]["fault_failed"].mean > 60
        assert found[level]["time_to_recover"].mean >= 1.5
        assert found[level]["availability"].n == 2
    assert found["none"]["availability"].mean > found["kill"]["availability"].mean + 0.1
    made = [finding for finding in analysis.findings if finding.name == "fault_made"]
    assert len(made) == 2
    assert {fault["kind"] for fault in analysis.faults} == {"kill", "stop"}


def test_the_report_shows_and_shades_them(results):
    page = (results / "report" / "report.html").read_text("utf-8")
    assert "Red: while a fault was on (" in page
    assert "kill of stock-0" in page
    assert "Faults: mean over runs" in page
    assert "time to recover" in page.lower()
    assert "availability" in page.lower()


def test_nothing_is_left(results):
    assert not list((results / "intents").iterdir())
    assert not (results / "scratch").exists()
    assert not study.alive_below(EXAMPLE)
