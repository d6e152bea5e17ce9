"""A whole study on a fake OpenWhisk: load by web action and by the API, activations, a key that is written nowhere."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from support import servers
from support.cli import towtank
from support.fake_openwhisk import fake_openwhisk
from support.on_openwhisk import SUPPORT
from support.openwhisk_script import KEY, Ran, Script
from towtank.analysis import activations
from towtank.store import Database, Results

EXPERIMENT = """
experiment: on-openwhisk
question: Does the way in matter?
repetitions: 1
factors: {workload: [web, api]}
deployments:
  hello:
    platform: openwhisk
    deploy: once
    url: URL
    auth: "{env.OPENWHISK_AUTH}"
    actions:
      hello: {code: action.js, web: true, concurrency: 1}
    targets: {web: hello, api: {api: actions}}
workloads:
  web: &calls
    timeout: 5s
    load: {model: open, rate: 20/s, duration: 1s}
    journey: {steps: [{name: call, target: web, path: /, expect: {status: [200]}}]}
  api:
    <<: *calls
    journey:
      steps:
        - name: call
          target: api
          method: POST
          path: "/hello?blocking=true"
          body: {json: {n: 1}}
          expect: {status: [200]}
reset: none
settle: {timeout: 30s}
observe: [{openwhisk: {settle: 0s}}]
generator: {nice: 0, instance_header: x-openwhisk-activation-id}
"""


@pytest.fixture
def place() -> Iterator[tuple[str, Script]]:
    script = Script(
        runs={"hello": lambda given: Ran({"statusCode": 200, "body": "hello"}, 0.01)}, init_s=0.05
    )
    with servers.serving() as start:
        yield fake_openwhisk(start, script)


def write(folder: Path, url: str) -> Path:
    shutil.copy(SUPPORT / "action.js", folder)
    (folder / "experiment.yaml").write_text(EXPERIMENT.replace("URL", url))
    return folder / "experiment.yaml"


@pytest.mark.slow
def test_load_reaches_actions_and_the_key_is_written_nowhere(
    tmp_path: Path, place: tuple[str, Script]
) -> None:
    url, script = place
    done = towtank("run", write(tmp_path, url), "--set", "max_invalid_repeats=0", OPENWHISK_AUTH=KEY)
    # 6: this machine was busy, which is no matter here
    assert done.returncode in (0, 6), done.stdout + done.stderr
    assert script.left() == [], "nothing is left"
    folder = tmp_path / "results" / "on-openwhisk"
    secrets = [KEY, KEY.partition(":")[2], base64.b64encode(KEY.encode()).decode()]
    for path in (one for one in (tmp_path / "results").rglob("*") if one.is_file()):
        content = path.read_bytes()
        assert not any(one.encode() in content for one in secrets), path
    assert not any(one in done.stdout + done.stderr for one in secrets)
    records = [json.loads(one.read_text()) for one in sorted(folder.glob("runs/*/run.json"))]
    sources = [one for record in records for one in record["telemetry"]["sources"]]
    facts = [one for one in sources if one["source"] == "openwhisk"]
    assert [one["activations"] for one in facts] == [20, 20]
    assert sum(one["cold"] for one in facts) >= 1
    assert {record["deployment"]["platform"] for record in records} == {"openwhisk"}
    results = Results.open(folder)
    joined = [activations.of_run(run, run.events()) for run in results.runs("all")]
    requests = pd.concat([one.requests for one in joined if one is not None])
    assert len(requests) == sum(one["cold"] for one in facts), "each cold activation has its request"
    assert (requests["ttfb_s"] >= requests["ready"]).all(), (
        "it was initialised within the time of its request"
    )
    with Database(results) as database:
        told = database.query(
            "SELECT count(*) AS n FROM requests JOIN events ON requests.run_id = events.run_id "
            "AND json_extract_string(events.detail, '$.activation') = requests.instance "
            "WHERE events.kind = 'cold_start'"
        )
        assert told.table().to_pylist() == [{"n": sum(one["cold"] for one in facts)}]
        rows = database.query("SELECT workload, status, count(*) AS n FROM requests GROUP BY ALL ORDER BY 1")
        found = [tuple(row.values()) for row in rows.table().to_pylist()]
    assert found == [("api", 200, 20), ("web", 200, 20)]


def test_clean_removes_what_a_failed_removal_left(tmp_path: Path, place: tuple[str, Script]) -> None:
    url, script = place
    script.broken = {"DELETE actions", "PUT triggers"}
    path = write(tmp_path, url)
    path.write_text(path.read_text().replace("    targets:", "    triggers: {tick: {}}\n    targets:"))
    done = towtank("run", path, OPENWHISK_AUTH=KEY)
    assert done.returncode == 4
    assert "creating trigger" in done.stderr
    assert "could not be removed" in done.stderr
    assert len(script.left()) == 2
    lost = towtank("clean", tmp_path)
    assert "not set in the environment: OPENWHISK_AUTH" in lost.stdout
    script.broken.clear()
    cleaned = towtank("clean", tmp_path, OPENWHISK_AUTH=KEY)
    assert "ended 2 object(s) on openwhisk" in cleaned.stdout
    assert script.left() == []
