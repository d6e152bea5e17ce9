"""The study of Knative by runtime, carried out in its smallest shape: one file of it, on this machine."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support import functions
from support.cli import towtank
from towtank.store import Results

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STUDY = Path(__file__).resolve().parents[2] / "studies" / "knative-runtimes"
DONE = (0, 5, 6)
"""Carried out; an SLO was missed; a busy machine spoiled runs, which is none of the study's business."""


def test_one_request_at_a_time_is_carried_out_in_its_smallest_shape(tmp_path):
    functions.build(functions.RUNTIMES["go"])
    call = towtank(
        "run", STUDY / "one-at-a-time.yaml", "--profile", "smoke", "--results", tmp_path / "results", "--plain",
        "--set", "max_invalid_repeats=0",
        timeout=400,
    )  # fmt: skip
    assert call.returncode in DONE, call.stderr
    due = 0
    results = Results.open(tmp_path / "results")
    runs = list(results.runs("complete"))
    assert len(runs) == 4
    for run in runs:
        rows = run.requests().to_table(columns=["outcome", "cold", "instance"])
        due += rows.num_rows
        cold = [row["instance"] for row in rows.to_pylist() if row["cold"] and row["outcome"] == "answered"]
        assert 1 <= len(set(cold)) == len(cold) <= 4, (
            "each of at most four instances answered one request first"
        )
    said = (tmp_path / "results" / "report" / "report.md").read_text("utf-8")
    assert "not run in this profile" in said

    exported = towtank("export", tmp_path / "results", "--sqlite", tmp_path / "benchmark.db", "--all")
    assert exported.returncode == 0, exported.stderr
    with closing(sqlite3.connect(tmp_path / "benchmark.db")) as database:
        database.executescript((STUDY / "benchmark.sql").read_text("utf-8"))
        assert database.execute("SELECT count(*), count(DISTINCT run_id) FROM request").fetchone() == (due, 4)
        (most,) = database.execute(
            "SELECT max(memory_bytes) FROM pod_metrics WHERE pod LIKE 'app-%'"
        ).fetchone()
        assert most > 2**20
        assert database.execute("SELECT count(*) FROM node_metrics").fetchone() == (0,), (
            "this machine is no node"
        )
