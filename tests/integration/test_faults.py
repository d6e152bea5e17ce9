"""An experiment with a fault as its factor, from the file to the report: real processes, a real load, the real tool."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from support import small_study as study
from support.peers import found_or_skipped
from towtank.analysis import analyse
from towtank.platforms import edge_proxy
from towtank.store import Results

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(300)]
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
        assert found[level]["fault_failures"].mean > 60
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


EDGE = """\
experiment: edge
question: What does a slow stock cost the window?
repetitions: 2
seed: 4
max_invalid_repeats: 0
factors: {fault: [none, slow]}
deployments:
  shop:
    platform: local
    components:
      window: &service
        command: ["{python}", SERVER, --port, "{port}", --stock, "{url.stock}/"]
        ready: {http: /health}
      stock: {<<: *service, command: ["{python}", SERVER, --port, "{port}"]}
workloads:
  visitors:
    timeout: 2s
    load: {model: open, rate: 20/s, duration: 5s}
    journey: {steps: [{name: look, target: window, path: /}]}
faults:
  - {kind: delay, when: "${{ fault == 'slow' }}", at: 2s, for: 2s, delay: 150ms, from: window, target: stock}
"""


def test_a_fault_on_an_edge_is_made_in_a_run(tmp_path):
    """Only the treatment that has it is slow, and only while it is on; the proxy stands there in both."""
    found = found_or_skipped(edge_proxy.PROGRAM)
    file = tmp_path / "experiment.yaml"
    file.write_text(EDGE.replace("SERVER", str(EXAMPLE / "server.py")), encoding="utf-8")
    done = study.towtank("run", file, "--plain", "--no-report", timeout=200, **{edge_proxy.VARIABLE: found})
    assert done.returncode in (0, 6), done.stderr
    results = tmp_path / "results" / "edge"
    for name, record in study.records(results).items():
        assert (results / "runs" / name / "logs" / "edge-proxy.log").exists()
        rows = pq.read_table(results / "runs" / name / "requests.parquet").to_pylist()
        (fault,) = record["faults"]
        if record["levels"]["fault"] == "none":
            assert fault["began_us"] is None
            continue
        inside = [
            row
            for row in rows
            if fault["began_us"] + 50_000 < row["scheduled_us"] < fault["undone_us"] - 400_000
        ]
        assert len(inside) >= 20
        assert min((row["ttfb_us"] or 0) + row["after_ttfb_us"] for row in inside) >= 145_000
        before = sorted((r["ttfb_us"] or 0) for r in rows if r["scheduled_us"] < 1_800_000)
        assert before[len(before) // 4] < 145_000
