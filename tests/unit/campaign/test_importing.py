"""Files of other tools become a result folder that analysis, report and SQL read; whole, or not at all."""

import json
import os
from pathlib import Path

import pytest

from towtank.analysis.analyse import analyse
from towtank.campaign.importing import ImportRequest, import_files
from towtank.design.model import Answer
from towtank.errors import ForeignFileError, ResultsError
from towtank.load.importers import label_files
from towtank.report.output import model_of, write_model
from towtank.store import Database, Results

DATA = Path(__file__).parents[2] / "data" / "imports"
LOCUST = "timestamp,request_type,name,response_time_ms,response_length,status_code,exception\n"


def locust_log(path, *, ms, requests=200, failed=0, start=1_795_242_586.0):
    lines = []
    for n in range(requests):
        status, said = (500, "HTTPError") if n < failed else (200, "")
        lines.append(f"{start + n * 0.05:.6f},GET,/items,{ms + n % 7},100,{status},{said}\n")
    path.write_text(LOCUST + "".join(lines))
    return path


@pytest.fixture
def two_variants(tmp_path):
    """Two variants with three runs each: the second takes twice as long."""
    files = [
        locust_log(tmp_path / f"{name}-{n}.csv", ms=ms * (1 + n / 50), failed=0)
        for name, ms in (("old", 20), ("new", 40))
        for n in (1, 2, 3)
    ]
    request = ImportRequest(
        tool="locust", files=label_files(files, []), experiment="doors", question="Which one is slower?",
        warmup_s=1.0, answer=Answer(primary=("p95",), baseline="old"), slo={"p95": 0.030},
    )  # fmt: skip
    target = tmp_path / "results" / "doors"
    done = import_files(request, target)
    return target, done


def test_six_files_are_six_runs_and_the_claim_is_decided(two_variants):
    target, done = two_variants
    assert [run.run_id for run in done[:4]] == ["b01-old-a1", "b02-old-a1", "b03-old-a1", "b01-new-a1"]
    found = analyse(Results.open(target))
    assert [(t.label, t.n_valid) for t in found.treatments] == [("old", 3), ("new", 3)]
    (claim,) = [c for c in found.comparisons if c.confirmatory]
    assert claim.verdict == "worse"
    assert claim.estimate == pytest.approx(1.9, abs=0.2)
    assert found.slo.set_index("treatment_id")["held"].to_dict() == {"old": True, "new": False}
    assert {f.name for f in found.findings} >= {"imported", "lag_unknown", "listed_order"}
    assert "--paired" in next(f.advice for f in found.findings if f.name == "listed_order")
    assert not {f.name for f in found.findings} & {"data_state", "closed_loop"}, "nothing is known of these"


def test_the_report_can_be_written(two_variants, tmp_path):
    target, _ = two_variants
    written = write_model(model_of(target), tmp_path / "report")
    text = written.markdown.read_text()
    assert "whether it sent late cannot be told" in text
    assert "were imported" in text
    assert "of the load that locust made, from when it was sent" in text


def test_what_is_not_known_is_null_and_latency_counts_from_the_actual_start(two_variants):
    target, _ = two_variants
    with Database(Results.open(target)) as database:
        rows = database.query(
            "SELECT count(*) AS n, count(lag_us) AS lag, count(wait_us) AS wait, count(ttfb_us) AS ttfb, "
            'count("user") AS users, count(trace_id) AS trace, min(latency_us) AS low, bool_and(latency_us = total_us) '
            "AS same, count(*) FILTER (warmup) AS warm, count(*) FILTER (in_window) AS measured FROM requests "
            "WHERE run_id = 'b01-old-a1'"
        )
        (row,) = [r for batch in rows.batches() for r in batch.to_pylist()]
        assert (row["n"], row["lag"], row["wait"], row["ttfb"], row["users"], row["trace"]) == (
            200,
            0,
            0,
            0,
            0,
            0,
        )
        assert row["same"]
        assert row["low"] == 20_400
        assert (row["warm"], row["measured"]) == (20, 180)
        (runs,) = database.query("SELECT count(*) AS n FROM iterations").batches()
        assert runs.to_pylist() == [{"n": 0}], "users and iterations are not known"
    record = Results.open(target).runs()[0].record
    assert record.load_model == "foreign"
    assert record.started_utc.startswith("2026-11-21T06:29:46")
    assert set(record.unknown) == {"bytes_out_per_s"}
    assert record.clock is None, "nothing is known of the machine's clock"


def test_throughput_and_goodput_of_an_import(tmp_path):
    path = locust_log(tmp_path / "log.csv", ms=10, requests=400, failed=40)
    request = ImportRequest(
        tool="locust", files=label_files([path], []), experiment="one", question="?", duration_s=20.0
    )
    import_files(request, tmp_path / "one")
    (run,) = analyse(Results.open(tmp_path / "one")).runs
    assert run.values["goodput"].value == pytest.approx(0.9)
    assert run.values["throughput"].value == pytest.approx(20.0)
    assert run.values["p95"].above, "a tenth failed: the 95th percentile lies among them"
    assert run.values["bytes_in_per_s"].value == pytest.approx(400 * 100 / 20)
    assert run.values["bytes_out_per_s"].value is None


