"""What each reader makes of files that the real tools wrote (tests/data/imports/README.md)."""

import gzip
import math
from pathlib import Path

import pyarrow as pa
import pytest

from towtank.load.importers import ROWS, open_file

DATA = Path(__file__).parents[3] / "data" / "imports"


def read(tool, name):
    reader = open_file(tool, DATA / name if isinstance(name, str) else name)
    batches = [pa.Table.from_batches([b]) for b in reader.batches()]
    return reader, pa.concat_tables(batches, promote_options="default").to_pylist()


def outcomes(rows, step):
    return {row["outcome"] for row in rows if row["step"] == step}


@pytest.mark.parametrize(
    ("tool", "name", "count"),
    [("hey", "hey.csv", 12), ("oha", "oha.csv", 12), ("locust", "locust.csv", 58), ("k6", "k6.csv", 16),
     ("k6", "k6.json.gz", 16), ("vegeta", "vegeta.csv", 12), ("vegeta", "vegeta-9.csv", 12),
     ("vegeta", "vegeta.json", 12)],
)  # fmt: skip
def test_every_request_is_a_row_of_known_columns(tool, name, count):
    reader, rows = read(tool, name)
    assert reader.tool == tool
    assert len(rows) == count
    assert set(rows[0]) <= set(ROWS.names)
    assert all(row["start_us"] >= 0 and row["outcome"] for row in rows)
    assert "lag_unknown" in {note.name for note in reader.notes}


def test_hey_splits_the_response_time_and_leaves_what_did_not_happen_null():
    _, rows = read("hey", "hey.csv")
    lines = (DATA / "hey.csv").read_text().splitlines()[1:]
    for row, line in zip(rows, lines, strict=True):
        total, dial, dns, _, _, last, status, offset = map(float, line.split(","))
        assert row["ttfb_us"] + row["after_ttfb_us"] == round(total * 1e6)
        assert row["after_ttfb_us"] == round(last * 1e6)
        assert row["connect_us"] == (round((dial - dns) * 1e6) if dial else None), "DNS+dialup includes DNS"
        assert row["status"] == status
        assert row["start_us"] == round(offset * 1e6)


def test_hey_and_oha_say_that_failures_are_missing():
    for tool in ("hey", "oha"):
        reader, _ = read(tool, f"{tool}.csv")
        assert [note.name for note in reader.notes if note.spoils] == ["answers_only"]


def test_the_impossible_connect_time_of_hey_is_left_out(tmp_path):
    text = (DATA / "hey.csv").read_text().splitlines()
    cells = text[1].split(",")
    cells[1] = "9223372036.8548"
    path = tmp_path / "h2.csv"
    path.write_text("\n".join([text[0], ",".join(cells), *text[2:]]) + "\n")
    reader, rows = read("hey", path)
    assert rows[0]["connect_us"] is None
    assert rows[0]["ttfb_us"] > 0
    assert "impossible_phases" in {note.name for note in reader.notes}


def test_oha_counts_from_its_own_start():
    reader, rows = read("oha", "oha.csv")
    assert not reader.is_wall_clock
    first = (DATA / "oha.csv").read_text().splitlines()[1].split(",")
    assert rows[0]["start_us"] == round(float(first[0]) * 1e6)
    assert rows[0]["ttfb_us"] + rows[0]["after_ttfb_us"] == round(float(first[4]) * 1e6)
    assert rows[0]["reused"] is False
    assert rows[0]["dns_us"] + rows[0]["connect_us"] == round(float(first[2]) * 1e6)
    assert rows[-1]["reused"] is True
    assert rows[-1]["connect_us"] is None


@pytest.mark.parametrize("name", ["k6.csv", "k6.json.gz"])
def test_k6_joins_the_lines_of_a_request(name):
    reader, rows = read("k6", name)
    assert reader.is_wall_clock
    assert outcomes(rows, "slow, one") == {"answered"}, "a name with a comma"
    assert outcomes(rows, "POST /error") == {"check:status"}, "the query is no part of the step"
    assert outcomes(rows, "GET /reset") == {"reset"}
    assert outcomes(rows, "GET /hang") == {"timeout:unknown"}
    assert outcomes(rows, "GET /refused") == {"refused"}
    refused = next(row for row in rows if row["outcome"] == "refused")
    assert refused["after_ttfb_us"] is None, "k6 writes 0 where it measured nothing"
    assert refused["status"] is None
    hang = next(row for row in rows if row["step"] == "GET /hang")
    assert 300_000 <= hang["after_ttfb_us"] < 400_000
    assert hang["ttfb_us"] is None


def test_k6_adds_up_what_it_measured():
    _, rows = read("k6", "k6.csv")
    lines = [line.split(",") for line in (DATA / "k6.csv").read_text().splitlines()[1:]]
    sums = {name: [float(cells[2]) for cells in lines if cells[0] == f"http_req_{name}"]
            for name in ("blocked", "duration", "connecting")}  # fmt: skip
    assert len(sums["blocked"]) == len(rows)
    for row, blocked, duration, connecting in zip(
        rows, sums["blocked"], sums["duration"], sums["connecting"], strict=True
    ):
        total = (row["ttfb_us"] or 0) + (row["after_ttfb_us"] or 0)
        assert math.isclose(total, (blocked + duration) * 1000, abs_tol=1)
        assert row["connect_us"] == (round(connecting * 1000) if connecting else None)


