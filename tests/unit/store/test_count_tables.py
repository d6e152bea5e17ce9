"""Count tables are exact: checked against DuckDB over the requests, and against the pooled values themselves."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.make_results import JOURNEY, SPIKE, Setting, TreatmentModel, draw_requests
from towtank.errors import ResultsError
from towtank.store import count_tables, schemas
from towtank.store.run_record import Window

CONNECTION = duckdb.connect()
WINDOW = Window(start_us=1_000_000, end_us=6_000_000, drained_us=6_100_000)
MODEL = TreatmentModel(errors=0.05, timeouts=0.03, refused=0.02, not_sent=0.02, instances=2)
SETTING = Setting("open", 60.0, 0, 6_000_000, 1_000_000, 5_000_000, SPIKE, JOURNEY, False, 5.0)


@pytest.fixture(scope="module")
def requests(tmp_path_factory):
    path = tmp_path_factory.mktemp("requests") / "requests.parquet"
    rng = np.random.default_rng(3)
    table = draw_requests(SETTING, MODEL, 1.0, rng, "app", collapsed=False, late=False)
    pq.write_table(table, path, store_schema=False, row_group_size=700)
    return path


def oracle(path, variable_sql, window_sql, bin_us):
    """The same counts by another way: SQL over the requests."""
    query = f"""
        SELECT workload, step, {schemas.OUTCOME_CLASS_SQL} AS c, {window_sql} AS w,
            floor(scheduled_us / {bin_us})::INT AS bin, {variable_sql} AS value, count(*)
        FROM read_parquet('{path}') WHERE {variable_sql} IS NOT NULL GROUP BY ALL"""
    with duckdb.connect() as connection:
        return {tuple(row[:-1]): row[-1] for row in connection.execute(query).fetchall()}


VARIABLE_SQL = {
    "latency": "lag_us::BIGINT + wait_us + coalesce(coalesce(ttfb_us, 0) + after_ttfb_us, 0)",
    "total": "coalesce(ttfb_us, 0)::BIGINT + after_ttfb_us",
    "ttfb": "ttfb_us::BIGINT",
    "connect": "connect_us::BIGINT",
    "lag": "lag_us::BIGINT",
    "wait": "wait_us::BIGINT",
}


@pytest.mark.parametrize("batch_rows", [97, 1 << 18])
@pytest.mark.parametrize("window", [WINDOW, None])
def test_counts_are_those_of_the_requests(requests, tmp_path, monkeypatch, window, batch_rows):
    monkeypatch.setattr(count_tables, "_BATCH_ROWS", batch_rows)
    monkeypatch.setattr(count_tables, "_ROWS_PER_GROUP", 1000)
    target = tmp_path / "counts.parquet"
    count_tables.write_counts(requests, target, bin_us=150_000, window=window)
    table = pq.read_table(target).cast(schemas.COUNTS)
    window_sql = "NOT warmup" if window is None else "scheduled_us >= 1000000 AND scheduled_us < 6000000"
    for variable, sql in VARIABLE_SQL.items():
        rows = [r for r in table.to_pylist() if r["variable"] == variable]
        found = {
            (r["workload"], r["step"], r["outcome_class"], r["in_window"], r["bin"], r["value"]): r["count"]
            for r in rows
        }
        assert len(found) == len(rows), "a combination has two rows"
        assert found == oracle(requests, sql, window_sql, 150_000)


def test_totals_are_those_of_the_requests(requests, tmp_path):
    count_tables.write_totals(requests, tmp_path / "totals.parquet", window=WINDOW)
    totals = pq.read_table(tmp_path / "totals.parquet")
    assert totals.schema.equals(schemas.TOTALS)
    rows = pq.read_table(requests).cast(schemas.REQUESTS).to_pylist()
    expected: Counter = Counter()
    received: Counter = Counter()
    for r in rows:
        end = None
        if r["after_ttfb_us"] is not None:
            end = (
                r["scheduled_us"] + r["lag_us"] + r["wait_us"] + (r["ttfb_us"] or 0) + r["after_ttfb_us"]
            ) // 10**6
        key = (
            r["workload"], r["step"], r["outcome"], r["status"], r["instance"],
            1_000_000 <= r["scheduled_us"] < 6_000_000, r["scheduled_us"] // 10**6, end,
        )  # fmt: skip
        expected[key] += 1
        received[key] += r["bytes_in"]
    names = [n for n in schemas.TOTALS.names if n not in ("count", "bytes_out", "bytes_in")]
    assert {tuple(r[n] for n in names): r["count"] for r in totals.to_pylist()} == dict(expected)
    assert {tuple(r[n] for n in names): r["bytes_in"] for r in totals.to_pylist()} == dict(received)
    assert any(key[-1] is None for key in expected), "the case of what was never sent is not covered"


def test_percentiles_of_merged_counts_are_those_of_the_pooled_requests(tmp_path):
    """Union and sum of two runs' tables give type-7 percentiles of the pooled values, exactly."""
    pooled, merged = [], Counter()
    for seed in (1, 2):
        table = draw_requests(
            SETTING, MODEL, 1.0, np.random.default_rng(seed), "app", collapsed=False, late=False
        )
        pq.write_table(table, tmp_path / "r.parquet")
        count_tables.write_counts(
            tmp_path / "r.parquet", tmp_path / "c.parquet", bin_us=150_000, window=WINDOW
        )
        for row in pq.read_table(tmp_path / "c.parquet").to_pylist():
            if row["variable"] == "latency" and row["in_window"] and row["outcome_class"] == "ok":
                merged[row["value"]] += row["count"]
        rows = table.cast(schemas.REQUESTS).to_pylist()
        pooled += [
            r["lag_us"] + r["wait_us"] + r["ttfb_us"] + r["after_ttfb_us"]
            for r in rows
            if r["outcome"] == "answered" and 1_000_000 <= r["scheduled_us"] < 6_000_000
        ]
    values = np.repeat(*(np.array(column) for column in zip(*sorted(merged.items()), strict=True)))
    for share in (0.5, 0.95, 0.999):
        assert np.quantile(values, share) == np.quantile(pooled, share)