@pytest.mark.parametrize("tool", ["hey", "oha"])
def test_formats_without_failures_are_suspect_and_have_no_goodput(tmp_path, tool):
    request = ImportRequest(
        tool=tool, files=label_files([DATA / f"{tool}.csv"], []), experiment=tool, question="?"
    )
    import_files(request, tmp_path / tool)
    found = analyse(Results.open(tmp_path / tool))
    assert found.runs[0].instrument == "suspect"
    assert found.runs[0].values["goodput"].value is None
    assert "answered requests only" in found.runs[0].values["goodput"].reason
    assert "tool_left_out" in {f.name for f in found.findings}


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("k6", "k6.csv"),
        ("k6", "k6.json.gz"),
        ("locust", "locust.csv"),
        ("vegeta", "vegeta.csv"),
        ("vegeta", "vegeta.json"),
    ],
)
def test_every_format_can_be_reported(tmp_path, tool, name):
    request = ImportRequest(tool=tool, files=label_files([DATA / name], []), experiment="x", question="?")
    (run,) = import_files(request, tmp_path / "x")
    found = analyse(Results.open(tmp_path / "x"))
    assert sum(found.runs[0].outcomes.values()) == run.requests, "no request is lost on the way"


def test_half_an_import_is_never_kept(tmp_path):
    good = locust_log(tmp_path / "run-1.csv", ms=10)
    bad = tmp_path / "run-2.csv"
    bad.write_bytes(good.read_bytes()[:-9])
    request = ImportRequest(tool="locust", files=label_files([good, bad], []), experiment="x", question="?")
    with pytest.raises(ForeignFileError, match=r"run-2.csv:201"):
        import_files(request, tmp_path / "out" / "x")
    assert not (tmp_path / "out").exists()


def test_what_a_killed_import_left_is_removed_and_nothing_else(tmp_path):
    good = locust_log(tmp_path / "run.csv", ms=10)
    out = tmp_path / "out"
    for name in (".importing-4194999-x", ".importing-4194999-xx", f".importing-{os.getpid()}-x.old", "mine"):
        (out / name).mkdir(parents=True)
    request = ImportRequest(tool="locust", files=label_files([good], []), experiment="x", question="?")
    import_files(request, out / "x")
    left = {path.name for path in out.iterdir()}
    assert left == {"x", "mine", ".importing-4194999-xx", f".importing-{os.getpid()}-x.old"}


def test_a_file_without_requests_is_refused(tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text(LOCUST)
    request = ImportRequest(tool="locust", files=label_files([path], []), experiment="x", question="?")
    with pytest.raises(ForeignFileError, match="not one request"):
        import_files(request, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_runs_of_a_week_are_no_run(tmp_path):
    path = tmp_path / "far.csv"
    path.write_text(LOCUST + "1,GET,/,1,1,200,\n1795242586,GET,/,1,1,200,\n")
    request = ImportRequest(tool="locust", files=label_files([path], []), experiment="x", question="?")
    with pytest.raises(ForeignFileError, match="7 days"):
        import_files(request, tmp_path / "x")


def test_a_warm_up_that_leaves_nothing_is_refused(tmp_path):
    path = locust_log(tmp_path / "log.csv", ms=10)
    request = ImportRequest(
        tool="locust", files=label_files([path], []), experiment="x", question="?", warmup_s=3600
    )
    with pytest.raises(ForeignFileError, match="leaves nothing"):
        import_files(request, tmp_path / "x")


def test_results_that_exist_are_not_touched(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine").write_text("mine")
    path = locust_log(tmp_path / "log.csv", ms=10)
    request = ImportRequest(tool="locust", files=label_files([path], []), experiment="x", question="?")
    with pytest.raises(ResultsError, match="exists already"):
        import_files(request, tmp_path / "x")
    assert (tmp_path / "x" / "mine").read_text() == "mine"


def test_names_from_a_file_are_only_text(tmp_path):
    path = tmp_path / "log.csv"
    name = "<script>alert(1)</script>{{ 7*7 }}${{ 7*7 }}'; DROP TABLE runs; --"
    path.write_text(LOCUST + f'1795242586,GET,"{name}",1,1,200,\n1795242587,GET,"../../x",1,1,200,\n')
    request = ImportRequest(
        tool="locust", files=label_files([], [f"../{name}={path}"]), experiment="x", question="?"
    )
    import_files(request, tmp_path / "x")
    html = write_model(model_of(tmp_path / "x"), tmp_path / "report").html.read_text()
    assert "<script>alert(1)" not in html
    assert json.loads((tmp_path / "x" / "plan.json").read_text())["treatments"][0]["id"].isprintable()
    assert {p.name for p in tmp_path.iterdir()} == {"log.csv", "x", "report"}
