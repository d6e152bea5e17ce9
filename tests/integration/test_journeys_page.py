"""docs/journeys.md: every snippet is read as part of an experiment, and played by the engine against a server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from support.echo_app import EchoApp
from support.jobs import carried_out
from towtank.design import load_plan
from towtank.load import JobRequest, build_job, check_job
from towtank.platforms.base import Instance, Target

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "journeys.md").read_text("utf-8")
SNIPPETS = [
    (title, snippet)
    for section in PAGE.split("\n## ")[1:]
    for title in [re.sub(r"\W+", "-", section.splitlines()[0]).strip("-").lower()]
    for snippet in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
]
HEAD = """\
experiment: page
question: Does it play?
repetitions: 2
deployments: {app: {platform: external, url: "URL"}}
workloads:
"""
LOAD = {"model": "closed", "users": 2, "iterations": 4, "duration": "20s"}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Play a snippet; gives the rows and what the server got."""
    done = {}

    def play(title, snippet):
        if title not in done:
            done[title] = _play(snippet, tmp_path_factory.mktemp("page"))
        return done[title]

    return play


def _play(snippet, folder):
    read = YAML(typ="safe").load(snippet)
    workload = read["workload"] if isinstance(read, dict) else {"journey": {"steps": read}}
    (folder / "people.csv").write_text("name\nada\nbob\n")
    (folder / "rooms.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    with EchoApp() as app:
        text = (
            HEAD.replace("URL", app.url) + f"  w: {json.dumps({'load': LOAD, 'timeout': '5s', **workload})}\n"
        )
        (folder / "experiment.yaml").write_text(text, "utf-8")
        spec = load_plan(folder).treatments[0].spec
        targets = {"app": Target("app", (Instance("app-0", app.url),))}
        job = build_job(
            JobRequest("page", 3, folder / "requests", spec.driven, targets, spec.generator, files=(folder,))
        )
        assert check_job(job) == []
        carried_out(job, folder, "tt-page", timeout_s=60)
    return pq.read_table(folder / "requests.parquet").to_pylist(), app


@pytest.mark.parametrize(("title", "snippet"), SNIPPETS, ids=[title for title, _ in SNIPPETS])
def test_every_snippet_is_played_as_it_says(played, title, snippet):
    rows, _ = played(title, snippet)
    assert rows
    assert {(row["step"], row["outcome"]) for row in rows if row["outcome"] != "answered"} == set()


def play_section(played, start):
    (found,) = [(title, snippet) for title, snippet in SNIPPETS if title.startswith(start)]
    return played(*found)


def test_bodies_arrive_as_they_are_meant(played):
    rows, app = play_section(played, "2-bodies")
    assert len(rows) == 20
    bodies = [(headers.get("content-type", ""), body) for _, _, headers, body in app.got]
    objects = [json.loads(body) for kind, body in bodies if kind.startswith("application/json")]
    assert {one["user"] for one in objects} == {0, 1}, "a template alone keeps its type"
    assert any(body in {b"name=Ada+L.&agree=yes", b"name=Ada%20L.&agree=yes"} for _, body in bodies)
    assert any(
        kind.startswith("multipart/form-data; boundary=") and len(body) > 20_000 for kind, body in bodies
    )
    assert {body for kind, body in bodies if body.startswith(b"user ")} == {b"user 0", b"user 1"}


def test_queries_are_encoded(played):
    _, app = play_section(played, "1-requests")
    assert all(re.fullmatch(r"/search\?q=two(%20|\+)words&page=[123]", path) for _, path, _, _ in app.got)


def test_what_happens_once_happens_once(played):
    rows, _ = play_section(played, "5-order")
    count = {step: sum(row["step"] == step for row in rows) for step in {row["step"] for row in rows}}
    assert count["sign-in"] == 2, "once for each user"
    assert count["even"] + count["odd"] == 4
    assert 4 <= count["poll"] <= 12
    assert count.get("read", 0) + count.get("open", 0) == 4
    assert count.get("open", 0) == count.get("close", 0)


def test_rows_of_feeds_reach_the_server(played):
    _, app = play_section(played, "7-feeds")
    assert sorted(headers["x-name"] for _, _, headers, _ in app.got) == ["ada", "ada", "bob", "bob"]
    assert {path for _, path, _, _ in app.got} <= {"/rooms/1", "/rooms/2"}


def test_forms_cookies_and_redirects(played):
    rows, app = play_section(played, "8-cookies")
    sent = [row for row in rows if row["step"] == "send"]
    assert {(row["status"], row["redirects"]) for row in sent} == {(200, 1)}
    assert len(app.bodies("/thanks")) == 4


def test_a_cold_start_is_a_column(played):
    rows, _ = play_section(played, "9-cold")
    assert all(row["cold"] and not row["reused"] for row in rows)


def test_events_are_cloud_events(played):
    _, app = play_section(played, "11-traces")
    for _, _, headers, body in app.got:
        assert (headers["ce-type"], headers["ce-source"]) == ("com.example.temperature", "/sensors/1")
        assert headers["ce-specversion"] == "1.0"
        assert json.loads(body) == {"celsius": 21.5}
    assert len({headers["ce-id"] for _, _, headers, _ in app.got}) == len(app.got)


def test_what_only_the_engine_knows_has_its_place_in_the_file(tmp_path):
    """Unknown variables and columns, a capture that hides a feed: each at its line and column."""
    from towtank.cli.journey_check import checked_plan
    from towtank.errors import DesignError

    (tmp_path / "people.csv").write_text("name\nada\n")
    path = tmp_path / "experiment.yaml"
    path.write_text(
        HEAD.replace("URL", "http://127.0.0.1:9")
        + """\
  w:
    load: {model: closed, users: 2, duration: 5s}
    feeds: {people: people.csv}
    journey:
      steps:
        - {name: a, path: "/{{ nobody }}"}
        - if:
            condition: "{{ user }}"
            steps: [{name: b, path: /}]
            else: [{name: c, path: /, headers: {x: "{{ people.age }}"}}]
        - {name: d, path: /, expect: {matches: "("}}
""",
        "utf-8",
    )
    with pytest.raises(DesignError) as caught:
        checked_plan(path, profile=None, overrides={})
    found = {(p.line, p.column, p.path) for p in caught.value.problems}
    assert found == {
        (11, 27, "workloads.w.journey.steps[0].path"),
        (15, 52, "workloads.w.journey.steps[1].if.else[0].headers.x"),
        (16, 48, "workloads.w.journey.steps[2].expect.matches"),
    }
