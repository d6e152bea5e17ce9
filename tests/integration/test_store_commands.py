"""`towtank sql` and `towtank export` as a user calls them: output, messages, exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from support.cli import towtank
from support.make_results import TreatmentModel, make_results

SOURCE = Path(__file__).parents[2] / "python"


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    """A study with its results beside the experiment file; one name carries markup."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "experiment.yaml").write_text("experiment: shop\n")
    treatments = {
        "one": TreatmentModel(levels={"deployment": "<b>one</b>[red]|x|\x1b[31m"}),
        "two": TreatmentModel(unfinished=(2,)),
    }
    make_results(
        folder / "results" / "shop", treatments=treatments, blocks=2, duration_s=2, experiment="shop"
    )
    return folder


def test_a_table_from_the_experiment_file(study):
    done = towtank(
        "sql", study / "experiment.yaml", "SELECT run_id, count(*) AS n FROM requests GROUP BY 1 ORDER BY 1"
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["run_id", "n"]
    assert [line.split() for line in lines[1:]] == [
        [f"b0{b}-{t}-a1", "300"] for b in (1, 2) for t in ("one", "two")
    ]
    assert "(4 rows)" in done.stderr


def test_memory_is_bounded_whoever_takes_it(study):
    """One value is no row that DuckDB counts or puts aside: the process itself is bounded."""
    query = "SELECT length(repeat('x', 3000000000))"
    done = towtank("sql", study, query, "--memory", "64MiB")
    assert done.returncode == 2, done.stderr
    assert "needs more memory than it may have" in done.stderr
    assert "raise --memory" in done.stderr
    enough = towtank("sql", study, "SELECT length(repeat('x', 3000000))", "--memory", "64MiB")
    assert enough.returncode == 0, enough.stderr


def test_sigterm_ends_a_query_and_leaves_nothing(study, tmp_path):
    long = "SELECT sum(hash(a.range + b.range)) FROM range(1000000) a, range(1000000) b"
    started = subprocess.Popen(
        [sys.executable, "-m", "towtank.cli.main", "sql", str(study), long],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until = time.monotonic() + 20
        while not list(tmp_path.glob("towtank-sql-*")) and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.5)
        started.terminate()
        _, said = started.communicate(timeout=10)
    finally:
        started.kill()
        started.wait()
    assert started.returncode == 130, said
    assert said == "error: stopped by SIGTERM\n"
    assert list(tmp_path.iterdir()) == []


def test_formats_agree(study):
    query = "SELECT run_id, levels, valid, seed FROM runs ORDER BY run_id"
    as_json = json.loads(towtank("sql", study, query, "--format", "json").stdout)
    as_csv = list(csv.DictReader(io.StringIO(towtank("sql", study, query, "-f", "csv").stdout)))
    assert [row["run_id"] for row in as_json] == [row["run_id"] for row in as_csv]
    assert [row["levels"] for row in as_json] == [json.loads(row["levels"]) for row in as_csv]
    assert [row["seed"] for row in as_json] == [int(row["seed"]) for row in as_csv]
    assert as_json[3]["valid"] is None
    assert as_csv[3]["valid"] == ""


def test_markup_in_names_stays_text(study):
    query = "SELECT DISTINCT deployment FROM runs WHERE treatment_id = 'one'"
    table = towtank("sql", study, query).stdout
    assert "<b>one</b>[red]|x|\\x1b[31m" in table
    markdown = towtank("sql", study, query, "-f", "markdown").stdout
    assert "&lt;b&gt;one&lt;/b&gt;\\[red\\]\\|x\\|" in markdown
    assert "\x1b" not in table + markdown


def test_limits(study):
    assert "(the first 100 rows" in towtank("sql", study, "FROM requests").stderr
    assert len(towtank("sql", study, "FROM requests", "-f", "csv").stdout.splitlines()) == 1201
    assert len(towtank("sql", study, "FROM requests", "-f", "csv", "--limit", "7").stdout.splitlines()) == 8


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["FROM nope"], 2, "views: runs, requests, iterations"),
        (["SELECT nope FROM runs"], 2, "nope"),
        (["SELEC 1"], 2, "SQL syntax"),
        (["COPY runs TO '/tmp/x.csv'"], 2, "refused"),
        (["FROM read_text('/etc/passwd')"], 2, "refused"),
        (["FROM runs", "--memory", "lots"], 2, "--memory"),
    ],
)
def test_mistakes_are_said_without_a_traceback(study, arguments, code, says):
    done = towtank("sql", study, *arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_where_there_are_no_results(tmp_path):
    for path in (tmp_path, tmp_path / "no.yaml"):
        done = towtank("sql", path, "FROM runs")
        assert done.returncode == 3
        assert done.stderr.startswith("error: ")
        assert "hint: " in done.stderr


def test_a_newer_folder_is_refused(study, tmp_path):
    copy = shutil.copytree(study / "results" / "shop", tmp_path / "shop")
    path = copy / "runs" / "b01-one-a1" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 7}))
    for command in (["sql", copy, "FROM runs"], ["export", copy, "--csv", tmp_path / "out"]):
        done = towtank(*command)
        assert done.returncode == 3
        assert "newer Towtank: schema_version 7" in done.stderr
    assert not (tmp_path / "out").exists()


