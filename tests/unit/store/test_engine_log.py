"""The engine's logs: equal to the Parquet file of the same rows, and readable whatever ended them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.make_logs import encode_batch, write_log
from towtank.errors import NewerVersionError
from towtank.load import find_engine
from towtank.store import engine_log, schemas
from towtank.store.engine_log import LogEnd, read_log

U31 = st.integers(0, 2**31 - 1)
MAYBE_U31 = st.none() | U31
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "scheduled_us": st.integers(-(2**62), 2**62),
            "lag_us": U31, "wait_us": U31,
            "dns_us": MAYBE_U31, "connect_us": MAYBE_U31, "tls_us": MAYBE_U31,
            "ttfb_us": MAYBE_U31, "after_ttfb_us": MAYBE_U31,
            "status": st.none() | st.integers(100, 599),
            "outcome": st.sampled_from(["answered", "timeout:body", "check:status", "not_sent", "rêset <b>"]),
            "bytes_out": st.integers(0, 2**32 - 1), "bytes_in": st.integers(0, 2**32 - 1),
            "workload": st.sampled_from(["shop", "other"]), "step": st.sampled_from(["list", "read"]),
            "target": st.just("app"), "instance": st.none() | st.sampled_from(["app-0", "app-1"]),
            "user": U31, "iteration": U31, "worker": st.integers(0, 255), "attempt": st.integers(0, 255),
            "http_version": st.sampled_from(["1.1", "2"]), "redirects": st.integers(0, 7),
            "reused": st.booleans(), "warmup": st.booleans(), "cold": st.none() | st.booleans(),
        }
    ),
    max_size=30,
)  # fmt: skip


def read(path: Path, end: LogEnd | None = None) -> pa.Table:
    return pa.Table.from_batches(read_log(path, end), schema=schemas.REQUESTS)


@given(rows=ROWS)
@settings(max_examples=60, deadline=None)
def test_log_and_parquet_of_the_same_rows_are_equal(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    table = pa.Table.from_pylist(rows, schema=schemas.REQUESTS)
    pq.write_table(table, folder / "requests.parquet")
    write_log(folder / "thread-0.log", table, batch_rows=7)
    end = LogEnd(folder)
    assert read(folder / "thread-0.log", end).equals(pq.read_table(folder / "requests.parquet"))
    assert end.whole
    assert end.rows == len(rows)


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> tuple[bytes, pa.Table]:
    rows = {f.name: [None] * 20 for f in schemas.REQUESTS}
    numbers = (
        "lag_us",
        "wait_us",
        "bytes_out",
        "bytes_in",
        "iteration",
        "user",
        "worker",
        "attempt",
        "redirects",
    )
    rows |= {name: [0] * 20 for name in numbers}
    rows |= {
        "scheduled_us": list(range(20)),
        "outcome": ["answered"] * 20,
        "workload": ["w"] * 20,
        "step": ["s"] * 20,
    }
    rows |= {
        "target": ["t"] * 20,
        "http_version": ["1.1"] * 20,
        "reused": [True] * 20,
        "warmup": [False] * 20,
    }
    table = pa.table(rows, schema=schemas.REQUESTS)
    path = write_log(tmp_path_factory.mktemp("log") / "thread-0.log", table, batch_rows=4)
    return path.read_bytes(), table


def test_cut_off_anywhere_it_yields_the_whole_batches_before(log, tmp_path):
    content, table = log
    seen = set()
    for length in range(0, len(content), 13):
        (tmp_path / "torn.log").write_bytes(content[:length])
        end = LogEnd(tmp_path)
        found = read(tmp_path / "torn.log", end)
        assert found.equals(table.slice(0, found.num_rows))
        assert found.num_rows % 4 == 0
        assert not end.whole
        assert end.reason
        seen.add(found.num_rows)
    assert seen == {0, 4, 8, 12, 16, 20}


def test_a_flipped_bit_ends_the_log_there(log, tmp_path):
    content, table = log
    at = len(content) - 40 - 100  # in the last batch of rows, before the end batch
    (tmp_path / "bad.log").write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    end = LogEnd(tmp_path)
    assert read(tmp_path / "bad.log", end).equals(table.slice(0, 16))
    assert "damaged at byte" in end.reason


@pytest.mark.parametrize(
    "content", [b"", b"TTLG", b"\0" * 500, b"not a log at all, but long enough to be one" * 3]
)
def test_what_is_no_log_has_no_rows(content, tmp_path):
    (tmp_path / "x.log").write_bytes(content)
    end = LogEnd(tmp_path)
    assert read(tmp_path / "x.log", end).num_rows == 0
    assert not end.whole
    assert end.reason


def test_a_repeated_batch_is_damage(log, tmp_path):
    """Sequence numbers tell: a batch written twice must not count twice."""
    content, _ = log
    start = content.rindex(b"TTLG", 0, len(content) - 40)
    (tmp_path / "twice.log").write_bytes(content[: len(content) - 40] + content[start:])
    assert read(tmp_path / "twice.log").num_rows == 20


def test_a_newer_format_is_refused(tmp_path):
    (tmp_path / "new.log").write_bytes(encode_batch(0, 0, 0, b"", version=2))
    with pytest.raises(NewerVersionError, match="log format 2"):
        read(tmp_path / "new.log")


def test_ids_without_names_keep_their_rows(log, tmp_path):
    row = bytearray(64)
    row[54] = 7
    (tmp_path / "n.log").write_bytes(encode_batch(0, 0, 1, bytes(row)))
    table = read(tmp_path / "n.log")
    assert table["step"].to_pylist() == ["#7"]


def test_facts_of_the_run_are_kept(tmp_path):
    payload = json.dumps({"kind": "run", "run": {"run_id": "b01-x-a1", "warmup_us": {"shop": 5}}}).encode()
    (tmp_path / "r.log").write_bytes(encode_batch(1, 0, 1, payload))
    end = LogEnd(tmp_path)
    read(tmp_path / "r.log", end)
    assert end.run["run_id"] == "b01-x-a1"


def test_compaction_sorts_all_threads_and_can_be_repeated(log, tmp_path):
    _, table = log
    write_log(tmp_path / "thread-0.log", table.take([3, 1, 9]))
    write_log(tmp_path / "thread-1.log", table.take([0, 19, 2]), finish=False)
    logs = [tmp_path / "thread-0.log", tmp_path / "thread-1.log"]
    for _ in range(2):
        ends = engine_log.compact(logs, tmp_path / "out.parquet", temporary=tmp_path)
        assert [end.whole for end in ends] == [True, False]
        found = pq.read_table(tmp_path / "out.parquet").cast(schemas.REQUESTS)
        assert found.equals(table.take([0, 1, 2, 3, 9, 19]))


def test_a_folder_with_a_quote_can_be_compacted(log, tmp_path):
    _, table = log
    folder = tmp_path / "it's [1] *?"
    folder.mkdir()
    write_log(folder / "thread-0.log", table)
    engine_log.compact([folder / "thread-0.log"], folder / "out.parquet", temporary=folder)
    assert pq.read_table(folder / "out.parquet").num_rows == 20
    assert [p.name for p in tmp_path.iterdir()] == [folder.name]


def test_the_engine_compacts_to_the_same_table(tmp_path):
    """The contract with the Rust side: its `compact` and ours read the same log alike."""
    rows = [
        {
            "scheduled_us": 1000 * i, "lag_us": i, "wait_us": 0, "dns_us": None, "connect_us": 5 if i % 3 else None,
            "tls_us": None, "ttfb_us": 50 + i, "after_ttfb_us": 7, "status": 200 if i % 4 else None,
            "outcome": "answered" if i % 4 else "reset", "bytes_out": 10, "bytes_in": 20 * i, "workload": "shop",
            "step": ["list", "read"][i % 2], "target": "app", "instance": "app-0" if i % 5 else None, "user": i,
            "iteration": 0, "worker": 0, "attempt": 0, "http_version": "1.1", "redirects": i % 8, "reused": i % 3 == 0,
            "warmup": i < 10, "cold": None if i % 2 else i % 4 == 0,
        }
        for i in range(5000)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=schemas.REQUESTS)
    write_log(tmp_path / "logs" / "thread-0.log", table, run={"run_id": "r", "warmup_us": {"shop": 10_000}})
    ours = read(tmp_path / "logs" / "thread-0.log")
    out = tmp_path / "requests.parquet"
    done = subprocess.run(
        [find_engine(), "compact", tmp_path / "logs", out],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs = pq.read_table(out)
    assert theirs.schema.names == schemas.REQUESTS.names
    assert theirs.cast(schemas.REQUESTS).equals(ours)
