"""Exports hold what the views say, appear whole or not at all, and never over somebody's file."""

from __future__ import annotations

import contextlib
import csv
import json
import sqlite3
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from towtank.errors import QueryError, ResultsError
from towtank.store import Database, Results, export
from towtank.store.export import export_folder, export_sqlite
from towtank.store.views import VIEWS


@pytest.fixture(scope="module")
def database(stored):
    with Database(Results.open(stored)) as opened:
        yield opened


def rows_of(database, view):
    return database.query(f"FROM {view}").table()


def test_parquet_is_the_views(database, tmp_path):
    done = export_folder(database, tmp_path / "out", kind="parquet")
    assert [d.what for d in done] == list(VIEWS)
    for table in done:
        expected = rows_of(database, table.what)
        found = pq.read_table(table.path)
        assert found.schema.names == expected.schema.names
        assert found.num_rows == expected.num_rows == table.rows
    key = [("run_id", "ascending"), ("t_us", "ascending"), ("instance", "ascending"), ("metric", "ascending")]
    samples = pq.read_table(tmp_path / "out" / "samples.parquet")
    assert samples.sort_by(key).equals(rows_of(database, "samples").sort_by(key))


def test_csv_is_the_views(database, tmp_path):
    export_folder(database, tmp_path, kind="csv", what=["requests", "runs"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["requests.csv", "runs.csv"]
    with (tmp_path / "requests.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = rows_of(database, "requests")
    assert len(rows) == expected.num_rows
    found = sorted((r["run_id"], r["trace_id"], int(r["latency_us"]), r["status"]) for r in rows)
    assert found == sorted(
        (r["run_id"], r["trace_id"], r["latency_us"], "" if r["status"] is None else str(r["status"]))
        for r in expected.to_pylist()
    )
    with (tmp_path / "runs.csv").open(newline="") as file:
        assert {r["levels"] for r in csv.DictReader(file)} == {
            '{"deployment": "one"}',
            '{"deployment": "two"}',
        }


def test_sqlite_is_the_views(database, tmp_path):
    file = tmp_path / "deep" / "shop.db"
    export_sqlite(database, file)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        for view in VIEWS:
            [(count,)] = connection.execute(f"SELECT count(*) FROM {view}").fetchall()
            assert count == rows_of(database, view).num_rows
        assert connection.execute(
            "SELECT DISTINCT typeof(latency_us), typeof(ok) FROM requests"
        ).fetchall() == [("integer", "integer")]
        [(levels, started)] = connection.execute(
            "SELECT levels, started_utc FROM runs WHERE run_id = 'b01-two-a2'"
        ).fetchall()
        assert json.loads(levels) == {"deployment": "two"}
        assert started.startswith("2026-01-05T09:0")
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert [p.name for p in file.parent.iterdir()] == ["shop.db"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "sqlite"])
def test_what_exists_is_kept_unless_forced(database, tmp_path, kind):
    target = tmp_path / (f"runs.{kind}" if kind != "sqlite" else "x.db")

    def write(*, force):
        if kind == "sqlite":
            return export_sqlite(database, target, what=["runs"], force=force)
        return export_folder(database, tmp_path, kind=kind, what=["runs"], force=force)

    target.write_text("mine")
    with pytest.raises(ResultsError, match="exists already") as error:
        write(force=False)
    assert "--force" in error.value.hint
    assert target.read_text() == "mine"
    write(force=True)
    assert target.read_bytes() != b"mine"
    target.unlink()
    target.mkdir()
    with pytest.raises(ResultsError, match="is a folder"):
        write(force=True)


@pytest.mark.parametrize("kind", ["csv", "parquet", "sqlite"])
def test_a_failure_half_way_leaves_nothing(database, tmp_path, monkeypatch, kind):
    (tmp_path / "bystander.txt").write_text("stays")
    original = database.query

    def query(sql):
        if "counts" in sql:
            raise ResultsError("counts.parquet is damaged")
        return original(sql)

    monkeypatch.setattr(database, "query", query)
    write = partial(export_folder, kind=kind) if kind != "sqlite" else export_sqlite
    with pytest.raises(ResultsError, match="damaged"):
        write(database, tmp_path / ("x.db" if kind == "sqlite" else ""))
    assert [p.name for p in tmp_path.iterdir()] == ["bystander.txt"]


def test_an_unknown_table_names_the_known_ones():
    with pytest.raises(QueryError, match="unknown table 'request'; allowed are runs, requests, iterations"):
        export.check_what(["request"])


def test_a_column_may_be_called_anything(tmp_path):
    """Factors name columns; SQLite gets them quoted."""
    rows = pa.table({'a"b': ["x"], "run_id": ["r"], "select": [1], "x; DROP TABLE y": [2.0]})

    class Fake:
        schema = rows.schema

        def batches(self):
            return iter(rows.to_batches())

    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        assert export._write_table(connection, 'ta"ble', Fake()) == 1
        assert connection.execute('SELECT * FROM "ta""ble"').fetchall() == [("x", "r", 1, 2.0)]
