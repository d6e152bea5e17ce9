"""Files that are cut off, damaged, or something else: refused with their line, and why."""

import csv
import gzip
import io
import json
import os
from pathlib import Path

import pytest

from towtank.errors import ExitCode, ForeignFileError
from towtank.load.importers import FORMATS, open_file
from towtank.load.importers.instants import instant_us

DATA = Path(__file__).parents[3] / "data" / "imports"
CSV = [
    ("hey", "hey.csv"),
    ("oha", "oha.csv"),
    ("locust", "locust.csv"),
    ("k6", "k6.csv"),
    ("vegeta", "vegeta.csv"),
]


def refusal(tool, path):
    with pytest.raises(ForeignFileError) as caught:
        for _ in open_file(tool, path).batches():
            pass
    assert caught.value.exit_code == ExitCode.BAD_FILE
    assert str(path) in caught.value.message
    return f"{caught.value.message} | {caught.value.hint}"


@pytest.mark.parametrize(("tool", "name"), [*CSV, ("vegeta", "vegeta.json")])
@pytest.mark.parametrize("keep", [0.5, 0.97])
def test_a_file_that_is_cut_off_names_its_line(tmp_path, tool, name, keep):
    content = (DATA / name).read_bytes()
    content = content[: int(len(content) * keep)].rstrip(b"\n")
    path = tmp_path / name
    path.write_bytes(content)
    said = refusal(tool, path)
    last = content.count(b"\n") + 1
    assert f"{path}:{last}:" in said or "request" in said


@pytest.mark.parametrize(("tool", "name"), CSV)
def test_cutting_off_between_two_signs_of_the_last_cell_is_seen(tmp_path, tool, name):
    path = tmp_path / name
    path.write_bytes((DATA / name).read_bytes()[:-2])
    assert "cut off" in refusal(tool, path) or "columns" in refusal(tool, path)