def test_k6_csv_and_json_of_one_run_agree_but_for_the_time_of_day():
    csv, from_csv = read("k6", "k6.csv")
    json, from_json = read("k6", "k6.json.gz")
    names = [name for name in from_csv[0] if name != "start_us"]
    assert [[row[n] for n in names] for row in from_csv] == [[row[n] for n in names] for row in from_json]
    assert all(
        abs(a["start_us"] - b["start_us"]) <= 1_000_000 for a, b in zip(from_csv, from_json, strict=True)
    )
    assert "times_of_day_coarse" in {note.name for note in csv.notes}
    assert "times_of_day_coarse" not in {note.name for note in json.notes}


@pytest.mark.parametrize(
    ("form", "scale"),
    [("{:.0f}", 1), ("{:.0f}", 1e3), ("{:.0f}", 1e6), ("{:.0f}", 1e9)],
    ids=["s", "ms", "us", "ns"],
)
def test_k6_instants_in_every_form(tmp_path, form, scale):
    seconds = 1_795_242_619
    path = tmp_path / "k6.csv"
    lines = (DATA / "k6.csv").read_text().splitlines()
    block = [line.split(",") for line in lines[1:10]]
    for cells in block:
        cells[1] = form.format(seconds * scale)
    path.write_text("\n".join([lines[0], *(",".join(cells) for cells in block)]) + "\n")
    _, rows = read("k6", path)
    total = (rows[0]["ttfb_us"] or 0) + rows[0]["after_ttfb_us"]
    assert rows[0]["start_us"] == seconds * 1_000_000 - total


def test_k6_rows_do_not_depend_on_how_the_file_is_cut_into_blocks(monkeypatch, tmp_path):
    lines = (DATA / "k6.csv").read_text().splitlines()
    path = tmp_path / "long.csv"
    path.write_text("\n".join([lines[0], *(lines[1:] * 40)]) + "\n")
    _, whole = read("k6", path)
    monkeypatch.setattr("towtank.load.importers.text._BLOCK_BYTES", 7_001)
    _, pieces = read("k6", path)
    assert len(whole) == 640
    assert pieces == whole


def test_k6_json_is_the_same_at_once_and_line_by_line(monkeypatch, tmp_path):
    text = gzip.decompress((DATA / "k6.json.gz").read_bytes()).decode()
    path = tmp_path / "k6.json"
    points = "".join(line for line in text.splitlines(keepends=True) if '"Point"' in line)
    path.write_text(text + points * 2)
    _, at_once = read("k6", path)
    monkeypatch.setattr("towtank.load.importers.k6._at_once", lambda block: None)
    monkeypatch.setattr("towtank.load.importers.text._BLOCK_BYTES", 5_000)
    _, by_line = read("k6", path)
    assert len(at_once) == 48
    assert at_once == by_line


def test_dropped_iterations_of_k6_spoil_the_run(tmp_path):
    path = tmp_path / "k6.csv"
    text = (DATA / "k6.csv").read_text()
    commas = "," * (text.splitlines()[0].count(",") - 2)
    path.write_text(text + f"dropped_iterations,1795242619,7.000000{commas}\n")
    reader, _ = read("k6", path)
    assert [note.name for note in reader.notes if note.spoils] == ["iterations_dropped"]


def test_locust_outcomes_follow_status_and_exception():
    reader, rows = read("locust", "locust.csv")
    assert reader.is_wall_clock
    assert outcomes(rows, "GET /slow") == {"answered"}
    assert outcomes(rows, "GET err, with comma") == {"check:status"}
    assert outcomes(rows, "GET /reset") == {"closed"}
    assert outcomes(rows, "GET /hang") == {"timeout:unknown"}
    assert all("ttfb_us" not in row for row in rows), "Locust does not know when the first byte came"


def test_what_the_script_of_locust_rejects_is_a_failed_check(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text(
        "timestamp,request_type,name,response_time_ms,response_length,status_code,exception\n"
        "1.5,GET,/a,2.5,10,200,\"CatchResponseError('too\nshort')\"\n"
        "1.6,GET,/b,,0,0,odd\n"
    )
    reader, rows = read("locust", path)
    assert [(row["start_us"], row["after_ttfb_us"], row["outcome"]) for row in rows] == [
        (1_500_000, 2500, "check:script")
    ]
    assert "events_without_time" in {note.name for note in reader.notes}


def test_vegeta_errors_become_outcomes_and_ns_become_us():
    for name in ("vegeta.csv", "vegeta.json"):
        _, rows = read("vegeta", name)
        assert [row["outcome"] for row in rows[:5]] == [
            "answered", "check:status", "check:status", "reset", "refused",
        ]  # fmt: skip
        assert rows[0]["start_us"] == 1_795_245_194_653_354
        assert rows[0]["after_ttfb_us"] == 22_218
        assert rows[3]["status"] is None
        assert rows[0]["bytes_in"] == 100
        assert (rows[2]["step"], rows[2]["target"]) == ("POST /error", "http://127.0.0.1:18111")
        hang = next(row for row in rows if row["step"] == "GET /hang")
        assert hang["outcome"] == "timeout:unknown"
        assert 500_000 <= hang["after_ttfb_us"] < 510_000


def test_gzip_is_unpacked_whatever_the_name(tmp_path):
    path = tmp_path / "k6.csv"
    path.write_bytes(gzip.compress((DATA / "k6.csv").read_bytes()))
    assert len(read("k6", path)[1]) == 16


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    content = (DATA / "hey.csv").read_bytes()
    path = tmp_path / "hey.csv"
    path.write_bytes(b"\xef\xbb\xbf" + content)
    assert read("hey", path)[1] == read("hey", "hey.csv")[1]