def test_damage_is_a_warning(study, tmp_path):
    copy = shutil.copytree(study / "results" / "shop", tmp_path / "shop")
    path = copy / "runs" / "b01-one-a1" / "requests.parquet"
    path.write_bytes(path.read_bytes()[:1000])
    done = towtank("sql", copy, "SELECT count(DISTINCT run_id) AS n FROM requests", "-f", "csv")
    assert done.returncode == 0
    assert done.stdout == '"n"\n3\n'
    assert "warning: left out: " in done.stderr
    assert "requests.parquet is damaged" in done.stderr


def test_export(study, tmp_path):
    out = tmp_path / "out"
    command = [
        "export",
        study,
        "--csv",
        out,
        "--parquet",
        out,
        "--sqlite",
        out / "shop.db",
        "--what",
        "runs,requests",
    ]
    done = towtank(*command)
    assert done.returncode == 0, done.stderr
    assert "requests: 900 rows in " in done.stdout
    assert "note: 1 of 4 attempts are left out; --all takes them in:" in done.stderr
    assert "  b02-two-a1: not complete: under way, or killed" in done.stderr
    assert sorted(p.name for p in out.iterdir()) == [
        "requests.csv", "requests.parquet", "runs.csv", "runs.parquet", "shop.db",
    ]  # fmt: skip
    with closing(sqlite3.connect(out / "shop.db")) as connection:
        assert connection.execute("SELECT count(*) FROM requests JOIN runs USING (run_id)").fetchall() == [
            (900,)
        ]
    whole = towtank(*command, "--force", "--all")
    assert "requests: 1200 rows in " in whole.stdout
    assert "note: 1 of 4 attempts are in it that do not count: b02-two-a1" in whole.stderr
    again = towtank(*command)
    assert again.returncode == 3
    assert "exists already" in again.stderr
    assert towtank(*command, "--force").returncode == 0
    assert towtank("export", study).returncode == 2
    unknown = towtank("export", study, "--csv", tmp_path / "x", "--what", "rums")
    assert unknown.returncode == 2
    assert "unknown table 'rums'" in unknown.stderr
    assert not (tmp_path / "x").exists()


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory) -> Path:
    """Results in which one attempt was invalid and repeated."""
    path = tmp_path_factory.mktemp("spoiled") / "shop"
    make_results(
        path, treatments={"one": TreatmentModel(invalid=(1,))}, blocks=2, duration_s=4, slo={"p95": 0.1}
    )
    return path


def test_exports_leave_invalid_attempts_out_and_name_them(spoiled, tmp_path):
    """Whatever the form; JUnit tells of them in its own way."""
    for form in ("--hgrm", "--k6-summary", "--csv"):
        done = towtank("export", spoiled, form, tmp_path / form)
        assert done.returncode == 0, done.stderr
        assert "note: 1 of 3 attempts are left out; --all takes them in:" in done.stderr
        assert "  b01-one-a1: invalid: " in done.stderr
        whole = towtank("export", spoiled, form, tmp_path / f"{form}-all", "--all")
        assert "note: 1 of 3 attempts are in it that do not count: b01-one-a1" in whole.stderr
        assert "left out" not in whole.stderr
    kept = {"b01-one-a2", "b02-one-a1"}
    assert {path.stem for path in (tmp_path / "--hgrm").iterdir()} == {*kept, "one"}
    assert {path.stem for path in (tmp_path / "--k6-summary").iterdir()} == kept
    assert {path.stem for path in (tmp_path / "--k6-summary-all").iterdir()} == {*kept, "b01-one-a1"}
    for folder, expected in (("--csv", kept), ("--csv-all", {*kept, "b01-one-a1"})):
        for table in ("runs", "requests", "totals"):
            with (tmp_path / folder / f"{table}.csv").open(newline="") as file:
                assert {row["run_id"] for row in csv.DictReader(file)} == expected
    junit = towtank("export", spoiled, "--junit", tmp_path / "slo.xml")
    assert junit.returncode == 0
    assert junit.stderr == ""
    assert "skipped" in (tmp_path / "slo.xml").read_text()


def test_where_every_attempt_is_invalid_the_way_out_is_said(spoiled, tmp_path):
    copy = shutil.copytree(spoiled, tmp_path / "shop")
    for name in ("b01-one-a2", "b02-one-a1"):
        shutil.rmtree(copy / "runs" / name)
    done = towtank("export", copy, "--hgrm", tmp_path / "out")
    assert done.returncode == 3
    assert "no run is valid" in done.stderr
    assert "--all" in done.stderr
    assert towtank("export", copy, "--hgrm", tmp_path / "out", "--all").returncode == 0


@pytest.mark.parametrize(
    ("query", "reminded"),
    [
        ("SELECT count(*) FROM requests", True),
        ("SELECT r.treatment_id, sum(count) FROM totals r GROUP BY 1", True),
        ("SELECT count(*) FROM requests WHERE valid", False),
        ("SELECT count(*) FROM runs WHERE instrument <> 'invalid'", False),
        ("FROM runs", False),
        ("DESCRIBE requests", False),
        ("SHOW TABLES", False),
        ("SELECT 1 AS one", False),
    ],
)
def test_a_query_that_counts_invalid_runs_is_told_so(spoiled, query, reminded):
    done = towtank("sql", spoiled, query, "--format", "csv")
    assert done.returncode == 0, done.stderr
    said = "note: 1 of 3 complete runs are invalid and are counted too" in done.stderr
    assert said == reminded, done.stderr
    assert ("b01-one-a1; WHERE valid does" in done.stderr) == reminded


def test_a_query_over_valid_runs_alone_has_no_note(study):
    assert "note:" not in towtank("sql", study, "SELECT count(*) FROM requests", "--format", "csv").stderr