@pytest.mark.parametrize(("tool", "name"), CSV)
def test_a_gzip_that_is_cut_off_is_refused(tmp_path, tool, name):
    whole = gzip.compress((DATA / name).read_bytes() * 3)
    path = tmp_path / f"{name}.gz"
    path.write_bytes(whole[: len(whole) // 2])
    assert "cut off" in refusal(tool, path)
    path.write_bytes(b"\x1f\x8bnonsense")
    refusal(tool, path)


@pytest.mark.parametrize(
    ("tool", "name", "column", "value", "words"),
    [
        ("hey", "hey.csv", 0, "fast", "column 1 (response-time) is 'fast', which is no number"),
        ("hey", "hey.csv", 7, "-1", "column 8 (offset) is '-1'; allowed are numbers from 0 to 1e+12"),
        (
            "hey",
            "hey.csv",
            0,
            "1e300",
            "column 1 (response-time) is '1e300'; allowed are numbers from 0 to 1e+12",
        ),
        ("hey", "hey.csv", 0, "nan", "column 1 (response-time) is 'nan'"),
        ("oha", "oha.csv", 4, "", "column 5 (request-duration) is empty"),
        ("oha", "oha.csv", 6, "2e2", "column 7 (status) is '2e2', which is no whole number"),
        ("locust", "locust.csv", 0, "inf", "column 1 (timestamp) is 'inf'"),
        ("vegeta", "vegeta.csv", 2, "1.5", "column 3 (latency) is '1.5', which is no whole number"),
        ("hey", "hey.csv", 3, "x", "column 4 (Request-write) is 'x', which is no number"),
        ("hey", "hey.csv", 4, "<b>", "column 5 (Response-delay) is '<b>', which is no number"),
        ("hey", "hey.csv", 0, "1_0", "column 1 (response-time) is '1_0', which is no number"),
        ("hey", "hey.csv", 6, "２００", "column 7 (status-code) is '２００', which is no whole number"),
        ("hey", "hey.csv", 6, "+200", "column 7 (status-code) is '+200', which is no whole number"),
        ("locust", "locust.csv", 4, "1_0", "column 5 (response_length) is '1_0', which is no whole number"),
        ("vegeta", "vegeta.csv", 2, "9" * 20, "column 3 (latency) is '99999999999999999999'; allowed are"),
        ("k6", "k6.csv", 2, "x", "column 3 (metric_value) is 'x'"),
    ],
)
def test_a_wrong_value_is_named_with_line_and_column(tmp_path, tool, name, column, value, words):  # noqa: PLR0917
    lines = (DATA / name).read_text().splitlines()
    cells = lines[3].split(",")
    cells[column] = value
    lines[3] = ",".join(cells)
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    said = refusal(tool, path)
    assert f"{path}:4:" in said
    assert words in said


def test_a_column_that_makes_no_row_is_looked_at_too(tmp_path):
    path = tmp_path / "vegeta.csv"
    first, second, *rest = (DATA / "vegeta.csv").read_text().splitlines()
    cells = next(csv.reader([second]))
    cells[8] = "1_0"
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerow(cells)
    path.write_text("\n".join([first, written.getvalue().rstrip("\n"), *rest]) + "\n")
    assert f"{path}:2: column 9 (seq) is '1_0', which is no whole number" in refusal("vegeta", path)


@pytest.mark.parametrize(("tool", "name"), CSV)
def test_a_line_with_too_few_or_too_many_cells_is_named(tmp_path, tool, name):
    lines = (DATA / name).read_text().splitlines()
    for line in (lines[2] + ",more", ",".join(lines[2].split(",")[:-1]), ""):
        path = tmp_path / name
        path.write_text("\n".join([*lines[:2], line, *lines[3:]]) + "\n")
        assert f"{path}:3:" in refusal(tool, path)


@pytest.mark.parametrize("tool", FORMATS)
@pytest.mark.parametrize(
    "content", [b"", b"\x00\x01\x02", b"\xff\xfe\n", b"<html>\n", b"a,b,c\n1,2,3\n", b"{}\n", b"[1]\n", b"\n" * 9,
                b"{" * 100_000 + b"\n"],
)  # fmt: skip
def test_something_else_is_refused_in_its_first_line(tmp_path, tool, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    refusal(tool, path)


def test_the_file_of_another_tool_says_whose_it_is():
    assert "towtank import oha" in refusal("hey", DATA / "oha.csv")
    assert "towtank import vegeta" in refusal("k6", DATA / "vegeta.json")


def test_binary_results_of_vegeta_are_refused_with_the_way_to_text(tmp_path):
    path = tmp_path / "results.bin"
    path.write_bytes(b"\x7f\xff\x81\x03\x01\x01\x06Result\x01\xff\x82\n")
    assert "vegeta encode --to csv" in refusal("vegeta", path)


def test_sums_are_refused_with_the_way_to_requests():
    assert "CsvRequestLogger" in refusal("locust", DATA / "locust_stats_history.csv")
    assert "holds no requests" in refusal("k6", DATA / "k6-summary.json")
    assert "holds no requests" in refusal("oha", DATA / "oha.json")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    assert "No such file" in refusal("hey", tmp_path / "none.csv")
    assert "cannot be read" in refusal("hey", tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "no file but a pipe" in refusal("hey", tmp_path / "pipe")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [lines[0], *sorted(lines[1:])], "request"),
        (lambda lines: [x for x in lines if not x.startswith("http_req_waiting")], "no line `http_req_waiting`"),
        (lambda lines: [line for line in lines if not line.startswith("http_reqs")], "without its line `http_reqs`"),
        (lambda lines: [*lines[:5], lines[4], *lines[5:]], "more than one line"),
        (lambda lines: [*lines[:4], lines[4].replace(",200,", ",201,"), *lines[5:]], "different values of `status`"),
        (lambda lines: lines[:15], "no line"),
        (lambda lines: [*lines[:2], lines[2].replace("duration,", "duration,x"), *lines[3:]], "timestamp"),
        (lambda lines: [line.replace(",1795", ",x795") for line in lines], "no instant"),
    ],
    ids=["sorted", "filtered", "no begin", "twice", "mixed", "ends early", "one odd instant", "no instants"],
)  # fmt: skip
def test_lines_of_k6_that_cannot_be_joined_are_refused(tmp_path, change, words):
    path = tmp_path / "k6.csv"
    path.write_text("\n".join(change((DATA / "k6.csv").read_text().splitlines())) + "\n")
    assert words in refusal("k6", path)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1", "1e300"])
@pytest.mark.parametrize("metric", ["http_req_waiting", "dropped_iterations", "checks"])
def test_values_of_k6_that_no_metric_can_have_are_refused(tmp_path, value, metric):
    lines = gzip.decompress((DATA / "k6.json.gz").read_bytes()).decode().splitlines()
    point = next(line for line in lines if '"Point"' in line and "http_req_waiting" in line)
    odd = point.replace("http_req_waiting", metric).replace(
        f'"value":{json.loads(point)["data"]["value"]}', f'"value":{value}'
    )
    assert value in odd
    path = tmp_path / "k6.json"
    path.write_text("\n".join(odd if line == point else line for line in lines) + "\n")
    refusal("k6", path)


def test_a_broken_line_of_json_is_named(tmp_path):
    lines = gzip.decompress((DATA / "k6.json.gz").read_bytes()).decode().splitlines()
    point = json.loads(lines[1])
    for broken in (
        "{",
        json.dumps({**point, "data": {"value": 1}}),
        json.dumps({**point, "data": {**point["data"], "value": "x"}}),
        json.dumps({**point, "data": {**point["data"], "time": 5}}),
        json.dumps({**point, "metric": ["http_reqs"]}),
        json.dumps({**point, "metric": None}),
        "[" * 100_000,
    ):
        path = tmp_path / "k6.json"
        path.write_text("\n".join([lines[0], broken, *lines[2:]]) + "\n")
        assert f"{path}:2:" in refusal("k6", path)
    result = (DATA / "vegeta.json").read_text().splitlines()
    for key, value in (
        ("latency", -1),
        ("code", "200"),
        ("timestamp", "yesterday"),
        ("timestamp", 3),
        ("bytes_in", 1.5),
    ):
        path = tmp_path / "v.json"
        path.write_text(result[0] + "\n" + json.dumps({**json.loads(result[1]), key: value}) + "\n")
        assert f"{path}:2:" in refusal("vegeta", path)


def test_files_of_k6_that_were_glued_together_are_refused(tmp_path):
    content = gzip.decompress((DATA / "k6.json.gz").read_bytes())
    path = tmp_path / "k6.json"
    path.write_bytes(content * 2)
    said = refusal("k6", path)
    again = content.count(b"\n") + 1
    assert f"{path}:{again}:" in said
    assert "glued" in said


@pytest.mark.parametrize(("tool", "name"), CSV)
def test_a_line_that_is_no_utf8_is_named(tmp_path, tool, name):
    lines = (DATA / name).read_bytes().splitlines(keepends=True)
    path = tmp_path / name
    path.write_bytes(b"".join([*lines[:7], b"\xe4" + lines[7], *lines[8:]]))
    assert f"{path}:8: is no text in UTF-8" in refusal(tool, path)


def test_a_status_that_is_none_names_its_line(tmp_path):
    lines = (DATA / "hey.csv").read_text().splitlines()
    cells = lines[1].split(",")
    cells[6] = "99999999999"
    path = tmp_path / "hey.csv"
    path.write_text("\n".join([lines[0], ",".join(cells), *lines[2:], ""]))
    assert f"{path}:2: column 7 (status-code) is '99999999999'; allowed are numbers from 0 to 999" in refusal(
        "hey", path
    )


@pytest.mark.parametrize(
    "text", ["1795242619.1_0", "１７９５２４２６１９", "+1795242619", "1795242619e0", ""]
)
def test_an_instant_is_written_in_digits(text):
    with pytest.raises(ValueError, match="is no instant"):
        instant_us(text)
