"""Files that journeys name: read and fingerprinted with the plan; what is wrong in one has its line and column."""

from __future__ import annotations

import hashlib

import pytest

from support import refused
from towtank.design import difference, load_plan

FILE = """\
experiment: files
question: Which is faster?
factors: {{deployment: [a, b]}}
repetitions: 2
deployments:
  a: {{platform: external, url: "http://127.0.0.1:1"}}
  b: {{platform: external, url: "http://127.0.0.1:2"}}
workloads:
  w:
    timeout: 2s
    load: {{model: closed, users: 2, duration: 10s}}
    feeds:
      {feed}
    journey:
      steps:
        - name: upload
          method: POST
          body: {body}
"""


def plan(folder, feed="people: people.csv", body="x", **files):
    """The plan of an experiment with these files beside it."""
    for name, content in files.items():
        place = folder / name.replace("__", "/").replace("_", ".")
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    path = folder / "experiment.yaml"
    path.write_text(FILE.format(feed=feed, body=body), "utf-8")
    return load_plan(path)


def problems(folder, *args, **files):
    return refused.problems(folder, lambda: plan(folder, *args, **files))


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_files_are_part_of_the_plan(tmp_path):
    made = plan(
        tmp_path,
        body="{multipart: [{name: f, file: parts/a.bin}]}",
        people_csv="name\nada\n",
        parts__a_bin="A",
    )
    assert made.treatments[0].spec.files == {"people.csv": sha("name\nada\n"), "parts/a.bin": sha("A")}
    assert type(made).from_json(made.to_json()).treatments == made.treatments


def test_a_changed_feed_is_a_changed_experiment(tmp_path):
    old, new = "name\nada\n", "name\nbob\n"
    before, after = plan(tmp_path, people_csv=old), plan(tmp_path, people_csv=new)
    assert before.digest != after.digest
    assert difference(before, after) == [f'files.people.csv (every treatment): "{sha(old)}" → "{sha(new)}"']


def test_a_secret_feed_is_fingerprinted_and_not_kept(tmp_path):
    made = plan(tmp_path, feed="people: {file: people.csv, secret: true}", people_csv="name\nada\n")
    spec = made.treatments[0].spec
    assert spec.files == {"people.csv": sha("name\nada\n")}
    assert spec.kept_files == {}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", ["people.csv:1:1: the feed is empty; a feed needs rows"]),
        ("name\n", ["people.csv:1:1: the feed has a header and no rows"]),
        ("\n\n", ["people.csv:1:1: the feed has no header row"]),
        ("name,age,name\na,1,b\n", ["people.csv:1:10: the column 'name' is there twice, first as column 1"]),
        ("name,\na,1\n", ["people.csv:1:6: column 2 has no name"]),
        (
            'name,age\nada,1\nbob\n"c\nd",2\neve,1,2\n',
            ["people.csv:3:1: 1 fields, where the header has 2", "people.csv:6:1: 3 fields, where the header has 2"],
        ),
        ('name\n"a\nb\n', ["people.csv:2:1: a quotation mark in the row that begins here is never closed"]),
        ('name\n"a\n"b\n',
         ["people.csv:3:1: text behind the quotation mark that ends a field; one inside of it is written twice"]),
        ("name\rada\r", ["people.csv:1:1: a carriage return without a line feed; lines end with LF or with CR LF"]),
        ("name\r\nada\r", ["people.csv:2:1: a carriage return without a line feed; lines end with LF or with CR LF"]),
        ("name, name\na,b\n", ["people.csv:1:6: the column 'name' is there twice, first as column 1"]),
        (",".join(f"c{n}" for n in range(1025)) + "\n" + ",".join("1" * 1025) + "\n",
         ["people.csv:1:1: 1025 columns; at most 1024 are read"]),
        (b"name\nada\nb\xffb\n", ["people.csv:3:2: byte 0xff is not UTF-8 (save it as UTF-8)"]),
        (b"\xef\xbb\xbfname,name\nada,1\n",
         ["people.csv:1:6: the column 'name' is there twice, first as column 1"]),  # a byte order mark is no part of it
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_csv_feed(tmp_path, content, expected):
    assert problems(tmp_path, people_csv=content) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("\n", ["people.jsonl:1:1: the feed has no rows"]),
        ('{"a": 1}\n{"a": }\n', ["people.jsonl:2:7: not JSON: Expecting value"]),
        ('{"a": 1}\n\n[1]\n{}\n',
         ['people.jsonl:3:1: a list is no object; each line is one, such as {"name": "a"}',
          "people.jsonl:4:1: the object is empty"]),
        ('{"a": 1, "a": 1}\n{"a": {"b": 1, "b": 2}}\n{"a": NaN}\n',
         ["people.jsonl:1:1: not JSON: the key 'a' is there twice; a key is written once",
          "people.jsonl:2:1: not JSON: the key 'b' is there twice; a key is written once",
          "people.jsonl:3:1: not JSON: NaN is no number of JSON"]),
        ('{"a": 1, "b": 2}\n{"b": 1, "c": 2}\n{"b": 1, "a": 2}\n',
         ["people.jsonl:2:1: the key 'a' is missing, which the first row has",
          "people.jsonl:2:1: the key 'c', which the first row does not have"]),
        ('{"a": 1}\r{"a": 2}\r', ["people.jsonl:1:10: not JSON: Extra data"]),
        ('{"": 1}\n', ["people.jsonl:1:1: a key without a name"]),
        ("[" * 100_000 + "\n", ["people.jsonl:1:1: not JSON: lists and objects are nested too deep"]),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_json_feed(tmp_path, content, expected):
    assert problems(tmp_path, "people: people.jsonl", people_jsonl=content) == expected


def test_good_feeds_are_good(tmp_path):
    plan(
        tmp_path,
        feed="people: {file: people.csv, delimiter: ;}",
        people_csv='name;age\n\n"a;b";1\r\n"x\r\n""y\r""";2\n',
    )
    plan(tmp_path, feed="people: people.jsonl", people_jsonl='{"a": [1], "b": 1}\r\n\n{"b": 2, "a": null}\n')


def test_a_file_of_another_format_does_not_flood(tmp_path):
    assert len(problems(tmp_path, people_csv="a,b\n" + "1\n" * 1000)) == 20


def test_files_that_are_not_there(tmp_path):
    assert problems(tmp_path, "people: {file: none.csv}", "{file: gone.bin}") == [
        "experiment.yaml:13:22: workloads.w.feeds.people: there is no file 'none.csv' in the experiment's folder",
        (
            "experiment.yaml:18:24: workloads.w.journey.steps[0].body.file: there is no file 'gone.bin' in the "
            "experiment's folder"
        ),
    ]
    assert problems(tmp_path, "people: ../x.csv", people_csv="a\n1\n") == [
        (
            "experiment.yaml:13:15: workloads.w.feeds.people: '../x.csv' lies outside of the experiment's folder; "
            "files that it names must be inside (copy the file beside the experiment)"
        )
    ]


def test_a_format_must_be_known(tmp_path):
    assert problems(tmp_path, "people: people.txt", people_txt="a\n1\n") == [
        (
            "experiment.yaml:13:15: workloads.w.feeds.people: nothing says whether 'people.txt' is CSV or JSON Lines "
            "(name it .csv or .jsonl, or write `format: csv` or `format: jsonl`)"
        )
    ]