@given(st.integers(0, 10**11))
def test_bins_are_forty_to_sixty_or_at_a_bound(duration_us):
    bin_us = count_tables.choose_bin_us(duration_us)
    bins = duration_us / bin_us
    assert 40 <= bins <= 60 or (bin_us == 100_000 and bins < 40) or (bin_us == 10_000_000 and bins > 40)


@pytest.mark.parametrize(
    ("seconds", "bin_us"), [(1, 100_000), (8, 200_000), (60, 1_000_000), (900, 10_000_000)]
)
def test_bins_of_common_lengths_are_round(seconds, bin_us):
    assert count_tables.choose_bin_us(seconds * 10**6) == bin_us


def test_what_is_not_sorted_is_refused_by_name(requests, tmp_path):
    table = pq.read_table(requests)
    pq.write_table(table.take(np.arange(table.num_rows)[::-1]), tmp_path / "backwards.parquet")
    with pytest.raises(ResultsError, match=r"backwards\.parquet is damaged: it is not sorted"):
        count_tables.write_counts(
            tmp_path / "backwards.parquet", tmp_path / "c.parquet", bin_us=10**6, window=None
        )
    assert not (tmp_path / "c.parquet").exists()
    assert not list(tmp_path.glob("*.tmp"))


def test_no_requests_no_counts(tmp_path):
    pq.write_table(schemas.REQUESTS.empty_table(), tmp_path / "none.parquet")
    assert (
        count_tables.write_counts(
            tmp_path / "none.parquet", tmp_path / "c.parquet", bin_us=10**6, window=WINDOW
        )
        == 0
    )
    assert count_tables.write_totals(tmp_path / "none.parquet", tmp_path / "t.parquet", window=WINDOW) == 0
    assert pq.read_table(tmp_path / "c.parquet").cast(schemas.COUNTS).num_rows == 0


def test_values_of_hours_are_exact(tmp_path):
    """Lag, wait and total at their largest still make an exact latency."""
    row = {f.name: [None] for f in schemas.REQUESTS}
    row |= {"scheduled_us": [0], "lag_us": [2**31 - 1], "wait_us": [2**31 - 1], "ttfb_us": [2**31 - 1]}
    row |= {
        "after_ttfb_us": [2**31 - 1],
        "outcome": ["answered"],
        "workload": ["w"],
        "step": ["s"],
        "warmup": [False],
    }
    row |= {"bytes_out": [1], "bytes_in": [1]}
    pq.write_table(pa.table(row, schema=schemas.REQUESTS), tmp_path / "r.parquet")
    count_tables.write_counts(tmp_path / "r.parquet", tmp_path / "c.parquet", bin_us=10**7, window=None)
    latency = [
        r["value"] for r in pq.read_table(tmp_path / "c.parquet").to_pylist() if r["variable"] == "latency"
    ]
    assert latency == [4 * (2**31 - 1)]


@given(st.sampled_from(["answered", "check:status", "check:x", "timeout:body", "refused", "not_sent", "template",
                        "capture_missing", "interrupted"])
       | st.text(max_size=12))  # fmt: skip
def test_outcome_classes_in_python_and_sql_agree(outcome):
    query = f"SELECT {schemas.OUTCOME_CLASS_SQL} FROM (SELECT ?::VARCHAR AS outcome)"
    found = CONNECTION.execute(query, [outcome]).fetchall()
    assert found == [(schemas.outcome_class(outcome),)]
    assert found[0][0] in schemas.OUTCOME_CLASSES


def test_a_request_without_what_an_earlier_answer_should_have_given_was_not_sent():
    assert schemas.outcome_class("capture_missing") == "not_sent"
