"""Formats of other tools, parsed back: no number changes on the way."""

import json
import math
import os
import re
import shutil
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from support.make_results import TreatmentModel, make_results
from towtank.analysis.analyse import analyse
from towtank.analysis.distribution import Distribution
from towtank.errors import ResultsError
from towtank.report.interchange import hgrm, write_hgrm, write_junit, write_k6_summaries
from towtank.store import Results

LINE = re.compile(r"^ *(\d+\.\d{3}) (\d\.\d{12}) +(\d+)(?: +(\d+\.\d{2}))?$")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("interchange") / "study"
    treatments = {
        "one": TreatmentModel(levels={"deployment": "<one> & \x07"}, median_ms=10),
        "two": TreatmentModel(levels={"deployment": "two"}, median_ms=30, errors=0.1, invalid=(1,)),
    }
    make_results(path, treatments=treatments, blocks=2, duration_s=4, slo={"p95": 0.060, "goodput": 0.99})
    return Results.open(path)


def parsed(text):
    """Rows of a table of percentiles as (value in ms, share, total), and what the trailer says."""
    lines = text.splitlines()
    assert lines[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    assert lines[1] == ""
    rows = [LINE.match(line) for line in lines[2:] if not line.startswith("#")]
    assert all(rows)
    assert all((row[4] is None) == (row[2] == "1.000000000000") for row in rows)
    trailer = dict(
        re.findall(r"(\w+(?: count)?) *= *([\d.]+)", "".join(x for x in lines if x.startswith("#[")))
    )
    return [(float(row[1]), float(row[2]), int(row[3])) for row in rows], trailer


def test_every_line_of_the_table_is_true_of_the_requests():
    rng = np.random.default_rng(7)
    values = np.sort(
        np.concatenate([rng.lognormal(9, 0.7, 9_990), rng.uniform(1e6, 2e6, 10)]).astype(np.int64)
    )
    rows, trailer = parsed(hgrm.render(Distribution.of(values, failures=3), title="x"))
    for value, share, total in rows:
        us = round(value * 1000)
        assert total == np.count_nonzero(values <= us)
        assert total >= share * values.size - 1e-6, "at least this share does not exceed the value"
        assert np.count_nonzero(values < us) < max(1, math.ceil(share * values.size - 1e-6)), (
            "no smaller one does it"
        )
    shares = [share for _, share, _ in rows]
    assert shares[:6] == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert shares[6] == 0.55
    assert rows[-1] == (values[-1] / 1000, 1.0, values.size)
    assert float(trailer["Mean"]) == pytest.approx(values.mean() / 1000, abs=1e-3)
    assert float(trailer["StdDeviation"]) == pytest.approx(values.std() / 1000, abs=1e-3)
    assert int(trailer["Total count"]) == values.size


@pytest.mark.parametrize("values", [[5], [5, 5, 5], [1, 2], list(range(1, 102))])
def test_tables_of_few_values_end(values):
    rows, _ = parsed(hgrm.render(Distribution.of(values), title="x"))
    assert rows[-1] == (max(values) / 1000, 1.0, len(values))
    assert len(rows) < 80
    assert [row[2] for row in rows] == sorted(row[2] for row in rows)


def test_nothing_succeeded_has_no_table():
    with pytest.raises(ValueError, match="no request succeeded"):
        hgrm.render(Distribution.of([], failures=3), title="x")


def test_a_file_a_run_and_a_treatment(results, tmp_path):
    done = write_hgrm(results, tmp_path / "hgrm")
    names = {file.path.name for file in done}
    assert {"one.hgrm", "two.hgrm", "b01-two-a2.hgrm"} <= names
    assert "b01-two-a1.hgrm" not in names, "the invalid attempt"
    everything = {file.path.name for file in write_hgrm(results, tmp_path / "all", everything=True)}
    assert everything == {*names, "b01-two-a1.hgrm"}
    assert (tmp_path / "all" / "two.hgrm").read_text() == (tmp_path / "hgrm" / "two.hgrm").read_text()
    pooled, _ = parsed((tmp_path / "hgrm" / "two.hgrm").read_text())
    parts = [
        parsed((tmp_path / "hgrm" / f"{name}.hgrm").read_text())[0] for name in ("b01-two-a2", "b02-two-a1")
    ]
    assert pooled[-1][2] == sum(part[-1][2] for part in parts), "the invalid attempt is not in it"
    text = (tmp_path / "hgrm" / "two.hgrm").read_text()
    assert re.search(r"# two, 2 runs pooled: ms; [1-9]\d* of \d+ requests failed", text)
    with pytest.raises(ResultsError, match="exists already"):
        write_hgrm(results, tmp_path / "hgrm")
    write_hgrm(results, tmp_path / "hgrm", force=True)


def test_k6_summary_agrees_with_the_analysis_and_keeps_the_polarity(results, tmp_path):
    write_k6_summaries(results, tmp_path / "k6", everything=True)
    runs = {run.run_id: run for run in analyse(results).runs}
    missed = 0
    for file in (tmp_path / "k6").iterdir():
        said, run = json.loads(file.read_text()), runs[file.stem]
        assert said["metrics"]["http_reqs"]["values"]["count"] == run.due
        failed = said["metrics"]["http_req_failed"]["values"]
        assert failed["rate"] == pytest.approx(run.values["error_ratio"].value)
        assert failed["passes"] == run.due - run.outcomes["answered"]
        assert said["state"]["testRunDurationMs"] == pytest.approx(run.window_s * 1000)
        gauge = said["metrics"]["towtank_goodput"]
        assert gauge["thresholds"] == {"value>=0.99": {"ok": gauge["values"]["value"] >= 0.99}}
        missed += not gauge["thresholds"]["value>=0.99"]["ok"]
        times = said["metrics"]["http_req_duration"]["values"]
        assert (
            times["min"] <= times["med"] <= times["p(90)"] <= times["p(95)"] <= times["p(99)"] <= times["max"]
        )
    assert missed == 3, "both attempts and the other run of `two`"


def test_junit_has_a_case_for_each_run_and_objective(results, tmp_path):
    (done,) = write_junit(results, tmp_path / "slo.xml")
    root = ET.parse(tmp_path / "slo.xml").getroot()
    cases = root.findall("./testsuite/testcase")
    runs = analyse(results).runs
    assert len(cases) == done.rows == 2 * len(runs)
    assert root.get("tests") == str(len(cases))
    skipped = sum(int(suite.get("skipped")) for suite in root.findall("testsuite"))
    assert skipped == len(root.findall(".//skipped")) == 2, "the invalid attempt says nothing"
    assert set(root.keys()) <= {"name", "time", "tests", "failures", "disabled", "errors"}, "Jenkins' schema"
    assert root.get("failures") == str(len(root.findall(".//failure")))
    failed = {case.get("name") for case in cases if case.find("failure") is not None}
    assert any(name.startswith("goodput") and "b02-two" in name for name in failed)
    assert not any("-one-" in name for name in failed)
    assert root.find("testsuite").get("name") == "synthetic.<one> & �", "what XML cannot hold is left out"
    for suite in root.findall("testsuite"):
        assert int(suite.get("tests")) == len(suite.findall("testcase"))


def test_junit_without_objectives_is_refused(tmp_path):
    make_results(tmp_path / "x", treatments={"one": TreatmentModel()}, blocks=1, duration_s=1)
    with pytest.raises(ResultsError, match="no `slo`"):
        write_junit(Results.open(tmp_path / "x"), tmp_path / "slo.xml")


def test_junit_without_a_case_is_refused_since_it_would_be_a_success(results, tmp_path):
    empty = tmp_path / "study"
    shutil.copytree(results.path, empty)
    for run in (empty / "runs").iterdir():
        shutil.rmtree(run)
    with pytest.raises(ResultsError, match="no run is complete"):
        write_junit(Results.open(empty), tmp_path / "slo.xml")
    assert not (tmp_path / "slo.xml").exists()


def test_places_where_nothing_can_be_written_are_named(results, tmp_path):
    (tmp_path / "file").write_text("mine")
    for write in (write_hgrm, write_k6_summaries):
        for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
            with pytest.raises(ResultsError, match="cannot be made a folder"):
                write(results, folder)
    with pytest.raises(ResultsError, match="cannot be made a folder"):
        write_junit(results, tmp_path / "file" / "slo.xml")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ResultsError, match="is a device or a pipe"):
        write_junit(results, tmp_path / "pipe", force=True)
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "file").read_text() == "mine"
