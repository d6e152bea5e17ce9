"""SQL over results: the views say what is stored, and nothing but reading the results is possible."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.make_results import TreatmentModel, make_results
from towtank.errors import QueryError, ResultsError
from towtank.store import Database, Results
from towtank.store.views import VIEWS


@pytest.fixture(scope="module")
def database(stored):
    with Database(Results.open(stored)) as opened:
        yield opened


def ask(database, sql):
    return [tuple(row.values()) for row in database.query(sql).table().to_pylist()]


# --- what the views say ----------------------------------------------------------------------------------


def test_the_views_have_the_documented_columns(database):
    for name, view in VIEWS.items():
        found = database.columns(name)
        expected = {column: sql_type for column, (sql_type, _) in view.columns.items()}
        if name == "runs":
            assert found.pop("deployment") == "VARCHAR"
        assert found == expected, name


def test_docs_name_every_view_and_column():
    text = (Path(__file__).parents[3] / "docs" / "results.md").read_text()
    for name, view in VIEWS.items():
        section = text.partition(f"### `{name}`")[2].partition("\n### ")[0]
        assert view.about in section, name
        for column, (sql_type, meaning) in view.columns.items():
            assert f"| `{column}` | {sql_type} | {meaning} |" in section, f"{name}.{column}"


def test_runs(database):
    rows = ask(database, "SELECT run_id, deployment, levels['deployment'], valid, system, state FROM runs")
    assert ("b01-two-a1", "two", "two", False, "intact", "complete") in rows
    assert ("b02-one-a1", "one", "one", True, "collapsed", "complete") in rows
    assert ("b03-two-a1", "two", "two", None, None, "running") in rows
    assert len(rows) == 7
    [(reasons,)] = ask(database, "SELECT instrument_reasons FROM runs WHERE NOT valid")
    assert reasons == ["engine_late"]
    [(name,)] = ask(database, "SELECT DISTINCT stages[2].name FROM runs WHERE state = 'complete'")
    assert name == "spike"


def test_requests_of_all_runs_killed_ones_too(database, stored):
    found = dict(ask(database, "SELECT run_id, count(*) FROM requests GROUP BY 1"))
    expected = {r.run_id: r.requests().count_rows() for r in Results.open(stored).runs("all")}
    assert found == expected


def test_latency_is_lag_plus_wait_plus_total(database, stored):
    run = Results.open(stored).runs()[1]
    expected = [
        (
            r["lag_us"] + r["wait_us"] + (r["ttfb_us"] or 0) + (r["after_ttfb_us"] or 0),
            r["outcome"] == "answered",
        )
        for r in run.requests().to_table().to_pylist()
    ]
    found = ask(
        database, f"SELECT latency_us, ok FROM requests WHERE run_id = '{run.run_id}' ORDER BY scheduled_us"
    )
    assert sorted(found) == sorted(expected)
    assert ask(
        database, "SELECT count(*) FROM requests WHERE outcome = 'not_sent' AND total_us IS NOT NULL"
    ) == [(0,)]
    assert ask(database, "SELECT count(*) > 0 FROM requests WHERE outcome = 'not_sent'") == [(True,)]


def test_counts_and_requests_agree(database):
    sql = """
        SELECT run_id, in_window, outcome_class, latency_us AS value, count(*)::BIGINT AS n FROM requests
        WHERE run_id IN (SELECT run_id FROM runs WHERE state = 'complete') GROUP BY ALL"""
    counted = """
        SELECT run_id, in_window, outcome_class, value, sum(count)::BIGINT AS n FROM counts
        WHERE variable = 'latency' GROUP BY ALL"""
    assert ask(database, f"({sql}) EXCEPT ({counted})") == []
    assert ask(database, f"({counted}) EXCEPT ({sql})") == []
    requests = (
        "SELECT run_id, outcome, count(*), sum(bytes_in) FROM requests WHERE valid IS NOT NULL GROUP BY ALL"
    )
    totals = "SELECT run_id, outcome, sum(count), sum(bytes_in) FROM totals GROUP BY ALL"
    assert ask(database, f"({requests}) EXCEPT ({totals})") == []
    assert ask(database, f"({totals}) EXCEPT ({requests})") == []


def test_iterations_are_journeys(database, stored):
    run = Results.open(stored).attempts("b02-two")[0]
    rows = run.requests().to_table().to_pylist()
    journeys: dict[int, list[dict]] = {}
    for row in rows:
        journeys.setdefault(row["user"], []).append(row)
    expected = []
    for user, steps in journeys.items():
        ends = [
            s["scheduled_us"] + s["lag_us"] + s["wait_us"] + (s["ttfb_us"] or 0) + (s["after_ttfb_us"] or 0)
            for s in steps
        ]
        first = min(s["scheduled_us"] for s in steps)
        bad = [
            s["outcome"] for s in sorted(steps, key=lambda s: s["scheduled_us"]) if s["outcome"] != "answered"
        ]
        inside = 1_000_000 <= first < 4_000_000
        expected.append(
            (user, len(steps), first, max(ends) - first, not bad, bad[0] if bad else "answered", inside)
        )
    found = ask(
        database,
        'SELECT "user", steps, scheduled_us, journey_us, ok, outcome, in_window FROM iterations '
        f"WHERE run_id = '{run.run_id}'",
    )
    assert sorted(found) == sorted(expected)
    assert any(row[5] != "answered" for row in found)


def test_trace_ids_are_the_documented_hash(database, stored):
    """The function is a contract with the engine: docs/job.md writes it down."""
    run = Results.open(stored).attempts("b01-one")[0]
    row = run.requests().head(1).to_pylist()[0]
    [(trace, parent, draw)] = ask(
        database,
        f"SELECT trace_id, parent_id, trace_draw FROM requests WHERE run_id = '{run.run_id}' "
        f"AND \"user\" = {row['user']} AND iteration = {row['iteration']} AND step = '{row['step']}'",
    )
    assert trace == f"{documented(run.run_id, row, 1):016x}{documented(run.run_id, row, 2):016x}"
    assert parent == f"{documented(run.run_id, row, 3):016x}"
    assert draw == (documented(run.run_id, row, 0) >> 11) / 2**53
    [(total, distinct)] = ask(database, "SELECT count(*), count(DISTINCT trace_id) FROM requests")
    assert total == distinct


def documented(run_id, row, number):
    """h(n) as docs/job.md writes it, one step after the other."""
    mask = 2**64 - 1

    def fnv(text):
        state = 0xCBF29CE484222325
        for byte in text.encode():
            state = (state ^ byte) * 0x100000001B3 & mask
        return state

    def mix(word):
        word = word + 0x9E3779B97F4A7C15 & mask
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & mask
        word = (word ^ word >> 27) * 0x94D049BB133111EB & mask
        return word ^ word >> 31

    parts = (fnv(run_id), fnv(row["workload"]), row["worker"], row["user"], row["iteration"], fnv(row["step"]),
             row["scheduled_us"])  # fmt: skip
    for part in parts:
        number = mix(number ^ part & mask)
    return number


def test_samples_and_events(database):
    [(low, high)] = ask(
        database, "SELECT min(value), max(value) FROM samples WHERE metric = 'cpu_cores' AND valid"
    )
    assert 0 < low < high < 2
    rows = ask(
        database,
        "SELECT kind, message, detail->>'code' FROM events WHERE run_id = 'b02-one-a1' ORDER BY t_us",
    )
    assert rows[1] == ("crashed", "exited with code 137", "137")


def test_answers_can_be_read_side_by_side(database):
    one, two = database.query("FROM runs").batches(), database.query("FROM events").batches()
    assert next(one).num_rows == 7
    assert next(two).num_rows > 0


def test_an_experiment_without_runs_has_typed_empty_views(tmp_path):
    make_results(tmp_path / "r", treatments={"one": TreatmentModel()}, blocks=1, duration_s=1)
    shutil.rmtree(tmp_path / "r" / "runs")
    with Database(Results.open(tmp_path / "r")) as database:
        for name in VIEWS:
            assert ask(database, f"FROM {name}") == []
        assert database.columns("requests")["latency_us"] == "BIGINT"


def test_levels_become_columns_where_their_names_are_safe(tmp_path):
    levels = [
        {
            "users": 25,
            "deployment": "nfs",
            "workload": "mixed",
            "rate": 0.5,
            "on": True,
            "co st": "x",
            "select": "y",
        },
        {
            "users": 50,
            "deployment": 7,
            "workload": "reads",
            "rate": 2,
            "on": False,
            "co st": "z",
            "select": "w",
        },
    ]
    treatments = {f"t{i}": TreatmentModel(levels=level) for i, level in enumerate(levels)}
    make_results(tmp_path / "r", treatments=treatments, blocks=1, duration_s=1)
    with Database(Results.open(tmp_path / "r")) as database:
        types = database.columns("runs")
        assert types["users"] == "BIGINT"
        assert types["rate"] == "DOUBLE"
        assert types["on"] == "BOOLEAN"
        assert types["deployment"] == "VARCHAR"
        assert types["level_workload"] == "VARCHAR"
        assert types["select"] == "VARCHAR"
        assert "co st" not in types
        rows = ask(
            database, "SELECT users, level_workload, workload, levels['co st'] FROM runs ORDER BY users"
        )
        assert rows == [(25, "mixed", "shop", "x"), (50, "reads", "shop", "z")]


# --- damage ----------------------------------------------------------------------------------------------


def test_damaged_tables_are_left_out_by_name(damaged):
    for path in (
        damaged / "runs" / "b01-one-a1" / "requests.parquet",
        damaged / "runs" / "b02-two-a1" / "counts.parquet",
    ):
        path.write_bytes(path.read_bytes()[:-100])
    (damaged / "runs" / "b02-one-a1" / "run.json").unlink()
    with Database(Results.open(damaged)) as database:
        named = " ".join(str(d) for d in database.damage)
        assert len(database.damage) == 3
        for name in ("b01-one-a1/requests.parquet", "b02-two-a1/counts.parquet", "b02-one-a1/run.json"):
            assert name in named
        found = {run for (run,) in ask(database, "SELECT DISTINCT run_id FROM requests")}
        assert found == {"b01-two-a1", "b01-two-a2", "b02-two-a1", "b03-one-a1", "b03-two-a1"}
        assert ("b01-one-a1",) in ask(database, "SELECT DISTINCT run_id FROM counts")


def test_damage_in_the_middle_is_named_when_it_is_met(damaged):
    path = damaged / "runs" / "b01-one-a1" / "requests.parquet"
    content = bytearray(path.read_bytes())
    content[4:3000] = b"\xff" * 2996
    path.write_bytes(content)
    with (
        Database(Results.open(damaged)) as database,
        pytest.raises(ResultsError, match=r"b01-one-a1/requests\.parquet is damaged"),
    ):
        ask(database, "SELECT * FROM requests")


@pytest.mark.parametrize("name", ["it's", "[1]*?", "x=1", "ünï <b>", "{files}"])
def test_folders_with_awkward_names(stored, tmp_path, name):
    folder = tmp_path / name / "synthetic"
    shutil.copytree(stored, folder)
    shutil.copytree(stored, tmp_path / "1x" / "synthetic")  # what [1]*? would match as a pattern
    with Database(Results.open(folder)) as database:
        assert database.damage == []
        assert len(ask(database, "SELECT DISTINCT run_id FROM requests")) == 7
        assert "x" not in database.columns("requests")


def test_nothing_is_left_in_the_temporary_folder(stored, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = {p: p.stat().st_mtime_ns for p in stored.rglob("*")}
    with Database(Results.open(stored)) as database:
        assert len(list(tmp_path.iterdir())) == 1
        ask(database, "SELECT count(*) FROM requests")
    assert list(tmp_path.iterdir()) == []
    assert {p: p.stat().st_mtime_ns for p in stored.rglob("*")} == before


# --- attacks ---------------------------------------------------------------------------------------------

ATTACKS = [
    "SELECT * FROM read_csv('/etc/passwd', sep = ':')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_text(['/etc/passwd'])",
    "FROM '/etc/passwd'",
    "FROM read_text('{folder}/../../../../etc/passwd')",
    "FROM read_text('{folder}/../secret.txt')",
    "FROM glob('/etc/*')",
    "FROM glob('*')",
    "FROM read_csv('http://127.0.0.1:9/x.csv')",
    "FROM read_parquet('s3://bucket/x.parquet')",
    "FROM read_blob('/etc/passwd')",
    "FROM read_text('~/.bashrc')",
    "FROM read_text('/proc/self/environ')",
    "SELECT getenv('HOME')",
    "COPY (SELECT 1) TO '/tmp/towtank-attack.csv'",
    "COPY (SELECT 1) TO '{folder}/runs/x.csv'",
    "COPY runs FROM '/etc/passwd'",
    "WITH x AS (COPY (SELECT 1) TO '{folder}/x.csv') FROM x",
    "WITH x AS (WITH y AS (COPY (SELECT 1) TO '{folder}/x.csv') FROM y) FROM x",
    "SELECT (WITH x AS (COPY (SELECT 1) TO '{folder}/x.csv') SELECT 1)",
    "FROM query('WITH x AS (COPY (SELECT 1) TO ''{folder}/x.csv'') FROM x')",
    "FROM query_table('runs')",
    "SELECT * FROM json_execute_serialized_sql('{{}}')",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/x.csv'",
    "EXPORT DATABASE '{folder}/dump'",
    "ATTACH '/tmp/towtank-attack.db'",
    "ATTACH '{folder}/x.db' AS x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{folder}/x.duckdb_extension'",
    "SET enable_external_access = true",
    "SET GLOBAL allowed_directories = ['/']",
    "RESET lock_configuration",
    "PRAGMA enable_external_access = true",
    "SET VARIABLE x = 1",
    "CREATE TABLE x AS SELECT 1",
    "CREATE OR REPLACE VIEW runs AS SELECT 1",
    "CREATE SECRET s (TYPE s3, KEY_ID 'x', SECRET 'y')",
    "DROP VIEW runs",
    "INSERT INTO store.runs SELECT * FROM store.runs",
    "DELETE FROM store.runs",
    "WITH x AS (DELETE FROM store.runs RETURNING *) FROM x",
    "CALL enable_logging()",
    "FROM enable_logging()",
    "FROM checkpoint()",
    "FROM arrow_scan(1, 2, 3)",
    "FROM pandas_scan(1)",
    "FROM python_map_function(1)",
    "SELECT 1; COPY (SELECT 1) TO '{folder}/x.csv'",
    "SELECT 1; SELECT 2",
    "PREPARE p AS SELECT 1",
    "BEGIN",
    "CHECKPOINT",
    "FROM secret_variable",
    "FROM duckdb_secrets()",
    "",
    "-- nothing",
    "\x00",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
]


@pytest.mark.parametrize("sql", ATTACKS, ids=lambda sql: sql[:50])
def test_attacks_are_refused_and_change_nothing(database, stored, sql):
    secret_variable = pa.table({"a": [1]})
    before = sorted(str(p) for p in stored.parent.rglob("*"))
    (stored.parent / "secret.txt").write_text("secret")
    try:
        with pytest.raises(QueryError) as error:
            ask(database, sql.replace("{folder}", str(stored)))
    finally:
        (stored.parent / "secret.txt").unlink()
    assert error.value.exit_code == 2
    assert error.value.message
    assert "Traceback" not in error.value.message
    assert sorted(str(p) for p in stored.parent.rglob("*")) == before
    assert not Path("/tmp/towtank-attack.csv").exists()
    assert not Path("/tmp/towtank-attack.db").exists()
    assert secret_variable.num_rows == 1
    assert len(ask(database, "FROM runs")) == 7


def test_links_out_of_the_folder_cannot_be_followed(damaged, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "secret.csv").write_text("a\n1\n")
    pq.write_table(pa.table({"a": [1]}), secret / "secret.parquet")
    (damaged / "file.csv").symlink_to(secret / "secret.csv")
    (damaged / "folder").symlink_to(secret)
    (damaged / "up").symlink_to("..")
    with Database(Results.open(damaged)) as database:
        for path in (
            "file.csv",
            "folder/secret.csv",
            "folder/secret.parquet",
            "up/secret/secret.csv",
            "*.csv",
        ):
            with pytest.raises(QueryError, match="refused"):
                ask(database, f"FROM '{damaged}/{path}'")


def test_a_run_whose_tables_are_links_is_left_out(damaged, tmp_path):
    outside = tmp_path / "outside.parquet"
    path = damaged / "runs" / "b01-one-a1" / "requests.parquet"
    path.rename(outside)
    path.symlink_to(outside)
    with Database(Results.open(damaged)) as database:
        assert "leads out of the result folder" in str(database.damage[0])
        assert ask(database, "SELECT count(*) FROM requests WHERE run_id = 'b01-one-a1'") == [(0,)]


def test_files_within_the_folder_can_be_read(database, stored):
    [(name,)] = ask(database, f"SELECT experiment.experiment FROM read_json('{stored}/plan.json')")
    assert name == "synthetic"


GOOD = [
    "SELECT count(*) FROM requests", "FROM runs SELECT run_id", "WITH a AS (FROM runs) SELECT count(*) FROM a",
    "VALUES (1), (2)", "DESCRIBE requests", "SUMMARIZE events", "SHOW TABLES", "TABLE events",
    "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 5) FROM r",
    "SELECT * FROM (PIVOT totals ON outcome IN ('answered', 'refused') USING sum(count) GROUP BY run_id)",
    "SELECT run_id, quantile_cont(latency_us, [0.5, 0.99]) FROM requests GROUP BY run_id",
    "SELECT * FROM range(3) t(i) JOIN runs ON i = block", "SELECT unnest([1, 2])",
    "SELECT list_transform([1, 2], lambda x: x + 1)", "SELECT 'COPY (SELECT 1) TO x; DROP TABLE y' AS text",
    "SELECT 1;", "SELECT row_number() OVER (PARTITION BY block ORDER BY position) FROM runs",
    "SELECT json_extract_string(engine_detail, '$.profile') FROM runs", "FROM runs UNION ALL BY NAME FROM runs",
]  # fmt: skip


@pytest.mark.parametrize("sql", GOOD)
def test_reading_is_allowed(database, sql):
    assert ask(database, sql)


# --- mistakes --------------------------------------------------------------------------------------------


def test_a_syntax_error_shows_its_place(database):
    with pytest.raises(QueryError) as error:
        database.query("SELECT *\nFRM runs")
    assert 'syntax error at or near "runs" (line 2, column 5)\n  FRM runs\n      ^' in error.value.message


def test_an_unknown_view_or_column_names_the_known_ones(database):
    with pytest.raises(QueryError, match="nope does not exist") as error:
        database.query("SELECT * FROM nope")
    assert error.value.hint == "views: runs, requests, iterations, samples, events, spans, counts, totals"
    with pytest.raises(QueryError, match="latncy_us") as error:
        database.query("SELECT latncy_us FROM requests")
    assert "latency_us" in error.value.message
    with pytest.raises(QueryError, match="journey_us") as error:
        database.query("SELECT journey_us FROM requests")
    assert error.value.hint == "journey_us is a column of iterations"


def test_a_query_beyond_its_memory_says_so(stored):
    with Database(Results.open(stored), memory_bytes=70 << 20) as database:
        sql = "SELECT list(a.i) AS l FROM range(30000000) a(i)"
        with pytest.raises(QueryError, match="more memory than it may have") as error:
            ask(database, sql)
        assert "--memory" in error.value.hint


def test_an_error_while_rows_are_fetched_is_ours(database):
    with pytest.raises(QueryError, match="Conversion"):
        ask(database, "SELECT CASE WHEN i = 99999 THEN 'x' ELSE '1' END::INT FROM range(100000) t(i)")


def test_detail_columns_are_json(database):
    [(text,)] = ask(database, "SELECT DISTINCT deployment_detail FROM runs WHERE run_id = 'b01-one-a1'")
    assert json.loads(text)["platform"] == "external"


def test_the_queries_in_the_docs_work(database):
    text = (Path(__file__).parents[3] / "docs" / "results.md").read_text()
    queries = [
        q.strip()
        for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
        for q in block.split(";")
        if q.strip()
    ]
    assert len(queries) >= 6
    for query in queries:
        assert ask(database, query), query


def test_the_documented_percentile_from_counts_is_that_of_the_requests(database):
    """The nearest-rank percentile over counts, as docs/results.md writes it, against DuckDB's over the requests."""
    text = (Path(__file__).parents[3] / "docs" / "results.md").read_text()
    query = re.search(r"-- exact pooled percentiles.*?;", text, re.DOTALL)[0]
    sql = """SELECT treatment_id, quantile_disc(latency_us, 0.95) / 1000 AS p95_ms FROM requests
        WHERE ok AND in_window AND valid GROUP BY ALL"""
    assert sorted(ask(database, query)) == sorted(ask(database, sql))
