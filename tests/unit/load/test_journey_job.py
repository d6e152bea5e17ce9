"""From a journey as people write it to the journey of the job: every construct, in the words of docs/job.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from towtank.design.model import Generator, Workload
from towtank.load import JobRequest, build_job
from towtank.platforms.base import Instance, Target

TARGETS = {"app": Target("app", (Instance("app-0", "http://127.0.0.1:1"),))}
OPEN = {"model": "open", "rate": 1, "duration": "1s"}


def made(journey, **workload):
    """The workload of a job, and the job."""
    model = Workload.model_validate({"load": OPEN, "journey": journey, "timeout": "5s", **workload})
    again = Workload.model_validate(model.model_dump(mode="json", by_alias=True))
    assert again == model, "a stored plan reads as it was written"
    job = build_job(JobRequest("r", 0, Path("/r"), {"w": model}, TARGETS, Generator(), files=(Path("/f"),)))
    return job["workloads"][0], job


def request(**keys):
    """The request of a journey with one step."""
    one, _ = made({"steps": [{"name": "a", **keys}]})
    return one["journey"]["steps"][0]["request"]


def test_every_kind_of_step():
    one, _ = made(
        {
            "think": {"lognormal": ["1s", "4s"]},
            "cookies": False,
            "variables": {"page": 20, "kinds": ["a", "b"]},
            "steps": [
                {"once": [{"name": "sign-in"}]},
                {"choose": [{"weight": 3, "steps": [{"name": "read"}]}]},
                {"repeat": {"times": 3, "steps": [{"sequence": [{"name": "inner"}]}]}},
                {"repeat": {"times": [1, 5], "steps": [{"name": "more"}]}},
                {"if": {"condition": "{{ iteration > 0 }}", "steps": [{"name": "later"}], "else": [{"pause": "1s"}]}},
                {"if": {"condition": "{{ user }}", "steps": [{"pause": {"uniform": ["1ms", "2ms"]}}]}},
            ],
        }
    )  # fmt: skip
    journey = one["journey"]
    assert journey["think"] == {"lognormal_us": [1_000_000, 4_000_000]}
    assert journey["cookies"] is False
    assert journey["variables"] == {"page": 20, "kinds": ["a", "b"]}
    once, choose, three, some, both, single = journey["steps"]
    assert [step["request"]["name"] for step in once["once"]] == ["sign-in"]
    assert choose["choose"][0]["weight"] == 3
    assert three["repeat"]["times"] == 3
    assert three["repeat"]["steps"][0]["sequence"][0]["request"]["name"] == "inner"
    assert some["repeat"]["times"] == [1, 5]
    assert both["if"]["condition"] == "{{ iteration > 0 }}"
    assert both["if"]["else"] == [{"pause": {"constant_us": 1_000_000}}]
    assert single == {"if": {"condition": "{{ user }}", "steps": [{"pause": {"uniform_us": [1000, 2000]}}]}}


@pytest.mark.parametrize(
    ("body", "job"),
    [
        ("plain", "plain"),
        ({"text": "plain"}, {"text": "plain"}),
        ({"json": {"n": "{{ user }}", "deep": [1, True]}}, {"json": {"n": "{{ user }}", "deep": [1, True]}}),
        ({"json": False}, {"json": False}),
        ({"json": 0}, {"json": 0}),
        ({"json": []}, {"json": []}),
        ({"form": {"user": "x"}}, {"form": {"user": "x"}}),
        ({"form": {}}, {"form": {}}),
        ({"file": "img/a.bin"}, {"file": "/f/img/a.bin"}),
        ({"bytes": "1MiB"}, {"bytes": 2**20}),
        ({"bytes": ["1MB", "10MB"]}, {"bytes": [10**6, 10**7]}),
        ({"base64": "aGV5"}, {"base64": "aGV5"}),
        (
            {"multipart": [{"name": "a", "value": "1"}, {"name": "b", "file": "x.png", "content_type": "image/png"},
                           {"name": "c", "bytes": ["1kB", "2kB"], "filename": "c.bin"}]},
            {"multipart": [{"name": "a", "value": "1"},
                           {"name": "b", "file": "/f/x.png", "content_type": "image/png"},
                           {"name": "c", "bytes": [1000, 2000], "filename": "c.bin"}]},
        ),
    ],
)  # fmt: skip
def test_bodies(body, job):
    assert request(method="POST", body=body)["body"] == job


@pytest.mark.parametrize(
    ("expect", "job"),
    [
        ({}, {"status": ["2xx", "3xx"], "contains": None}),
        ("204", {"status": ["204"], "contains": None}),
        (["200", "3xx"], {"status": ["200", "3xx"], "contains": None}),
        ({"contains": "ok", "matches": "o."}, {"status": ["2xx", "3xx"], "contains": "ok", "matches": "o."}),
        (
            {"json": {"$.ok": True, "$.n": 0}, "size": ["1B", "1kB"]},
            {"status": ["2xx", "3xx"], "contains": None, "size_bytes": [1, 1000],
             "json": [{"path": "$.ok", "equals": True}, {"path": "$.n", "equals": 0}]},
        ),
        (
            {"json": [{"path": "$.id", "exists": False, "name": "no-id"}],
             "header": [{"name": "x", "contains": "j"}, {"name": "y", "exists": False}]},
            {"status": ["2xx", "3xx"], "contains": None,
             "json": [{"path": "$.id", "name": "no-id", "exists": False}],
             "header": [{"name": "x", "contains": "j"}, {"name": "y", "exists": False}]},
        ),
    ],
)  # fmt: skip
def test_expectations(expect, job):
    assert request(expect=expect)["expect"] == job


def test_blanks_at_the_ends_of_a_body_are_a_part_of_it():
    assert request(method="POST", body='{"a": 1}\n')["body"] == '{"a": 1}\n'
    assert request(method="POST", body={"text": " a "})["body"] == {"text": " a "}
    _, job = made({"steps": [{"name": "a"}]}, feeds={"x": {"file": "a.csv", "delimiter": "\t"}})
    assert job["feeds"]["x"]["delimiter"] == "\t"


def test_behind_redirects_a_redirect_is_not_expected():
    assert request(redirects=3)["expect"]["status"] == ["2xx"]
    assert request(redirects=3, expect="3xx")["expect"]["status"] == ["3xx"]


def test_captures():
    found = request(
        capture={
            "token": "$.token",
            "etag": {"header": "etag"},
            "sid": {"cookie": "session"},
            "csrf": {"form": "csrf_token"},
            "n": {"regex": r"total: (\d+)", "optional": True, "pick": "random"},
            "page": {"body": True},
        }
    )["capture"]
    assert found == {
        "token": {"json": "$.token"},
        "etag": {"header": "etag"},
        "sid": {"cookie": "session"},
        "csrf": {"form": "csrf_token"},
        "n": {"regex": r"total: (\d+)", "pick": "random", "optional": True},
        "page": {"body": True},
    }


def test_what_a_request_may_have_besides():
    found = request(
        query={"page": "{{ page }}"}, redirects=5, compression=True, expect_continue=True, traceparent="50%",
        grpc=True, cloud_event={"type": "t", "source": "/s", "extensions": {"shard": "1"}},
    )  # fmt: skip
    assert found["query"] == {"page": "{{ page }}"}
    assert (found["redirects"], found["compression"], found["expect_continue"]) == (5, True, True)
    assert (found["grpc"], found["traceparent"]) == (True, 0.5)
    assert found["cloud_event"] == {
        "mode": "binary", "type": "t", "source": "/s", "id": "{{ random_uuid() }}", "extensions": {"shard": "1"},
    }  # fmt: skip


def test_what_says_nothing_is_left_to_the_engine():
    assert set(request()) == {
        "name", "method", "path", "headers", "body", "timeout_us", "expect", "think",
    }  # fmt: skip


def test_parts_of_a_workload():
    one, job = made(
        {"steps": [{"name": "a"}]},
        connections={"policy": "new", "max_age": "30s", "max_requests": 5},
        rotate=["app"],
        cold={"header": {"name": "x-cold"}, "json": {"path": "$.cold"}, "above": "500ms"},
        feeds={"people": "people.csv", "lines": {"file": "l.txt", "format": "jsonl", "order": "random"}},
    )
    assert one["connections"] == {"policy": "new", "max_age_us": 30_000_000, "max_requests": 5}
    assert one["rotate"] == ["app"]
    assert one["cold"] == {
        "header": {"name": "x-cold", "equals": "true"}, "json": {"path": "$.cold", "equals": True}, "above_us": 500_000,
    }  # fmt: skip
    assert job["feeds"] == {
        "people": {"file": "/f/people.csv", "format": "csv", "order": "sequential", "delimiter": ","},
        "lines": {"file": "/f/l.txt", "format": "jsonl", "order": "random"},
    }
    assert made({"steps": [{"name": "a"}]}, connections="pool")[0]["connections"] == {"policy": "pool"}


def test_how_names_are_resolved_and_requests_traced():
    generator = Generator.model_validate({"traceparent": "1%", "dns": {"servers": ["127.0.0.1:53"]}})
    workload = Workload.model_validate({"load": OPEN, "journey": {"steps": [{"name": "a"}]}})
    job = build_job(JobRequest("r", 0, Path("/r"), {"w": workload}, TARGETS, generator))
    assert job["traceparent"] == 0.01
    assert job["dns"] == {"servers": ["127.0.0.1:53"], "cache": "ttl", "timeout_us": 5_000_000}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"body": {}}, "a body needs exactly one of"),
        ({"body": {"text": "a", "form": {}}}, "found `text` and `form`"),
        ({"body": {"bytes": ["2kB", "1kB"]}}, "the smaller size comes first"),
        ({"body": {"base64": "%%"}}, "not base64"),
        ({"body": {"json": float("nan")}}, "no value that JSON can hold"),
        ({"capture": {"a": {"json": "$.a", "header": "b"}}}, "a capture needs exactly one"),
        ({"capture": {"a b": "$.a"}}, "should match pattern"),
        ({"expect": {"json": [{"path": "$.a", "equals": 1, "exists": True}]}}, "exactly one of"),
        ({"redirects": 8}, "less than or equal to 7"),
    ],
)
def test_what_cannot_be_meant_is_refused(keys, words):
    with pytest.raises(ValidationError, match=words):
        request(method="POST", **keys)


@pytest.mark.parametrize("times", [0, [0, 0], [2, 1], -1])
def test_nothing_is_repeated_less_than_once(times):
    with pytest.raises(ValidationError, match="allowed are numbers from 0"):
        made({"steps": [{"repeat": {"times": times, "steps": [{"name": "a"}]}}]})
